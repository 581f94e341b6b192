"""What a model writes is text: shown literally in every view, under way, in the end and in a saved file.

Nothing of it becomes an element, a link of ours, a formula, a dialog or a request.
"""

import re

import pytest
from odd import HOST, MARKUP, SHOWN, TAG, held, logprobs, marked_up
from wire import failure

from oai_nb.visible import visible

VIEWS = "tokens,table,heatmap,compare"
ODD, TWO, FEW, FRAMES, TEXT, BAD, CONTROL = range(1, 8)
CELLS = [
    f"%%complete --model odd --logprobs 2 --show {VIEWS} --out odd\nodd",
    "%%complete --model two --logprobs 2 -n 2\nodd",
    "%%complete --model few --logprobs 2 --show heatmap\nodd",
    "display(odd.tokens_table(), odd.top_logprobs_table().head(60))",
    "print(odd._repr_mimebundle_()['text/plain'])",
    "%%complete --model bad\nodd",
    "from IPython.display import HTML\nHTML('<div>control $z$</div>')",
]
MADE = """node => [...node.querySelectorAll('*')].filter(one => !one.closest('.modebar, .plot-img')
    && (['A', 'IMG', 'SCRIPT', 'IFRAME', 'OBJECT', 'H1', 'EM', 'I', 'a'].includes(one.tagName)
        || one.tagName.startsWith('MJX') || (one.tagName === 'B' && ['bold', 'x'].includes(one.textContent)))
).map(one => one.outerHTML.slice(0, 200))"""
PRE = "i => [...jupyterapp.shell.currentWidget.content.widgets[i].outputArea.node.querySelectorAll('pre')]"
PRE += ".filter(one => !one.closest('details')).map(one => one.textContent)"
SIGNS = [("⏎\n", "\n"), ("⇥\t", "\t"), ("␣", " "), ("⍽", "\u00a0")]


def plain(strip):
    """A strip's text without its signs for what cannot be seen."""
    for sign, text in SIGNS:
        strip = strip.replace(sign, text)
    return strip


@pytest.fixture
def page(lab, wire):
    connect = f"%load_ext oai_nb\nimport oai_nb\noai_nb.connect({wire.url!r}, model='m')"
    page = lab.open(connect, *CELLS)
    page.dialogs = []
    page.page.on("dialog", lambda dialog: (page.dialogs.append(dialog.message), dialog.dismiss()))
    page.run(0)
    return page


def assert_nothing_came_of_it(page, *cells):
    for i in cells:
        assert page.output(i).evaluate(MADE) == [], i
        assert "\u202e" not in page.output(i).evaluate("node => node.textContent")
    assert page.dialogs == [] and page.foreign == [] and page.errors == []


def under_way(page, wire, i, model, count):
    """Run a cell and hold its answer before the end; return its texts so far, then let it end."""
    script, gate = held(count)
    wire.on(script, model=model)
    page.run(i, wait=False)
    for _ in range(count):
        page.wait(f"i => ({PRE})(i).filter(one => one.endsWith('www  ')).length === {count}", i)
    texts = page.page.evaluate(PRE, i)
    assert_nothing_came_of_it(page, i)
    page.screenshot(f"odd-{model}-under-way", cell=i)
    gate.set()
    page.finish(i)
    return texts


def test_odd_text_is_shown_literally_in_every_view_and_nothing_comes_of_it(page, wire):
    assert under_way(page, wire, ODD, "odd", 1) == [SHOWN]
    assert under_way(page, wire, TWO, "two", 2) == [SHOWN, SHOWN]
    wire.on(marked_up(), model="few")
    wire.on(failure(400, f"no {SHOWN[:200]}\x1b[31m {TAG} http://{HOST}/error \u202e"), model="bad")
    for i in range(FEW, CONTROL + 1):
        page.run(i)
    page.output(CONTROL).locator("mjx-container").first.wait_for()  # MathJax is at work, and was not on ours
    assert [plain(one) for one in page.page.evaluate(PRE, ODD)] == [SHOWN, SHOWN]  # the text, and compare
    assert [plain(one) for one in page.page.evaluate(PRE, TWO)] == [SHOWN, SHOWN]
    assert_nothing_came_of_it(page, ODD, TWO, FEW, FRAMES)
    assert TAG in page.text(FEW) and "ended (<b>end</b>)" in page.text(FEW)
    for i in (TEXT, BAD):  # JupyterLab makes addresses in plain text clickable, by itself
        text = page.output(i).locator(".jp-RenderedText")
        links = text.locator("a").evaluate_all("all => all.map(one => one.href)")
        assert links and all(re.fullmatch(r"https?://[^<>]*", link) for link in links)
        assert text.locator("img, b, script").count() == 0
    assert TAG in page.text(BAD) and "␛[31m" in page.text(BAD) and "⟨U+202E⟩" in page.text(BAD)
    page.save()
    for trusted in (True, False):
        again = page.reopen(trusted=trusted)
        again.dialogs = []
        assert plain(again.page.evaluate(PRE, ODD)[0]) == SHOWN
        assert_nothing_came_of_it(again, ODD, TWO, FEW, FRAMES)
        page = again


def test_a_heatmap_shows_markup_as_text_in_its_cells_its_axis_and_on_hover(page, wire):
    wire.on(marked_up(), model="few")
    page.run(FEW)
    plot = page.output(FEW).locator(".js-plotly-plot")
    plot.locator(".heatmaplayer").first.wait_for()
    texts = "all => all.map(one => one.textContent)"
    cells = "".join(plot.locator(".heatmap-label").evaluate_all(texts))
    ticks = "".join(plot.locator(".xtick text").evaluate_all(texts))
    for token in MARKUP:
        assert visible(token) in cells and visible(token) in ticks
    frame, hovered = plot.locator(".nsewdrag").bounding_box(), ""
    for i in range(len(MARKUP)):
        page.page.mouse.move(frame["x"] + frame["width"] * (i + 0.5) / len(MARKUP), frame["y"] + 20)
        page.wait("i => document.querySelector('.hovertext')?.textContent.includes(`position ${i},`)", i)
        hovered += page.page.evaluate("() => document.querySelector('.hovertext').textContent")
    likeliest = [top_of(i) for i in range(len(MARKUP))]
    assert [one for one in likeliest if visible(one) not in hovered] == []
    page.screenshot("odd-heatmap-hover", cell=FEW)
    assert plot.locator("svg a").count() == 0
    assert_nothing_came_of_it(page, FEW)


def top_of(position):
    """The likeliest of the few tokens at a position."""
    (row,) = logprobs(position, MARKUP[position], MARKUP)["top_logprobs"]
    return max(row, key=row.get)

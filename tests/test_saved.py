"""What is saved reads well where styles, classes and unknown tags are taken away, as GitHub does."""

import re
from html.parser import HTMLParser

import github
from made import LOCAL, ODD, REQUEST, TIMING, choice, completion, words

from oai_nb import plots, strip, tables
from oai_nb.completion import Note

NOTES = (Note("ignored", "suffix ignored"), Note("emulated", "best_of emulated"))
KNOWN = {"server": LOCAL, "model": "m", "request": REQUEST, "timing": TIMING, "fidelity": NOTES}
BLOCKS = {"div", "pre", "table", "tr", "details", "summary", "br", "p"}


class Reader(HTMLParser):
    """Reads a page as a browser without styles would lay it out: blocks are lines, cells are apart."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.text += "\n" if tag in BLOCKS else "\t" if tag in ("td", "th") else ""

    def handle_endtag(self, tag):
        self.text += "\n" if tag in BLOCKS else ""

    def handle_data(self, data):
        self.text += data


def read(html):
    shown = github.shown(html)
    assert not re.search(" (style|class|id)=", shown)
    return [line for line in Reader(shown).text.split("\n") if line.strip()]


def text_of(answer, kind="text"):
    return read(strip.bundle(answer, (kind,))["text/html"])


def test_the_facts_below_an_answer_stand_apart():
    lines = text_of(completion(choice(["a", " b"]), **KNOWN))
    (line,) = [one for one in lines if one.startswith("local")]
    assert re.match(r"local · m\s+ended \(stop\)\s+2 tokens in 2.50 s · .* 0.21 s\s+seed 7", line)
    assert "✕ suffix ignored" in lines and "≈ best_of emulated" in lines


def test_the_text_keeps_its_lines_and_spaces():
    assert text_of(completion(choice(["def f():", "\n", "    return 1"])))[:2] == [
        "def f():⏎",
        "␣␣␣␣return 1",
    ]


def test_several_choices_are_told_apart():
    lines = text_of(completion(choice([" one"]), choice([" two"], [-3.0], index=1), **KNOWN))
    assert re.match(r"0 ★ likeliest\s+-0.10 per token", lines[0]) and lines[1] == " one"
    assert re.match(r"1\s+-3.00 per token", lines[2]) and lines[3] == " two"


def test_tokens_by_themselves_stand_apart():
    assert text_of(completion(choice([" a", "b"])), "tokens")[0].strip() == "␣a 90% b 55%"


def test_a_table_is_a_table():
    lines = read(tables.table_bundle(completion(choice(ODD)))["text/html"])
    assert lines[0].split("\t") == ["", "position", "token", "probability", "logprob", "rank"]
    assert len(lines) == 1 + 2 * len(ODD) and lines[1].split("\t")[1:3] == ["0", "▸␣the"]


def test_a_heatmap_is_columns_of_text():
    lines = read(plots.heatmap(completion(words(12)))._repr_mimebundle_()["text/html"])
    assert lines[0].startswith("Likeliest tokens") and len(lines) == 14
    assert all(line.count("%") >= 5 for line in lines[2:])


def test_nothing_is_there_that_only_a_style_hides():
    answer = completion(choice(ODD), choice(ODD, index=1), **KNOWN)
    pages = [strip.bundle(answer, strip.KINDS), plots.heatmap(answer)._repr_mimebundle_()]
    for page in (*pages, tables.table_bundle(answer)):
        assert not re.search(
            'display:none|visibility|font-size:0|clip|position:|opacity:0[;"]', page["text/html"]
        )

"""The heatmap in a real JupyterLab: what is drawn, and what is left in the saved notebook."""

import json

from odd import events
from wire import DONE, stream

CODE = """%load_ext oai_nb
import oai_nb
oai_nb.connect('local')
done = oai_nb.complete('One two three four', max_tokens=100, temperature=1, seed=1, logprobs=5)"""
CELL = """() => {  // the widths of the figure and of a cell
    const {width, xaxis} = document.querySelector('.js-plotly-plot')._fullLayout;
    return [width, xaxis._length / (xaxis.range[1] - xaxis.range[0])];
}"""
PLOTLY = "application/vnd.plotly.v1+json"


def test_a_hundred_tokens_leave_less_than_50_kb_of_ours_in_the_notebook(lab):
    """D27. The picture that JupyterLab adds by itself is not ours, and is what it shows without a kernel."""
    page = lab.open(CODE, "done.heatmap()", "%%complete --max-tokens 5 --show heatmap\nHello")
    page.run_all()
    for i in (1, 2):
        page.output(i).locator(".js-plotly-plot .heatmaplayer").first.wait_for()
    page.screenshot("heatmap-100")
    page.save()
    for cell in page.saved["cells"][1:]:
        data = cell["outputs"][-1]["data"]
        data.pop("image/png", None)
        assert PLOTLY in data and len(json.dumps(data)) < 50_000
    assert page.foreign == []


def test_a_narrower_window_shows_fewer_positions_and_not_smaller_cells(lab, wire):
    wire.on(stream(*events(), DONE))
    ask = f"import oai_nb\noai_nb.connect({wire.url!r}, model='m').complete('x', logprobs=2).heatmap()"
    page = lab.open(ask, width=1200)
    page.run(0)
    page.output(0).locator(".heatmaplayer").first.wait_for()
    before = page.page.evaluate(CELL)
    page.resize(450, 900)
    page.wait(f"whole => ({CELL})()[0] < whole - 500", before[0])
    after = page.page.evaluate(CELL)
    assert after[1] > 0.9 * before[1]
    page.screenshot("heatmap-narrow", cell=0)

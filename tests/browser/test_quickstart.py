"""The quickstart as a newcomer meets it: in a real JupyterLab, with the embedded model, and saved."""

from pathlib import Path

import nbformat
import pytest
from browser.lab import screenshots

QUICKSTART = Path(__file__).parents[2] / "notebooks" / "01_quickstart.ipynb"


def cell_with(page, words):
    """The number of the cell whose source has these words."""
    sources = ["".join(cell["source"]) for cell in page.saved["cells"]]
    return next(i for i, source in enumerate(sources) if words in source)


@pytest.fixture
def quickstart(front_end):
    return front_end.open_file(QUICKSTART)


def test_the_quickstart_gives_a_story_a_table_and_a_heatmap_and_nothing_from_outside(quickstart, export):
    page = quickstart
    page.run_all()
    story, three = cell_with(page, "--out story"), cell_with(page, "--out three")
    table, heatmap = cell_with(page, "top_logprobs_table"), cell_with(page, "heatmap()")
    assert [out["output_type"] for out in page.outputs(story)] == ["display_data"]
    assert "tokens/s" in page.text(story) and "max_tokens" in page.text(story)
    assert page.text(three).count("perplexity") == 3
    assert page.output(table).locator("table").count() == 1
    page.output(heatmap).locator(".js-plotly-plot .heatmaplayer").first.wait_for()
    assert page.text(cell_with(page, "completion.text")).strip() == "' Paris'"
    assert page.foreign == [] and page.errors == []
    name = page.front.server.app
    for theme in ("light", "dark"):
        page.theme(theme)
        for what, i in (("story", story), ("three", three), ("table", table), ("heatmap", heatmap)):
            page.screenshot(f"quickstart-{name}-{theme}-{what}", cell=i)
    page.resize(400, 1000)
    page.screenshot(f"quickstart-{name}-narrow", cell=three)
    page.save()
    for trusted in (True, False):
        page = page.reopen(trusted=trusted)
        assert_it_reads_well_without_running(page, story, three, table, heatmap)
    page.screenshot(f"saved-{name}-story", cell=story)
    assert_its_export_reads_well(nbformat.read(page.path, 4), export)


def assert_it_reads_well_without_running(page, story, three, table, heatmap):
    assert "tokens/s" in page.text(story) and page.text(three).count("perplexity") == 3
    assert page.output(story).locator("span[title]").count() > 30, "the alternatives survive the sanitiser"
    page.output(story).locator("summary").press("Enter")
    assert "▸" in page.text(story)
    assert page.output(table).locator("table").count() == 1
    page.output(heatmap).locator(".heatmaplayer, img[src^='data:image/png']").first.wait_for()
    assert page.foreign == [] and page.errors == []


def assert_its_export_reads_well(notebook, export):
    """What the page asks for is the template's, and an empty notebook's page asks for the same."""
    page = export(notebook)
    assert page.asked == export(nbformat.v4.new_notebook()).asked
    text = page.locator("body").inner_text()
    assert "tokens/s" in text and text.count("per token") == 3 and "Error displaying" not in text
    assert "Likeliest tokens at each position" in text, "the figure, as text"
    page.screenshot(path=screenshots() / "quickstart-exported.png", full_page=True)


LOAD = "%load_ext oai_nb\nimport oai_nb\noai_nb.connect('local')"
LONG = "%%complete --max-tokens 2000 --temperature 1 --seed 3 --out long\nThe sea"


def test_the_stop_button_keeps_the_text_and_stops_the_model_and_the_queue(front_end):
    page = front_end.open(LOAD, LONG, "'ran'", "long.incomplete, long.text[:4], len(long.text) > 20")
    page.run(0)
    page.run_all(wait=False)
    page.wait(
        "i => jupyterapp.shell.currentWidget.content.widgets[i].outputArea.node.innerText.length > 60", 1
    )
    page.interrupt()
    page.finish()
    shown, error = page.outputs(1)
    assert error["ename"] == "Interrupted" and len(error["traceback"]) == 1
    assert "kept in long" in error["traceback"][0]
    assert "interrupted" in shown["data"]["text/html"]
    assert page.outputs(2) == [], "what was queued does not run"
    page.run(3)
    assert "interrupted" in page.text(3) and "True" in page.text(3)
    page.screenshot(f"interrupted-{front_end.server.app}", cell=1)


def test_an_error_is_one_line_and_stops_run_all(front_end):
    page = front_end.open(LOAD, "%%complete --temprature 0.8\nHello", "'ran'")
    page.run_all()
    (error,) = page.outputs(1)
    assert error["output_type"] == "error" and "did you mean --temperature?" in error["traceback"][0]
    assert len(error["traceback"]) == 1 and page.outputs(2) == []

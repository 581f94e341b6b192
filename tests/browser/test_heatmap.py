"""The heatmap in a real JupyterLab: what is drawn, and what is left in the saved notebook."""

import json

CODE = """%load_ext oai_nb
import oai_nb
oai_nb.connect('local')
done = oai_nb.complete('One two three four', max_tokens=100, temperature=1, seed=1, logprobs=5)"""
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

"""A notebook that ran without a front end, exported to a page that is read without a network."""

import nbformat
from nbclient import NotebookClient
from odd import SHOWN, held

CODE = (
    "%%complete --model odd --logprobs 2 --show tokens,table,heatmap --out odd\nodd",
    "odd.tokens_table()",
    "odd.heatmap()",
)


def test_a_notebook_run_without_a_front_end_exports_all_it_shows(wire, export):
    script, gate = held()
    gate.set()
    wire.on(script, model="odd")
    connect = f"%load_ext oai_nb\nimport oai_nb\noai_nb.connect({wire.url!r}, model='m')"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in (connect, *CODE)])
    NotebookClient(notebook, kernel_name="python3").execute()
    ours = export(notebook)
    assert ours.asked == export(nbformat.v4.new_notebook()).asked
    shown = ours.locator("pre.tex2jax_ignore").first.text_content()
    assert shown.replace("⏎\n", "\n").replace("⇥\t", "\t").replace("␣", " ").replace("⍽", "\u00a0") == SHOWN
    text = ours.locator("body").inner_text()
    assert text.count("Likeliest tokens at each position") == 2, "the figures, as text"
    assert ours.locator("table").count() == 2
    assert ours.locator("main img, main a[href^='javascript'], main script").count() == 0

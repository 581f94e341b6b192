"""A canary key, searched for in every byte that a notebook leaves behind."""

import json
import sqlite3
import subprocess
import sys
import zlib

import nbformat
import wire as scripts
from nbformat.v4 import new_code_cell, new_notebook

CANARY = "sk-CANARY0123456789abcdefCANARY"

CELLS = [
    "%load_ext oai_nb\nimport oai_nb",
    "client = oai_nb.connect({url!r}, api_key={key}, headers={{'X-Other': {key}}}); client",
    "%%complete --max-tokens 5 --out done\nHello",
    "done, done.to_json(), done.sent, done.request, done.request.to_magic()",
    "done.request.to_curl(), done.request.to_python(), vars(client)",
    "%%complete --model refused\nHello",
    "%xmode Verbose",
    "%%complete --model refused\nHello",
    "oai_nb.complete('Hello', model='refused')",
    "%config OaiNb.full_tracebacks = True",
    "oai_nb.complete('Hello', model='refused')",
    "oai_nb.connect({key})",
    "kept = [oai_nb.complete('My key is ' + {key}, model=model) for model in ('m', 'echoes')]",
    "oai_nb.history(), [oai_nb.recall(run).to_json() for run in oai_nb.history().run]",
]


def test_the_key_is_in_no_byte_of_an_executed_notebook(wire, tmp_path, monkeypatch):
    refusal = {"error": {"message": f"Incorrect API key provided: {CANARY}.", "code": "invalid_api_key"}}
    wire.on(scripts.stream(scripts.event("Hi", finish_reason="stop"), scripts.DONE))
    echo = scripts.completion(f"Your key is {CANARY}.", 0, "stop", headers={"authorization": CANARY})
    wire.on(scripts.whole(echo), model="echoes")
    wire.on(scripts.answer(401, "application/json", json.dumps(refusal)), model="refused")
    key = "__import__('os').environ['CANARY']"
    cells = [new_code_cell(cell.format(url=wire.url, key=key) if "{" in cell else cell) for cell in CELLS]
    path = tmp_path / "canary.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    history = tmp_path / "history.sqlite3"
    monkeypatch.setenv("OAI_NB_HISTORY", str(history))
    monkeypatch.setenv("CANARY", CANARY)
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    command = [
        sys.executable,
        "-m",
        "nbconvert",
        "--to",
        "notebook",
        "--execute",
        "--allow-errors",
        "--inplace",
        path,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    executed = nbformat.read(path, 4)
    kinds = [
        [output.get("ename") for output in cell.outputs if output.output_type == "error"]
        for cell in executed.cells
    ]
    assert kinds[2] == [] and kinds[5] == ["AuthenticationError"] and kinds[11] == ["ConfigurationError"]
    assert wire.requests[-1].headers["authorization"] == f"Bearer {CANARY}", "the key was really used"
    runs, kept = unpacked(history)
    assert runs == 7, "every run is kept"
    everything = path.read_text() + done.stdout + done.stderr + kept
    assert CANARY not in everything and CANARY[3:20] not in everything


def unpacked(path):
    """Return how many runs a history has, and every byte of it, also of answers before they were packed."""
    connection = sqlite3.connect(path)
    packed = [events for (events,) in connection.execute("SELECT events FROM runs")]
    connection.close()
    return len(packed), (path.read_bytes() + b"".join(map(zlib.decompress, packed))).decode("latin-1")

"""The table of all runs: its columns, whatever was run, and that nothing in it acts."""

import json
import sqlite3
from datetime import UTC, datetime

import pandas as pd
import pytest
from wire import LIMIT, completion, failure, whole

import oai_nb
from oai_nb import Client, journal
from oai_nb.errors import ConfigurationError, OaiNbError
from oai_nb.history_table import COLUMNS
from oai_nb.parameters import PARAMETERS

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


@pytest.fixture(autouse=True)
def path(tmp_path, monkeypatch):
    """Give every test a history of its own."""
    path = tmp_path / "history.sqlite3"
    monkeypatch.setenv("OAI_NB_HISTORY", str(path))
    return path


@pytest.fixture
def client(wire):
    wire.on(whole(completion("ok", finish_reason="length", usage=USAGE)))
    with Client(wire.url, model="asked") as client:
        yield client


def test_the_columns_are_the_same_whether_there_are_runs_or_not(client):
    before = oai_nb.history()
    client.complete("x")
    after = oai_nb.history()
    assert list(before.columns) == list(after.columns) == list(COLUMNS)
    assert before.dtypes.equals(after.dtypes)
    assert {name: str(dtype) for name, dtype in after.dtypes.items()} == COLUMNS
    assert (len(before), len(after)) == (0, 1)


def test_every_parameter_is_a_column():
    assert set(PARAMETERS) <= set(COLUMNS)


def test_a_row_says_what_was_asked_and_what_came(client, wire):
    before = datetime.now(UTC)
    client.complete("Say", temperature=0.5, seed=2**62 + 1, echo=False, stop="a", extra={"top_k": 4})
    (row,) = oai_nb.history().to_dict("records")
    assert before <= row["started"].to_pydatetime() <= datetime.now(UTC)
    assert 0 < row["first_token"] <= row["total"] < LIMIT
    expected = {
        "run": 1,
        "server": "unknown",
        "base_url": wire.url,
        "model": "m",
        "prompt": "Say",
        "text": "ok",
        "finish_reason": "length",
        "incomplete": None,
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "notes": "",
        "temperature": 0.5,
        "seed": 2**62 + 1,
        "echo": False,
        "stop": ["a"],
        "extra": {"top_k": 4},
    }
    assert {name: row[name] for name in expected} == expected
    assert pd.isna(row["top_p"]) and pd.isna(row["n"]) and row["suffix"] is None


def test_runs_are_filtered_by_any_parameter_and_recalled(client):
    for temperature in (None, 0.5, 1.5):
        client.complete("x", temperature=temperature, n=2)
    found = oai_nb.history().query("temperature > 1 and n == 2").run
    assert list(found) == [3]
    completion = oai_nb.recall(found.iloc[0])
    assert completion.request.temperature == 1.5
    assert "1 of 2 choices came" in oai_nb.history().notes.iloc[-1]


def test_the_newest_is_last_and_a_run_that_failed_says_why(client, wire):
    client.complete("first")
    wire.on(failure(500, "boom"), model="fails")
    with pytest.raises(OaiNbError):
        client.complete("second", model="fails")
    table = oai_nb.history()
    assert list(table.prompt) == ["first", "second"] and list(table.model) == ["m", "fails"]
    assert "boom" in table.incomplete.iloc[-1] and table.finish_reason.iloc[-1] is None
    assert table.first_token.isna().tolist() == [False, True]


def test_prompts_of_every_shape_are_there_as_they_were_asked(client):
    for prompt in ("text", ["one", "two"], [1, 2], [[1], [2, 3]]):
        client.complete(prompt)
    table = oai_nb.history()
    assert list(table.prompt) == ["text", ["one", "two"], [1, 2], [[1], [2, 3]]]
    assert list(table[table.prompt.astype(str).str.contains("two")].run) == [2]


def test_nothing_in_it_is_interpreted(wire):
    wire.on(whole(completion("<b>\x1b[31m$x$", finish_reason="stop")))
    with Client(wire.url, model="m") as client:
        client.complete("<script>alert(1)</script>")
    table = oai_nb.history()[["prompt", "text"]]
    page = table._repr_html_()
    assert "<script>" not in page and "<b>" not in page and "mathjax_ignore" in page
    assert "\x1b" not in repr(table) and "$x$" in repr(table)


def test_the_table_never_looks_at_the_answers(client, path):
    client.complete("x")
    assert journal.flush(LIMIT)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET events = 'nothing that could be read'")
    connection.close()
    assert list(oai_nb.history().text) == ["ok"]


@pytest.mark.parametrize("record", ["{", "[]", "{}"])
def test_a_row_that_is_damaged_is_one_line_that_says_how_to_be_rid_of_it(client, path, record):
    client.complete("x")
    client.complete("y")
    assert journal.flush(LIMIT)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE runs SET record = ? WHERE run = 1", [record])
    connection.close()
    with pytest.raises(ConfigurationError, match=r"^run 1 cannot be read: \w+: forget\(1\) deletes it$"):
        oai_nb.history()
    assert oai_nb.forget(1) == 1 and list(oai_nb.history().prompt) == ["y"]


def test_the_table_is_there_also_when_the_history_is_off(client, shell):
    client.complete("x")
    assert journal.flush(LIMIT)
    shell.run("%load_ext oai_nb\n%config OaiNb.history = False")
    client.complete("y")
    assert list(oai_nb.history().prompt) == ["x"]
    shell.run("%unload_ext oai_nb")


def test_a_file_that_cannot_be_read_is_one_line(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE other (x)")
    connection.close()
    with pytest.raises(ConfigurationError, match="is no history of oai_nb") as caught:
        oai_nb.history()
    assert "\n" not in str(caught.value)


def test_what_the_embedded_model_wrote_is_kept_like_any_other(wire):
    original = oai_nb.Client("local").complete("Once upon", max_tokens=3, logprobs=2, seed=1, echo=True)
    (row,) = oai_nb.history().to_dict("records")
    assert (row["server"], row["base_url"], row["completion_tokens"]) == ("local", "local", 3)
    assert oai_nb.recall(row["run"]) == original
    assert json.loads(original.to_json())["answer"]["choices"][0]["logprobs"]["tokens"]

"""What the benchmarks stand on: fair answers for both clients, a table that tells what is missed."""

import re
from importlib import import_module
from pathlib import Path

import openai
import pytest

import oai_nb

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.fixture
def command():
    return import_module("benchmarks.__main__")


@pytest.fixture
def measure():
    return import_module("benchmarks.measure")


def test_every_benchmark_is_listed_and_has_rows(command):
    shared = {"__init__", "__main__", "kernel", "llama", "machine", "measure", "server"}
    assert {path.stem for path in (ROOT / "benchmarks").glob("*.py")} == {*command.ALL} | shared
    assert all(callable(import_module(f"benchmarks.{name}").rows) for name in command.ALL)


def test_a_missed_budget_is_marked_and_a_kept_one_is_not(measure):
    kept = measure.Row("a", ">= 2x", "3", met=True)
    _, _, first, second = measure.table([kept, measure.Row("b", ">= 2x", "1", met=False)]).splitlines()
    assert "MISSED" not in first and second.startswith("| b") and "MISSED" in second


def test_all_ways_are_called_once_unmeasured_and_then_in_turns(measure):
    calls = []
    times = measure.alternate({name: lambda name=name: calls.append(name) for name in "ab"}, 3)
    assert "".join(calls) == "ab" * 4
    assert len(times["a"].wall) == len(times["b"].cpu) == 3


def test_the_page_keeps_its_words_around_what_is_made(command):
    page = command.PAGE.read_text(encoding="utf-8")
    made = command.written(command.written(page, "| first |"), "| second |")
    assert "| second |" in made and "| first |" not in made
    outside = re.compile(f"{re.escape(command.BEGIN)}.*{re.escape(command.END)}", re.DOTALL)
    assert outside.sub("", made) == outside.sub("", page) != page


def test_a_part_of_the_table_does_not_replace_the_whole(command, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks", "--only", "tables", "--write"])
    with pytest.raises(SystemExit):
        command.main()
    assert "--write replaces the whole table" in capsys.readouterr().err


def test_a_benchmark_that_fails_is_a_missed_budget(command):
    *_, last = command.measured("no such one", 1)
    assert last.met is False and "failed" in last.ours


def test_both_clients_read_the_same_from_the_server():
    server = import_module("benchmarks.server")
    with server.running(3) as url, oai_nb.Client(url) as ours:
        with openai.OpenAI(base_url=url, api_key="x", max_retries=0) as theirs:
            whole = theirs.completions.create(model=server.WHOLE, prompt="x")
            chunks = [*theirs.completions.create(model=server.LOGPROBS, prompt="x", stream=True)]
        assert ours.complete("x", model=server.WHOLE).texts == [one.text for one in whole.choices]
        streamed = ours.stream("x", model=server.LOGPROBS).result()
    assert streamed.text == "".join(chunk.choices[0].text for chunk in chunks)
    assert streamed.choices[0].logprobs.top_logprobs[2] == chunks[2].choices[0].logprobs.top_logprobs[0]
    assert len(chunks) == 3 and {len(one.logprobs.tokens) for one in whole.choices} == {server.TOKENS}

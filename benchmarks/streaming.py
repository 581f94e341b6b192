"""How fast answers are taken: oai_nb against openai-python, from the same server.

Both read each answer into their own objects, ours up to a Completion with all its columns. One row goes
on to what an answer with logprobs is asked for: its alternatives as a DataFrame, built row by row from
openai-python's objects. The history is off, but in one row, which waits until it is written.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import openai

import oai_nb
from benchmarks.measure import Row, alternate, faster
from benchmarks.server import LOGPROBS, PLAIN, TOKENS, WHOLE, N, running
from benchmarks.tables import row_by_row
from oai_nb import journal

CHUNKS = 20_000
THEIRS, OURS = "openai-python", "oai_nb"


def rows(rounds: int) -> Iterator[Row]:
    """Yield the rates of streams and the times of whole answers."""
    with running(CHUNKS) as url:
        theirs, ours = openai.OpenAI(base_url=url, api_key="x", max_retries=0), oai_nb.Client(url)
        for name, budget in ((PLAIN, 7), (LOGPROBS, 6)):
            yield _streamed(theirs, ours, name, budget, rounds)
        yield _whole("whole answer, n=20 x 500 tokens, logprobs=5", 3, _counted(theirs, ours), 3 * rounds)
        yield _whole("the same and its table of alternatives", 3, _tabulated(theirs, ours), rounds)
        with tempfile.TemporaryDirectory() as folder:
            yield _written(ours, Path(folder) / "history.db", rounds)


def _streamed(theirs: openai.OpenAI, ours: oai_nb.Client, name: str, budget: float, rounds: int) -> Row:
    def take_theirs() -> None:
        assert sum(1 for _ in theirs.completions.create(model=name, prompt="x", stream=True)) == CHUNKS

    def take_ours() -> None:
        assert len(ours.stream("x", model=name).result().text) > CHUNKS

    times = alternate({THEIRS: take_theirs, OURS: take_ours}, rounds)
    wall, words = faster(times[THEIRS], times[OURS])
    rates = {client: f"{CHUNKS / one.seconds:,.0f}/s" for client, one in times.items()}
    peer = f"{THEIRS} {rates[THEIRS]}"
    return Row(f"chunks, {name}", f">= {budget}x", rates[OURS], wall >= budget, peer, words)


def _counted(theirs: openai.OpenAI, ours: oai_nb.Client) -> dict[str, Callable[[], None]]:
    def take_theirs() -> None:
        choices = theirs.completions.create(model=WHOLE, prompt="x").choices
        assert sum(len(one.logprobs.tokens) for one in choices) == N * TOKENS

    def take_ours() -> None:
        choices = ours.complete("x", model=WHOLE).choices
        assert sum(len(one.logprobs.tokens) for one in choices) == N * TOKENS

    return {THEIRS: take_theirs, OURS: take_ours}


def _tabulated(theirs: openai.OpenAI, ours: oai_nb.Client) -> dict[str, Callable[[], None]]:
    def take_theirs() -> None:
        row_by_row(theirs.completions.create(model=WHOLE, prompt="x").model_dump())

    def take_ours() -> None:
        ours.complete("x", model=WHOLE).top_logprobs_table()

    return {THEIRS: take_theirs, OURS: take_ours}


def _written(ours: oai_nb.Client, file: Path, rounds: int) -> Row:
    """Return what the history costs, which a thread of its own writes when the answer is there."""

    def complete(history: str) -> None:
        os.environ[journal.HISTORY] = history
        ours.complete("x", model=WHOLE)
        assert journal.flush()

    times = alternate({"off": lambda: complete(journal.OFF), "on": lambda: complete(str(file))}, rounds)
    off, on = times["off"].seconds, times["on"].seconds
    ours_ms, peer = f"{1e3 * on:.1f} ms", f"history off {1e3 * off:.1f} ms"
    return Row("the same, until the history has it", "", ours_ms, True, peer, f"{on / off:.1f}x as long")


def _whole(what: str, budget: float, ways: dict[str, Callable[[], None]], rounds: int) -> Row:
    times = alternate(ways, rounds)
    wall, words = faster(times[THEIRS], times[OURS])
    spent = {client: f"{1e3 * one.seconds:.1f} ms" for client, one in times.items()}
    return Row(what, f">= {budget}x", spent[OURS], wall >= budget, f"{THEIRS} {spent[THEIRS]}", words)

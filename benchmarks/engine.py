"""How many tokens a second the embedded model reads and writes, against llama.cpp on the same file.

Ours is measured through the public API, sampling and all. llama.cpp keeps the weights in 4 bits and computes
in 8, which is faster and less exact; ours computes in float32.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial

import oai_nb
from benchmarks.llama import Llama
from benchmarks.measure import Row, Times, alternate
from oai_nb.local import threads, weights

PROMPT = "Once upon a time, in a small village by the sea,"
WRITTEN, READ = 32, 1024
"""Tokens of each answer, and of the prompt that is read."""
ENDS = {"0": -100, "2": -100}
"""The bias against the tokens that would end an answer early."""
BUDGETS = {1: {1: 22, 8: 75, 16: 140}, 2: {1: 35, 8: 120, 16: 200}}
READING = 400
OURS, PEER = "oai_nb", "llama.cpp"


def rows(rounds: int) -> Iterator[Row]:
    """Yield the rates of writing for each number of threads and answers, and of reading with one thread."""
    for number in BUDGETS:
        if number <= threads.available():
            yield from _with_threads(number, min(rounds, 3))


def _with_threads(number: int, rounds: int) -> Iterator[Row]:
    _use(number)
    peer = Llama(weights.locate(), number, slots=max(BUDGETS[number]), context=READ + 64)
    on = f"{number} thread{'s' if number > 1 else ''}"
    for n, budget in BUDGETS[number].items():
        ways = {OURS: partial(_write, n), PEER: partial(peer.write, PROMPT, n, WRITTEN)}
        yield _row(f"embedded model writes, n={n}, {on}", n * WRITTEN, budget, ways, rounds)
    if number == 1:
        ids = oai_nb.Client("local").tokenize(PROMPT * (READ // 8))[:READ]
        ways = {OURS: partial(_read, ids), PEER: partial(peer.complete, ids, 1)}
        yield _row(f"embedded model reads {READ:,} tokens, {on}", READ, READING, ways, rounds)


def _use(number: int) -> None:
    """Let the engine use so many threads, as OAI_NB_THREADS does in a fresh process."""
    os.environ[threads.VARIABLE] = str(number)
    threads.wanted.cache_clear()


def _write(n: int) -> None:
    answer = oai_nb.complete(PROMPT, n=n, max_tokens=WRITTEN, seed=1, logit_bias=ENDS)
    assert answer.usage is not None and answer.usage.completion_tokens == n * WRITTEN


def _read(ids: list[int]) -> None:
    answer = oai_nb.complete(ids, max_tokens=1)
    assert answer.usage is not None and answer.usage.prompt_tokens == READ


def _row(what: str, tokens: int, budget: int, ways: dict[str, Callable[[], object]], rounds: int) -> Row:
    times: dict[str, Times] = alternate(ways, rounds)
    rates = {name: tokens / one.seconds for name, one in times.items()}
    busy = tokens / times[OURS].cpu_seconds
    return Row(
        what,
        f">= {budget}/s",
        f"{rates[OURS]:.0f}/s ({busy:.0f} per second of processor)",
        rates[OURS] >= budget,
        f"{PEER} {rates[PEER]:.0f}/s",
        f"{rates[OURS] / rates[PEER]:.2f}x",
    )

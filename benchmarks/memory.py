"""How much memory kernels take that run the embedded model, and how two of them share the processors.

Memory is read from /proc, so this is for Linux. The weights are prepared in a folder of this benchmark's own,
so that nobody else's kernels share them. PSS counts a page that k processes map as 1/k in each. The peer is
the same program where each kernel has weights of its own (a cache that cannot be written); for the speed of
two kernels at once, one with two threads in each.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.kernel import Kernel, started
from benchmarks.measure import Row
from oai_nb.local import threads, weights

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "01_quickstart.ipynb"
THREE, PRIVATE, PEAK, SHARE = 1200, 150, 1000, 0.4
"""Megabytes, and the part of its speed alone that each of two kernels keeps."""
NOWHERE = str(Path(os.devnull) / "none")
"""A cache that cannot be written."""
STACK = """
%load_ext oai_nb
import os, oai_nb, oai_nb.client, oai_nb.plots, oai_nb.strip, oai_nb.tables, oai_nb.local.transport
"""
CELL = "%%complete --max-tokens 40 --seed 1 --logprobs 5 --out story\nOnce upon a time"
SPEED = """
answer = oai_nb.complete("Once upon a time", max_tokens=16, seed=1, logit_bias={"0": -100, "2": -100})
rate = answer.usage.completion_tokens / answer.timing.total
"""


def rows(rounds: int) -> Iterator[Row]:
    """Yield the memory of three kernels, of one, of one that runs the quickstart, and the speed of two."""
    if sys.platform != "linux":
        return
    model = str(weights.locate())
    with tempfile.TemporaryDirectory() as cold, tempfile.TemporaryDirectory() as cache:
        with environment(OAI_NB_MODEL=model, OAI_NB_CACHE=cold):
            peak = peak_of_quickstart()
        with environment(OAI_NB_MODEL=model, OAI_NB_CACHE=NOWHERE):
            peers_peak = peak_of_quickstart()
            peers = memory_of(3)
        with environment(OAI_NB_MODEL=model, OAI_NB_CACHE=cache):
            yield from _memory(memory_of(3), peers, memory_of(3, STACK))
            yield _row("kernel that runs the quickstart, one CPU: peak", PEAK, peak, peers_peak)
            yield _speed(min(rounds, 3))


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Give the kernels that are started meanwhile these variables."""
    before = os.environ.copy()
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def memory_of(count: int, cell: str = CELL) -> list[dict[str, float]]:
    """Return what so many kernels take that have run a cell and are all there still, in megabytes."""
    with ExitStack() as stack:
        kernels = [stack.enter_context(started()) for _ in range(count)]
        for kernel in kernels:
            kernel.run(STACK)
            kernel.run(cell)
        return [_rollup(_pid(kernel)) for kernel in kernels]


def peak_of_quickstart() -> float:
    """Return the most that was resident in a kernel pinned to one CPU, in megabytes; PSS is never more."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    with _one_processor(), started() as kernel:
        for cell in cells:
            if cell["cell_type"] == "code":
                kernel.run("".join(cell["source"]))
        return _kilobytes(Path(f"/proc/{_pid(kernel)}/status"))["VmHWM"] / 1e3


@contextmanager
def _one_processor() -> Iterator[None]:
    """Pin what is started meanwhile to one processor."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _pid(kernel: Kernel) -> int:
    return int(kernel.printed("import os; print(os.getpid())"))


def _rollup(pid: int) -> dict[str, float]:
    found = _kilobytes(Path(f"/proc/{pid}/smaps_rollup"))
    private = found["Private_Clean"] + found["Private_Dirty"]
    return {"pss": found["Pss"] / 1e3, "private": private / 1e3}


def _kilobytes(path: Path) -> dict[str, int]:
    """Return the lines of one of /proc's files that end in kB."""
    lines = (line.split() for line in path.read_text().splitlines() if line.endswith(" kB"))
    return {name.rstrip(":"): int(value) * 1024 // 1000 for name, value, _ in lines}


def _memory(
    ours: list[dict[str, float]], peers: list[dict[str, float]], stack: list[dict[str, float]]
) -> Iterator[Row]:
    total, peers_total = (sum(one["pss"] for one in kernels) for kernels in (ours, peers))
    yield _row("three kernels with the embedded model: PSS together", THREE, total, peers_total)
    own, peers_own, bare = (
        statistics.median(one["private"] for one in kernels) for kernels in (ours, peers, stack)
    )
    yield _row("one of them: private, above the same imports", PRIVATE, own - bare, peers_own - bare)


def _row(what: str, budget: float, ours: float, peer: float) -> Row:
    return Row(
        what,
        f"<= {budget:,} MB",
        f"{ours:,.0f} MB",
        ours <= budget,
        f"weights of its own {peer:,.0f} MB",
        f"{ours / peer:.2f}x",
    )


def _speed(rounds: int) -> Row:
    """Let one kernel and two at once take turns, with one thread each; then, once, with two threads each."""
    alone, together = _rates(rounds, "1")
    _, peers = _rates(1, "2")  # it may take minutes
    return Row(
        "two kernels at once: the slower one's part of one alone",
        f">= {SHARE:.0%}",
        f"{together / alone:.0%} ({together:.1f}/s of {alone:.1f}/s)",
        together >= SHARE * alone,
        f"two threads each {peers:.1f}/s",
        f"{together / peers:.1f}x",
    )


def _rates(rounds: int, number: str) -> tuple[float, float]:
    """Return the tokens a second of one kernel alone, and of the slower one of two at once."""
    alone, together = [], []
    with environment(**{threads.VARIABLE: number}), started() as one, started() as two:
        for kernel in (one, two):
            kernel.run(STACK)
            _rate(kernel)  # loads the model
        for _ in range(rounds):
            alone.append(_rate(one))
            two.client.execute(SPEED, store_history=False)
            together.append(min(_rate(one), _told(two)))
    return statistics.median(alone), statistics.median(together)


def _rate(kernel: Kernel) -> float:
    kernel.run(SPEED)
    return _told(kernel)


def _told(kernel: Kernel) -> float:
    """Return the rate that the kernel has measured last, as soon as it has."""
    return float(kernel.printed("print(rate)"))

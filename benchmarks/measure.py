"""What all benchmarks share: taking turns, medians, and the rows of the one table.

A benchmark is a module with `rows(rounds)`, which yields a `Row` for each budget. It runs in a process of its
own. Its way and its peer's take turns, so that what else the machine does slows both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """One budget, kept or missed. `ours` and `peer` are figures with their units, `ratio` compares them."""

    what: str
    budget: str
    ours: str
    met: bool
    peer: str = ""
    ratio: str = ""


@dataclass
class Times:
    """What one way took, a number for each round: seconds of the clock and of the processor."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, function: Callable[[], Any]) -> None:
        """Call a function, timed."""
        begun, used = time.perf_counter(), time.process_time()
        result = function()  # which is let go when both clocks have been read
        self.cpu.append(time.process_time() - used)
        self.wall.append(time.perf_counter() - begun)
        del result

    @property
    def seconds(self) -> float:
        """Give the median of the clock."""
        return statistics.median(self.wall)

    @property
    def cpu_seconds(self) -> float:
        """Give the median of the processor."""
        return statistics.median(self.cpu)


def alternate(ways: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, Times]:
    """Call each way once unmeasured, and then in turns."""
    for function in ways.values():
        function()
    times = {name: Times() for name in ways}
    for _ in range(rounds):
        for name, function in ways.items():
            times[name].add(function)
    return times


def faster(peer: Times, ours: Times) -> tuple[float, str]:
    """Return how many times as fast ours is, and that in words, with the processor's own figure."""
    wall, cpu = peer.seconds / ours.seconds, peer.cpu_seconds / ours.cpu_seconds
    return wall, f"{wall:.1f}x (processor {cpu:.1f}x)"


HEAD = ("what", "budget", "oai_nb", "peer", "ratio", "")


def table(rows: Iterable[Row]) -> str:
    """Return the rows as a table of Markdown that is also read well as text."""
    cells = [HEAD]
    cells += [(r.what, r.budget, r.ours, r.peer, r.ratio, "" if r.met else "MISSED") for r in rows]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    lines = [line(row, widths) for row in cells]
    return "\n".join([lines[0], line(["-" * width for width in widths], widths), *lines[1:]])


def line(cells: Iterable[str], widths: Iterable[int]) -> str:
    """Return one line of a table."""
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

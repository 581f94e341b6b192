"""How long the embedded model takes in a fresh process, from the import to the first token.

The weights are prepared beforehand, as they are from a machine's second kernel on. The peer loads the same
file with llama.cpp.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Row

BUDGET = 2.5
OURS = """
from time import perf_counter as now
begun = now()
import oai_nb
with oai_nb.stream("Once upon a time", max_tokens=1) as stream:
    next(iter(stream))
    print(now() - begun)
"""
PEER = """
from time import perf_counter as now
begun = now()
from benchmarks.llama import Llama
from oai_nb.local import weights
Llama(weights.locate(), 1, 1, 512).complete("Once upon a time", 1)
print(now() - begun)
"""


def rows(rounds: int) -> Iterator[Row]:
    """Yield the median seconds of both."""
    taken = {OURS: [], PEER: []}
    for count in range(rounds + 1):
        for code, seconds in taken.items():
            one = _seconds(code)
            if count:  # the first prepares the weights, and warms the disk
                seconds.append(one)
    ours, peer = (statistics.median(taken[code]) for code in (OURS, PEER))
    yield Row(
        "embedded model ready: import to first token",
        f"<= {BUDGET} s",
        f"{ours:.2f} s",
        ours <= BUDGET,
        f"llama.cpp {peer:.2f} s",
        f"{ours / peer:.2f}x",
    )


def _seconds(code: str) -> float:
    root = Path(__file__).parents[1]
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    return float(ran.stdout.split()[-1])

"""What `%load_ext` costs a fresh kernel, against `jupyter_ai_magics`.

That is no dependency: it is put into an environment of its own, by uv, for as long as it is measured.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import kernel
from benchmarks.measure import Row

BUDGET_MS, BUDGET_SHARE = 15, 0.01
PEER = "jupyter_ai_magics"
HEAVY = ("httpx", "numpy", "pandas", "plotly", "ipywidgets", "anywidget")
"""What loading must not import."""

CELL = """
from time import process_time as now, perf_counter
from sys import modules
before = now()
get_ipython().run_line_magic("load_ext", {name!r})
print(now() - before, *[one for one in {heavy} if one in modules])
"""


def rows(rounds: int) -> Iterator[Row]:
    """Yield the processor's time of loading; each round is a kernel of its own."""
    ours, heavy = _loaded("oai_nb", rounds)
    with _installed(PEER) as python:
        theirs = _loaded(PEER, rounds, python)[0] if python else None
    share = ours / theirs if theirs else 0.0
    yield Row(
        "%load_ext, processor time over a bare kernel",
        f"<= {BUDGET_MS} ms, <= {BUDGET_SHARE:.0%}, nothing heavy",
        f"{1e3 * ours:.1f} ms, imports {' '.join(heavy) or 'nothing heavy'}",
        1e3 * ours <= BUDGET_MS and share <= BUDGET_SHARE and not heavy,
        f"{PEER} {1e3 * theirs:,.0f} ms" if theirs else f"{PEER} could not be installed here",
        f"{share:.1%}" if theirs else "",
    )


def _loaded(name: str, rounds: int, python: str = sys.executable) -> tuple[float, list[str]]:
    """Return the median seconds, and which of the heavy were imported; a first kernel warms the disk."""
    seconds, found = [], set()
    for _ in range(rounds + 1):
        with kernel.started(python) as started:
            first, *heavy = started.printed(CELL.format(name=name, heavy=HEAVY)).split()
        seconds.append(float(first))
        found.update(heavy)
    return statistics.median(seconds[1:]), sorted(found)


@contextmanager
def _installed(name: str) -> Iterator[str | None]:
    """Yield the Python of an environment with a package, or None where it cannot be had."""
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        steps = (
            ["uv", "venv", "--quiet", "--python", version, folder],
            ["uv", "pip", "install", "--quiet", "--python", str(python), name, "ipykernel"],
        )
        try:
            for step in steps:
                subprocess.run(step, check=True, capture_output=True, timeout=300)
        except (OSError, subprocess.SubprocessError):
            yield None
            return
        yield str(python)

"""Measure every budget: `uv run python -m benchmarks [--only NAME] [--rounds N] [--write]`.

Each benchmark runs in a process of its own. `--write` puts the table into docs/performance.md; the words
around it are kept by hand.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from benchmarks import machine
from benchmarks.measure import Row, table
from oai_nb import journal

ALL = (
    "loading",
    "streaming",
    "tables",
    "heatmap",
    "display",
    "fanout",
    "stopping",
    "engine",
    "ready",
    "memory",
)
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- made by: python -m benchmarks --write -->", "<!-- end of what is made -->"


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    options.add_argument("--only", action="append", choices=ALL, metavar="NAME", help=", ".join(ALL))
    options.add_argument("--rounds", type=int, default=5, help="how often each way is measured (default 5)")
    options.add_argument("--write", action="store_true", help=f"put the table into docs/{PAGE.name}")
    options.add_argument("--here", choices=ALL, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.write and chosen.only:
        options.error("--write replaces the whole table: not together with --only")
    if chosen.here:
        tell(chosen.here, chosen.rounds)
    else:
        made = all_measured(chosen.only or ALL, chosen.rounds)
        print(made)
        if chosen.write:
            PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")


def all_measured(names: Iterable[str], rounds: int) -> str:
    """Return the machine and the table."""
    described, rows = machine.described(), []
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows += measured(name, rounds)
    return f"{described}\n\n{table(rows)}\n"


def tell(name: str, rounds: int) -> None:
    """Measure here, and print each row as a line of JSON."""
    for row in import_module(f"benchmarks.{name}").rows(rounds):
        print(json.dumps(asdict(row)), flush=True)


def measured(name: str, rounds: int) -> Iterator[Row]:
    """Measure in a process of its own, which writes no history; one that fails is a missed budget."""
    command = [sys.executable, "-m", "benchmarks", "--here", name, "--rounds", str(rounds)]
    env = os.environ | {journal.HISTORY: journal.OFF}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=env) as process:
        for line in process.stdout or ():
            row = Row(**json.loads(line))
            print(f"  {row.what}: {row.ours}; {row.peer} {row.ratio}", file=sys.stderr, flush=True)
            yield row
    if process.returncode:
        yield Row(name, "", f"failed, exit status {process.returncode}", met=False)


def written(page: str, made: str) -> str:
    """Return a page with what is made between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{made}\n{END}{after}"


if __name__ == "__main__":
    main()

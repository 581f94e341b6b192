"""The examples of a page of Markdown: read from it, run as it says, compared with what it shows.

- A `python` block is a cell. A `text` block right behind it is what that cell shows: times and speeds aside,
  and ``...`` stands for anything, as in doctest. If it ends with an error, the cell has to end in that one.
- An `sh` block is for a terminal.

It knows Markdown's fences and the tests' shell.
"""

import contextlib
import doctest
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shell import Ran, Shell

NOBODY = "http://127.0.0.1:8000"
"""The server of the examples, which is not there."""

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ERROR = re.compile(r"^[A-Z]\w*(?:Error|Interrupted): .*\Z", re.MULTILINE)
_TIMES = re.compile(r"\d[\d.]* (?=(?:s|tokens/s)\b)")


@dataclass(frozen=True)
class Block:
    """Hold one fenced block, and the line that it begins at; `behind` is right after the one before."""

    language: str
    text: str
    line: int
    behind: bool


@dataclass(frozen=True)
class Example:
    """Hold a cell, and what it is to show; None where the page does not say."""

    cell: str
    shown: str | None
    line: int

    @property
    def error(self) -> str | None:
        """The line of the error in which the cell is to end."""
        found = _ERROR.search(self.shown.rstrip()) if self.shown else None
        return found[0] if found else None


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    text, end, found = page.read_text(encoding="utf-8"), 0, []
    for match in _FENCE.finditer(text):
        behind = bool(found) and not text[end : match.start()].strip()
        found.append(Block(match[1], match[2], text.count("\n", 0, match.start()) + 2, behind))
        end = match.end()
    return found


def cells(page: Path) -> Iterator[Example]:
    """Yield the examples for a notebook, in their order."""
    found = blocks(page)
    for block, after in zip(found, [*found[1:], None]):
        if block.language == "python":
            shown = after.text if after and after.language == "text" and after.behind else None
            yield Example(block.text, shown, block.line)


def commands(page: Path) -> list[str]:
    """Return the examples for a terminal."""
    return [block.text.strip() for block in blocks(page) if block.language == "sh"]


def run(shell: Shell, page: Path, server: str = NOBODY) -> None:
    """Run a page's cells one after the other; `server` stands in for the one of the examples."""
    for example in cells(page):
        with _logged() as log:
            ran = shell.run(example.cell.replace(NOBODY, server))
        where = f"{page.name}, line {example.line}: {example.cell}"
        if example.error is None:
            assert ran.error is None, f"{where}\n{ran.error}"
        if example.shown is not None:
            _compare(example.shown, shown(ran, *log).replace(server, NOBODY), where)


@contextlib.contextmanager
def _logged() -> Iterator[list[str]]:
    """Collect what is logged, which a notebook shows below the cell and pytest keeps to itself."""
    messages: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())
    logging.getLogger().addHandler(handler)
    try:
        yield messages
    finally:
        logging.getLogger().removeHandler(handler)


def shown(ran: Ran, *log: str) -> str:
    """Return all that a cell shows, as text."""
    parts = [ran.stdout, ran.stderr, *log, *(output.text for output in ran.screen)]
    return "\n".join([*(part for part in parts if part), *(ran.error.lines if ran.error else ())])


def _compare(wanted: str, got: str, where: str) -> None:
    wanted, got = _plain(wanted), _plain(got)
    alike = doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS)
    assert alike, f"{where}\nthe page says\n{wanted}\nit shows\n{got}"


def _plain(text: str) -> str:
    lines = (line.rstrip() for line in _TIMES.sub("0 ", text).split("\n"))
    return "\n".join(lines).strip("\n") + "\n"

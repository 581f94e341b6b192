"""What IPython does to a cell before a magic sees it, and how to get the bytes back.

IPython strips ``>>> `` and ``In [1]: `` from the body, blanks whole lines of spaces and takes off common
indentation; refuses an empty body; breaks a line at a form feed or U+2028; and reads ``%complete Why?``
as a question about ``Why``. Two small input transformers and a look at the cell as it was typed
undo that for this magic and no other.
"""

from __future__ import annotations

import re
import token
from typing import Any

CELL, LINE = "%%complete", "%complete"


def whole_first_line(lines: list[str]) -> list[str]:
    """Give either magic its whole first line, and ``%%complete`` an empty line where it has no body."""
    name = lines[0].split(maxsplit=1)[:1] if lines else []
    if name not in ([CELL], [LINE]):
        return lines
    first, rest = _joined(lines, 0)
    return [first, *(lines[rest:] or (["\n"] if name == [CELL] else []))]


def _joined(lines: list[str], start: int) -> tuple[str, int]:
    r"""Return the line at `start` up to its ``\n``, and the index of the next."""
    end = start + 1
    while end < len(lines) and not lines[end - 1].endswith("\n"):
        end += 1
    return "".join(lines[start:end]), end


class PromptLine:
    """A token transformer of IPython's: hands ``%complete PROMPT`` over as it was typed.

    A final ``?`` stays a question to the model and blanks at the end stay, also in ``%time %complete Why?``.
    ``%complete?`` is still a call for help, and a line that ends in a backslash IPython's to continue.
    """

    priority = 1  # before IPython's own HelpEnd (5) and EscapedCommand (10)

    _name = rf"{LINE[1:]}|\w+(?=[ \t](?:.*[ \t])?{LINE}[ \t])"  # or a magic that is given the whole line
    _starts = re.compile(rf"%(?:{_name})[ \t](?!\s*\?{{1,2}}\s*$)(?!.*\\\r?\n?$)")

    def __init__(self, row: int, column: int) -> None:
        self.start_line, self.start_col = row, column  # IPython's names: it sorts transformers by them

    @classmethod
    def find(cls, tokens_by_line: list[list[Any]]) -> PromptLine | None:
        """Return the first such line among the tokens of a cell."""
        for tokens in tokens_by_line:
            first = next((one for one in tokens if one.type not in (token.INDENT, token.DEDENT)), None)
            if first is not None and cls._starts.match(first.line, first.start[1]):
                return cls(first.start[0] - 1, first.start[1])
        return None

    def transform(self, lines: list[str]) -> list[str]:
        """Return the lines with the call in place of the magic."""
        text, rest = _joined(lines, self.start_line)
        name, words = re.split(r"[ \t]", re.sub(r"\r?\n$", "", text[self.start_col + 1 :]), maxsplit=1)
        call = f"{text[: self.start_col]}get_ipython().run_line_magic({name!r}, {words!r})\n"
        return [*lines[: self.start_line], call, *lines[rest:]]


class TypedCell:
    """The cell that runs, as it was typed: IPython's ``pre_run_cell`` and ``post_run_cell`` tell.

    Some magics, such as ``%%capture``, run their body as a cell of its own, which IPython has cleaned by
    then: what was typed is the outermost.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self._running: list[Any] = []

    def begin(self, info: Any) -> None:
        """Remember a cell, within the one that runs."""
        self._running.append(info)

    def end(self, result: Any) -> None:
        """Forget it, and what began within it; or, where nobody knows which has ended, all."""
        ended = None if result is None else result.info
        places = [place for place, info in enumerate(self._running) if ended is None or info is ended]
        del self._running[places[0] if places else len(self._running) :]

    def prompt(self, line: str, cell: str, *, raw: bool) -> str:
        """Return the body of the call ``run_cell_magic("complete", line, cell)``, byte for byte.

        The one newline that ends the cell is taken off, or with `raw` kept (and added, where the cell has
        none, as IPython does). A cell whose first line ends in CR LF ends in that too.
        """
        text, newline = self._body(line, cell)
        if raw:
            return text if not text or text.endswith("\n") else text + newline
        return text.removesuffix(newline) if text.endswith(newline) else text.removesuffix("\n")

    def _body(self, line: str, cell: str) -> tuple[str, str]:
        """Find the body in the cell as it was typed, if that makes this very call; else trust IPython."""
        call = f"get_ipython().run_cell_magic('complete', {line!r}, {cell!r})\n"
        for info in self._running:
            raw = info.raw_cell or ""
            for head in re.finditer(rf"^[ \t]*{CELL}(?:[ \t].*?)?(\r?\n|\Z)", raw, re.MULTILINE):
                if self.shell.transform_cell(raw[head.start() :]) == call:
                    return raw[head.end() :], head[1] or "\n"
        return cell, "\n"

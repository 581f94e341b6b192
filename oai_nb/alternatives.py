"""What the model nearly said, a line for each token: as HTML with colours behind it, and as text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest

from oai_nb.completion import Choice
from oai_nb.markup import isolated, percent, pre, shade, tint
from oai_nb.servers import alternatives_came
from oai_nb.tokens import Alternative, Token
from oai_nb.visible import cut

RANKS = 5
"""How many alternatives are shown; the table has all."""
CHOSEN = "▸"
WIDEST = 24
"""Characters of a token that are shown."""


def prob(one: Alternative | Token) -> float:
    """Return a probability, 0 where it is unknown, never more than 1."""
    return 0.0 if one.logprob is None else math.exp(min(0.0, one.logprob))


def ranked(token: Token) -> tuple[Alternative, ...]:
    """Return the alternatives whose rank is known: not a chosen one below those that the server showed."""
    below = token.rank is None and bool(token.top) and token.top[-1].chosen
    return token.top[:-1] if below else token.top


@dataclass(frozen=True)
class _Cell:
    text: str
    style: str = ""
    strong: bool = False

    def html(self) -> str:
        tag, style = "b" if self.strong else "span", f' style="{self.style}"' if self.style else ""
        text = isolated(self.text)
        return f"<{tag}{style}>{text}</{tag}>" if style or self.strong else text


def html(choice: Choice, limit: int) -> str:
    """Return the first `limit` tokens, each with its likeliest alternatives, as monospaced columns."""
    rows = ("  ".join(cell.html() for cell in row).rstrip() for row in _rows(choice, limit))
    return pre("\n".join([*rows, *_more(choice, limit)]), wrapped=False)


def lines(choice: Choice, limit: int) -> Iterator[str]:
    """Yield the same as lines of text."""
    for row in _rows(choice, limit):
        yield "  ".join(cell.text for cell in row).rstrip()
    yield from _more(choice, limit)


def _more(choice: Choice, limit: int) -> list[str]:
    rest = len(choice.tokens) - limit
    return [f"{rest:,} more tokens: completion.top_logprobs_table()"] if rest > 0 else []


def _rows(choice: Choice, limit: int) -> Iterator[list[_Cell]]:
    """Yield a head and the cells of each token, padded into columns."""
    tokens, missing = choice.tokens[:limit], _missing(choice)
    rows = [
        [_Cell(str(i).rjust(4)), _own(token), *map(_other, ranked(token)[:RANKS])]
        for i, token in enumerate(tokens)
    ]
    head = ["    ", "token", *(f" {rank}" for rank in range(1, RANKS + 1))]
    rows.insert(0, [_Cell(name) for name in head[: max(map(len, rows), default=0)]])
    widths = [max(len(cell.text) for cell in column if cell) for column in zip_longest(*rows)]
    for i, row in enumerate(rows):
        padded = [
            replace(cell, text=cell.text.ljust(width)) for cell, width in zip(row, widths, strict=False)
        ]
        yield [*padded, _Cell(missing.get(i - 1, ""))]


def _own(token: Token) -> _Cell:
    """Return the token itself, in the colour that it has in the text."""
    if token.logprob is None:
        return _Cell(cut(token.shown, WIDEST))
    return _Cell(f"{cut(token.shown, WIDEST)} {percent(prob(token))}", shade(prob(token)))


def _other(one: Alternative) -> _Cell:
    sign, chance = CHOSEN if one.chosen else " ", prob(one)
    return _Cell(f"{sign}{cut(one.shown, WIDEST)} {percent(chance)}", tint(chance), one.chosen)


def _missing(choice: Choice) -> dict[int, str]:
    """Say at which positions the server listed fewer alternatives than were asked for."""
    asked, sizes = choice.asked_logprobs or 0, enumerate(alternatives_came(choice))
    return {i: f"{size} of {asked} came" for i, size in sizes if size is not None and size < asked}

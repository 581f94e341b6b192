"""What the model nearly said, a line for each token: as HTML with colours, as text, and to show on hover."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest

from oai_nb.completion import Choice
from oai_nb.markup import escaped, in_title, isolated, percent, pre, shade, tint
from oai_nb.servers import alternatives_came
from oai_nb.tokens import Alternative, Token
from oai_nb.visible import cut, width

RANKS = 5
"""How many alternatives are shown; the table has all."""
CHOSEN = "▸"
WIDEST = 24
"""Columns of a token that are shown."""


def prob(one: Alternative | Token) -> float:
    """Return a probability, 0 where it is unknown, never more than 1."""
    return 0.0 if one.logprob is None else math.exp(min(0.0, one.logprob))


def ranked(token: Token) -> tuple[Alternative, ...]:
    """Return the alternatives whose rank is known: not a chosen one below those that the server showed."""
    below = token.rank is None and bool(token.top) and token.top[-1].chosen
    return token.top[:-1] if below else token.top


@dataclass(frozen=True)
class _Cell:
    """A token between what is said of it; `after` ends with the spaces that make a column."""

    before: str = ""
    token: str = ""
    after: str = ""
    style: str = ""
    strong: bool = False

    @property
    def text(self) -> str:
        return self.before + self.token + self.after

    def wide(self, columns: int) -> _Cell:
        return replace(self, after=self.after + " " * (columns - width(self.text)))

    def html(self) -> str:
        tag, style = "b" if self.strong else "span", f' style="{self.style}"' if self.style else ""
        text = escaped(self.before) + isolated(self.token) + escaped(self.after)
        return f"<{tag}{style}>{text}</{tag}>" if style or self.strong else text


def html(choice: Choice, limit: int) -> str:
    """Return the first `limit` tokens, each with its likeliest alternatives, as monospaced columns."""
    rows = ("  ".join(cell.html() for cell in row).rstrip() for row in _rows(choice, limit))
    return pre("\n".join([*rows, *_more(choice, limit)]), wrapped=False)


def lines(choice: Choice, limit: int, columns: int | None = None) -> list[str]:
    """Return the same as lines of text, with fewer alternatives where `columns` hold no more."""
    found: list[str] = []
    for ranks, widest in _SIZES:
        found = ["  ".join(cell.text for cell in row).rstrip() for row in _rows(choice, limit, ranks, widest)]
        if columns is None or max(map(width, found)) <= columns:
            break
    less = ranks < min(RANKS, max((len(ranked(token)) for token in choice.tokens[:limit]), default=0))
    narrow = f"for more than {ranks} alternatives, a wider terminal or top_logprobs_table()"
    return [*found, *([narrow] if less else []), *_more(choice, limit)]


_SIZES = [(RANKS, WIDEST), *((ranks, WIDEST // 2) for ranks in range(RANKS, 0, -1))]
"""Alternatives, and columns of a token, that are tried where there is not room for all."""


def _more(choice: Choice, limit: int) -> list[str]:
    rest = len(choice.tokens) - limit
    return [f"{rest:,} more tokens: top_logprobs_table() of this completion"] if rest > 0 else []


def _rows(choice: Choice, limit: int, ranks: int = RANKS, widest: int = WIDEST) -> Iterator[list[_Cell]]:
    """Yield a head and the cells of each token, padded into columns."""
    tokens, missing = choice.tokens[:limit], _missing(choice)
    rows = [
        [_Cell(str(i).rjust(4)), _own(token, widest), *(_other(one, widest) for one in ranked(token)[:ranks])]
        for i, token in enumerate(tokens)
    ]
    head = ["    ", "token", *(f" {rank}" for rank in range(1, RANKS + 1))]
    rows.insert(0, [_Cell(name) for name in head[: max(map(len, rows), default=0)]])
    widths = [max(width(cell.text) for cell in column if cell) for column in zip_longest(*rows)]
    for i, row in enumerate(rows):
        sized = [cell.wide(columns) for cell, columns in zip(row, widths, strict=False)]
        yield [*sized, _Cell(missing.get(i - 1, ""))]


def title(tokens: Iterable[Token], token: Token) -> str:
    """Return the tokens of a piece, and what was likeliest at the least likely of them, a line each."""
    lines = [f"{in_title(one.shown)} {_odds(one)}" for one in tokens]
    for rank, one in enumerate(ranked(token)[:3], 1):
        lines.append(f"{rank} {in_title(one.shown)} {percent(prob(one))}")
    return "&#10;".join(lines)


def _odds(token: Token) -> str:
    if token.logprob is None:
        return ""
    below = ", below these" if token.top else ""
    return percent(prob(token)) + (f", rank {token.rank}" if token.rank else below)


def _own(token: Token, widest: int) -> _Cell:
    """Return the token itself, in the colour that it has in the text."""
    shown = cut(token.shown, widest)
    if token.logprob is None:
        return _Cell(token=shown)
    return _Cell("", shown, f" {percent(prob(token))}", shade(prob(token)))


def _other(one: Alternative, widest: int) -> _Cell:
    sign, chance = CHOSEN if one.chosen else " ", prob(one)
    return _Cell(sign, cut(one.shown, widest), f" {percent(chance)}", tint(chance), one.chosen)


def _missing(choice: Choice) -> dict[int, str]:
    """Say at which positions the server listed fewer alternatives than were asked for."""
    asked, sizes = choice.asked_logprobs or 0, enumerate(alternatives_came(choice))
    return {i: f"{size} of {asked} came" for i, size in sizes if size is not None and size < asked}

"""The tables of `oai_nb.tables` for eyes: a bounded number of rows, as HTML and as text.

pandas' own HTML drops leading spaces and draws a newline and a backslash with an n alike. Works on any
frame with those columns; does not import pandas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oai_nb.alternatives import CHOSEN
from oai_nb.markup import LINE, bar, escaped, isolated, percent, quiet, whole
from oai_nb.visible import cut, padded, width

if TYPE_CHECKING:
    import pandas as pd

ROWS = 50
"""Rows that are shown; the frame has all."""
LEAST = 12
"""Columns of a token that are shown in the narrowest terminal."""

Row = Mapping[str, Any]

_HEADS = {
    "choice": "choice",
    "position": "position",
    "token": "token",
    "token_id": "id",
    "prob": "probability",
    "logprob": "logprob",
    "rank": "rank",
    "surprisal_bits": "surprisal, bits",
    "entropy_bits": "entropy, bits",
}
_LEFT = ("token", "prob")


def to_html(frame: pd.DataFrame, rows: int = ROWS) -> str:
    """Return the first rows as HTML: tokens in their visible form, a bar behind each probability."""
    names = _names(frame)
    head = "".join(f'<th style="{_style(name)}">{_HEADS[name]}</th>' for name in names)
    lines, before = [], None
    for row in _rows(frame, rows):
        again = _place(row) == before
        lines.append(_line(row, names, again=again))
        before = _place(row)
    style = "border-collapse:collapse;font-size:12px;margin:2px 0"
    table = f'<table style="{style}"><tr>{head}</tr>{"".join(lines)}</table>'
    more = "".join(quiet(escaped(line)) for line in _more(frame, rows))
    return whole(f'<div style="overflow-x:auto">{table}</div>{more}')


def to_text(frame: pd.DataFrame, rows: int = ROWS, columns: int | None = None) -> str:
    """Return the same as columns of text, as many of them, and as much of the tokens, as `columns` hold."""
    names = _names(frame)
    cells = [[_HEADS[name] for name in names]]
    cells += [[_cell(row, name) for name in names] for row in _rows(frame, rows)]
    sizes = [max(map(width, column)) for column in zip(*cells, strict=True)]
    token = names.index("token")
    if columns is not None:
        while len(names) > token + 2 and _room(sizes, token, columns) < LEAST:
            names, sizes = names[:-1], sizes[:-1]
        sizes[token] = min(sizes[token], max(LEAST, _room(sizes, token, columns)))
    lines = ["  ".join(map(_aligned, names, row, sizes)).rstrip() for row in cells]
    return "\n".join([*lines, *_more(frame, rows)])


def _room(sizes: Sequence[int], token: int, columns: int) -> int:
    """Return the columns that are left for the token."""
    return columns - sum(sizes) + sizes[token] - 2 * (len(sizes) - 1)


def _aligned(name: str, text: str, columns: int) -> str:
    return padded(cut(text, columns), columns, right=name not in _LEFT)


def _names(frame: pd.DataFrame) -> list[str]:
    """Return the columns worth the room: no choice where there is one, no ids where none are known."""
    several = len(frame) > 0 and frame["choice"].iloc[0] != frame["choice"].iloc[-1]
    dropped = {"choice": not several, "token_id": not frame["token_id"].notna().any()}
    return [name for name in _HEADS if name in frame and not dropped.get(name, False)]


def _rows(frame: pd.DataFrame, rows: int) -> Iterator[Row]:
    head = frame.head(rows)
    names = [str(name) for name in head.columns]
    columns = [head[name].tolist() for name in names]
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


def _place(row: Row) -> tuple[int, int]:
    return row["choice"], row["position"]


def _line(row: Row, names: Sequence[str], *, again: bool) -> str:
    """Return one row; the place of alternatives is said once."""
    strong = "font-weight:bold;" if row.get("chosen") else ""
    line = "" if again else f' style="border-top:{LINE}"'
    cells = "".join(
        f'<td style="{_style(name)};{strong}{_behind(row, name)}">'
        f"{'' if again and name in ('choice', 'position') else _inner(row, name)}</td>"
        for name in names
    )
    return f"<tr{line}>{cells}</tr>"


def _inner(row: Row, name: str) -> str:
    """Return a cell's HTML; a token keeps its direction of writing to itself."""
    return _sign(row) + isolated(row["shown"]) if name == "token" else escaped(_cell(row, name))


def _sign(row: Row) -> str:
    return CHOSEN if row.get("chosen") else ""


def _style(name: str) -> str:
    return f"text-align:{'left' if name in _LEFT else 'right'};padding:1px 8px"


def _behind(row: Row, name: str) -> str:
    return bar(row["prob"]) if name == "prob" and row["prob"] == row["prob"] else ""


def _cell(row: Row, name: str) -> str:
    value = row[name]
    if name == "token":
        return f"{_sign(row)}{row['shown']}"
    if _missing(value):
        return "below" if name == "rank" and row.get("chosen") else ""
    bound = "≥" if name == "entropy_bits" and not row["entropy_exact"] else ""
    return bound + _FORMATS.get(name, str)(value)


_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "prob": percent,
    "logprob": "{:.3f}".format,
    "surprisal_bits": "{:.2f}".format,
    "entropy_bits": "{:.2f}".format,
}


def _missing(value: Any) -> bool:
    """Tell NaN and <NA>, the values that are not equal to themselves."""
    return value is None or (not isinstance(value, str) and str(value) in ("nan", "<NA>"))


def _more(frame: pd.DataFrame, rows: int) -> list[str]:
    method = "tokens_table" if "entropy_bits" in frame else "top_logprobs_table"
    rest = len(frame) - rows
    return [f"{rest:,} more rows: {method}() of this completion"] if rest > 0 else []

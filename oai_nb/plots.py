"""A completion as a plotly Figure. The only module that imports plotly, and only `graph_objects`.

The figure is light or dark as its page is: no background, opaque cells under dark text, grey around them. It
is shown by a bundle of our own (plotly's JSON, static HTML, text), because plotly's costs a second of imports
and leaves nothing to read without a kernel; and never as a FigureWidget, which sends five megabytes.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import plotly.graph_objects as go  # type: ignore[import-untyped]

from oai_nb import alternatives, console
from oai_nb.alternatives import prob, ranked
from oai_nb.completion import Choice, Completion
from oai_nb.errors import InvalidRequestError
from oai_nb.markup import quiet, sealed, whole
from oai_nb.tokens import Token
from oai_nb.visible import cut, width

MIME = "application/vnd.plotly.v1+json"
MOST_RANKS = 20
MOST_POSITIONS = 1_000
LISTED = 40
"""How many positions the static HTML and the text have."""
LABEL = 9
"""Characters of a token in one line of a cell; longer ones take a second."""
FEW = 8
"""Positions that fit any window; where there are more, an overview below moves the view."""

_UNLIKELY, _LIKELY, _INK = "#bcc6d1", "#2b87f0", "#111"
_GREY = "#7b7b7b"  # as far from white as from JupyterLab's black
_FRAME = "#c8540b"
_CLEAR = "rgba(0,0,0,0)"
_LETTER = 7.15  # the pixels that plotly allows for a letter of size 11
_OVERVIEW, _TITLE = 36, 32  # their heights in pixels
_EDGE = 0.53  # half a cell and half the line of its frame


class _Figure(go.Figure):  # type: ignore[misc]
    """A Figure that shows itself by our own bundle."""

    _ipython_display_ = None  # plotly's would print the JSON, or open a browser
    _static: tuple[str, str] = ("", "")

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, Any]:
        page, text = self._static
        return {MIME: self.to_plotly_json(), "text/html": page, "text/plain": text or "Figure"}


def heatmap(completion: Completion, choice: int = 0) -> go.Figure:
    """Return positions by ranks of the choice with this index: what the model nearly said, and how nearly.

    The colour is the probability, the text the token, the frame marks the chosen one; where its rank is
    unknown it has a row below. Raises InvalidRequestError without logprobs, or where there is no such index.
    """
    drawn = _choice(completion, choice)
    tokens = drawn.tokens[:MOST_POSITIONS]
    rows = _Rows(tokens)
    figure = _Figure(_trace(rows), _layout(rows, len(drawn.tokens)))
    text = "\n".join([_title(completion, drawn), *alternatives.lines(drawn, LISTED, console.columns())])
    page = whole(quiet(html.escape(_title(completion, drawn))), alternatives.html(drawn, LISTED))
    figure._static = (page, text)
    return figure


def _choice(completion: Completion, index: int) -> Choice:
    choice = next((one for one in completion.choices if one.index == index), None)
    if choice is None:
        there = ", ".join(str(one.index) for one in completion.choices) or "none"
        raise InvalidRequestError(f"choice={index!r} is not there: {there}", parameter="choice", value=index)
    if not any(token.logprob is not None for token in choice.tokens):
        message = "there are no logprobs to draw: ask with logprobs=5 (--logprobs 5 in a cell)"
        raise InvalidRequestError(message, parameter="logprobs")
    return choice


def _title(completion: Completion, choice: Choice) -> str:
    which = f" of choice {choice.index}" if len(completion.choices) > 1 else ""
    return f"Likeliest tokens at each position{which}; the chosen one is marked {alternatives.CHOSEN}"


class _Rows:
    """The cells: `z` and `text` by row and position, the rows' `names`, each position's `chosen` row."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.count = min(MOST_RANKS, max((len(ranked(token)) for token in tokens), default=0))
        below = any(map(self._is_below, tokens))
        self.names = [str(rank) for rank in range(1, self.count + 1)]
        self.names += [f">{self.count}" if self.count else "chosen"] if below else []
        self.z: list[list[float | None]] = [[None] * len(tokens) for _ in self.names]
        self.text: list[list[str]] = [[""] * len(tokens) for _ in self.names]
        self.chosen = [self._fill(x, token) for x, token in enumerate(tokens)]

    def _is_below(self, token: Token) -> bool:
        return token.logprob is not None and (token.rank is None or token.rank > self.count)

    def _fill(self, x: int, token: Token) -> int | None:
        """Write one position; return the row of its chosen cell."""
        chosen = None
        for row, one in enumerate(ranked(token)[: self.count]):
            self._write(row, x, prob(one), one.shown)
            chosen = row if one.chosen else chosen
        if chosen is None and self._is_below(token):
            chosen = self.count
            self._write(chosen, x, prob(token), token.shown)
        return chosen

    def _write(self, row: int, x: int, chance: float, shown: str) -> None:
        self.z[row][x], self.text[row][x] = _digits(chance), label(shown)


def _digits(value: float) -> float:
    """Round to what can be seen, for JSON's sake: two digits, more only close to one."""
    return float(f"{value:.2g}" if value < 0.985 else f"{value:.4f}")


def _frames(chosen: Iterable[int | None]) -> str:
    """Return the outlines of the chosen cells as one path; neighbours in a row share one."""
    path, x = "", 0
    for row, cells in groupby(chosen):
        start, x = x, x + len(list(cells))
        if row is not None:
            path += f"M{start - 0.5:g},{row + 0.5:g}H{x - 0.5:g}V{row + 1.5:g}H{start - 0.5:g}Z"
    return path


def label(shown: str) -> str:
    """Return a token's visible form as plotly's text, on two lines where it is long, its markup disarmed."""
    short = cut(shown, 2 * LABEL)
    half = len(short) if width(short) <= LABEL else (len(short) + 1) // 2
    return "<br>".join(sealed(_disarmed(line)) for line in (short[:half], short[half:]) if line)


def _disarmed(line: str) -> str:
    return line.replace("&", "&amp;").replace("<", "&lt;").replace("$", "&#36;")


def _trace(rows: _Rows) -> go.Heatmap:
    return go.Heatmap(
        z=rows.z,
        text=rows.text,
        x=[*range(len(rows.tokens))],
        y=[*range(1, len(rows.names) + 1)],
        zmin=0,
        zmax=1,
        colorscale=[[0, _UNLIKELY], [1, _LIKELY]],
        xgap=2,
        ygap=2,
        texttemplate="%{text}",
        textfont={"color": _INK},
        hovertemplate="%{text}  %{z:.3~p}<extra>position %{x:d}, rank %{y}</extra>",
        hoverongaps=False,
        colorbar={
            "thickness": 9,
            "outlinewidth": 0,
            "tickformat": ".0%",
            "title": {"text": "probability", "side": "right"},
        },
    )


def _layout(rows: _Rows, total: int) -> dict[str, Any]:
    names, overview = _names(rows), len(rows.tokens) > FEW
    row = 26 if _lines(cell for cells in rows.text for cell in cells) == 1 else 34
    cells, ticks = row * len(rows.names), 15 * _lines(names) + 12
    inner = cells + (ticks + _OVERVIEW if overview else 0)  # plotly makes the overview's room by itself
    bottom = _TITLE + (14 if overview else ticks)
    return {
        "template": "none",
        "height": 12 + inner + bottom,
        "margin": {"l": 50, "r": 10, "t": 12, "b": bottom},
        "paper_bgcolor": _CLEAR,
        "plot_bgcolor": _CLEAR,
        "font": {"color": _GREY, "size": 12},
        "dragmode": False,
        "xaxis": _positions(names, total, _width(rows) / row, _OVERVIEW / inner if overview else 0),
        "yaxis": {
            "range": [len(rows.names) + _EDGE, 1 - _EDGE],
            "constrain": "domain",
            "tickvals": [*range(1, len(rows.names) + 1)],
            "ticktext": rows.names,
            "title": {"text": "rank"},
            "fixedrange": True,
            "showgrid": False,
            "zeroline": False,
        },
        "shapes": [{"type": "path", "path": _frames(rows.chosen), "line": {"color": _FRAME, "width": 2.5}}],
    }


def _names(rows: _Rows) -> list[str]:
    """Name each position by what was chosen, and every fifth by its number too."""
    labels = [label(token.shown) for token in rows.tokens]
    return [f"{name}<br>{x}" if x % 5 == 0 else name for x, name in enumerate(labels)]


def _lines(labels: Iterable[str]) -> int:
    return max((one.count("<br>") + 1 for one in labels), default=1)


def _width(rows: _Rows) -> float:
    """Return the pixels of a cell into which the longest line fits."""
    parts = (part for cells in rows.text for cell in cells for part in cell.split("<br>"))
    return _LETTER * min(16, max(5, *map(width, parts))) + 4


def _positions(names: list[str], total: int, ratio: float, overview: float) -> dict[str, Any]:
    """Return the axis of the positions: numbers, which keep equal tokens apart, named by the tokens.

    A few are all in view. More are tied to the axis of the ranks, whose height is fixed, so that cells have
    one width in any window; as many are in view as fit, and the overview (that part of the height) reaches
    the rest.
    """
    end = len(names) - 1 + _EDGE
    first = f" (the first {len(names):,} of {total:,})" if total > len(names) else ""
    axis = {
        "range": [-_EDGE, FEW - 1 + _EDGE],
        "tickvals": [*range(len(names))],
        "ticktext": names,
        "tickfont": {"size": 11},
        "title": {"text": f"position and chosen token{first}", "standoff": 6},
        "showgrid": False,
        "zeroline": False,
    }
    if not overview:
        return axis | {"automargin": True}  # for labels that turn where there is no room
    return axis | {
        "tickangle": 0,
        "range": None,
        "autorange": True,  # one position, after any resizing, which is then widened to what fits
        "autorangeoptions": {"minallowed": -_EDGE, "maxallowed": _EDGE},
        "constrain": "range",
        "constraintoward": "left",
        "scaleanchor": "y",
        "scaleratio": round(ratio, 3),
        "minallowed": -_EDGE,
        "maxallowed": end,
        "rangeslider": {"range": [-_EDGE, end], "thickness": round(overview, 3), "bgcolor": _CLEAR},
    }

"""Pieces of HTML that read well in a saved notebook, light or dark, trusted or not, and never act.

All text goes through `escaped`; colours are half transparent and lie behind text that keeps its colour;
styles are inline and only those that JupyterLab's sanitiser lets through (so no var(), and
``overflow-wrap:break-word`` rather than ``anywhere``). Where a site takes all styles away, as GitHub does,
it is still text in its order, a table a table. Knows tokens' visible forms, nothing of completions.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable
from functools import lru_cache

from oai_nb.visible import printable

QUIET = "opacity:.75;font-size:12px"
GAP = "\u2003"
"""Between the parts of a line: it stays where styles do not, and a line may break at it."""
LINE = "1px solid rgba(128,128,128,.35)"
MONOSPACED = "font-family:Menlo,Consolas,DejaVu Sans Mono,monospace"
"""Said here, because exported pages set running text for ``<pre>``."""
NOT_MATHS = 'class="mathjax_ignore tex2jax_ignore"'
SURE = 0.7
"""From this probability on, a token has no colour."""
LEVELS = 12
"""Steps of the scale of surprise."""
MOST = 6.5
"""The surprise in nats at which the scale ends: one in 665."""

_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]"
)


def escaped(text: str) -> str:
    """Return text as HTML that shows it and nothing else, also within an attribute."""
    return html.escape(printable(text))


def isolated(text: str) -> str:
    """Return escaped text that keeps its direction of writing to itself."""
    return f"<bdi>{escaped(text)}</bdi>" if _RIGHT_TO_LEFT.search(text) else escaped(text)


def sealed(text: str) -> str:
    """Return text that keeps its direction of writing to itself where no tag can stand, by two characters."""
    return f"\u2068{text}\u2069" if _RIGHT_TO_LEFT.search(text) else text


def in_title(text: str) -> str:
    """Return escaped text for a title, its direction of writing kept to itself."""
    return sealed(escaped(text))


def whole(*parts: str) -> str:
    """Return one result's HTML, which no notebook typesets as maths."""
    return f'<div {NOT_MATHS} style="padding:4px 2px">{"".join(parts)}</div>'


def pre(inner: str, *, wrapped: bool = True) -> str:
    """Return running text that wraps, each paragraph in its own direction; or columns that do not wrap."""
    style = f"margin:0;line-height:1.65;font-size:13.5px;{MONOSPACED}"
    if wrapped:
        style += ";white-space:pre-wrap;word-break:normal;overflow-wrap:break-word"
        return f'<pre {NOT_MATHS} dir="auto" style="{style}">{inner}</pre>'
    return f'<pre {NOT_MATHS} style="{style};white-space:pre;overflow-x:auto">{inner}</pre>'


def grid(cards: Iterable[str]) -> str:
    """Return cards side by side, which flow below each other where there is no room."""
    style = "display:grid;grid-template-columns:repeat(auto-fit,minmax(250px,1fr));gap:10px;margin:2px 0"
    return f'<div style="{style}">{"".join(cards)}</div>'


def card(left: str, right: str, inner: str) -> str:
    """Return one of several answers, with a line above it."""
    head = f"{QUIET};display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 10px;margin-bottom:4px"
    return (
        f'<div style="border:{LINE};border-radius:6px;padding:8px 10px;min-width:0">'
        f'<div style="{head}"><span>{left}</span>{GAP}<span>{right}</span></div>{inner}</div>'
    )


def quiet(inner: str) -> str:
    """Return a small line."""
    return f'<div style="{QUIET};margin-top:6px">{inner}</div>'


def details(summary: str, inner: str) -> str:
    """Return what opens on a click or by keyboard."""
    head = f'<summary style="{QUIET};cursor:pointer">{summary}</summary>'
    return f'<details style="margin-top:6px">{head}{inner}</details>'


# --- surprise: amber deepening to orange, and a thicker line ---


def shade(prob: float) -> str:
    """Return the style of a token of this probability, empty where the model was sure."""
    if prob >= SURE:
        return ""
    surprise = 1.0 if prob <= 0 else min(1.0, -math.log(prob) / MOST)
    return _shade(round(surprise * LEVELS))


@lru_cache
def _shade(level: int) -> str:
    """Grow colour, opacity and thickness together: three signs of one thing, two of them without hue."""
    s = level / LEVELS
    hue = f"#{236 - round(20 * s):02x}{160 - round(85 * s):02x}{40 + round(10 * s):02x}"
    back, line = round(255 * (0.10 + 0.42 * s)), round(255 * (0.55 + 0.40 * s))
    return f"background:{hue}{back:02x};border-bottom:{1 + round(2 * s)}px solid {hue}{line:02x}"


def legend() -> str:
    """Return the scale of surprise, in colours and words; not within what is faded, or it would lie."""
    steps = ((0.9, "90"), (0.5, "50"), (0.2, "20"), (0.05, "5"), (0.005, "0.5"), (0.001, "0.1"))
    shown = " ".join(f'<span style="padding:0 4px;{shade(prob)}">{text}</span>' for prob, text in steps)
    return f'<span style="white-space:nowrap;font-size:12px">sure {shown} % surprised</span>'


# --- probability: blue, from none to full ---

BLUE = (43, 135, 240)


def tint(prob: float) -> str:
    """Return the background of a cell of this probability, empty where it would hardly be seen."""
    alpha = 16 * round(10 * prob)
    return f"background:#{'{:02x}{:02x}{:02x}'.format(*BLUE)}{alpha:02x}" if alpha else ""


def bar(prob: float) -> str:
    """Return the background that is blue as far as the probability goes."""
    color, end = "rgba({},{},{},.42)".format(*BLUE), round(100 * min(1.0, prob), 1)
    return f"background:linear-gradient(90deg,{color} {end}%,rgba(0,0,0,0) {end}%)"


def percent(prob: float) -> str:
    """Return a probability in about two digits, such as 53%, 1.7%, 0.03%, 99.8%."""
    value = 100 * prob
    if 0 < value < 0.01:
        return "<0.01%"
    digits = 0 if 9.95 <= value < 99.5 else 2 if value < 0.995 else 1
    return f"{value:.{digits}f}".removesuffix(".00").removesuffix(".0") + "%"

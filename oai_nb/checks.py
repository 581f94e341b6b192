"""The shapes of values: one function a kind, value and bounds in, plain value out.

Numbers of numpy are taken without importing it, through the standard library's `numbers`. Each
function raises `Refused` with the end of a sentence that starts with the parameter and its value.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from oai_nb.visible import printable


class Bounds(Protocol):
    """A smallest and a largest value, either of which may be None."""

    @property
    def minimum(self) -> float | None: ...  # noqa: D102
    @property
    def maximum(self) -> float | None: ...  # noqa: D102


class Refused(Exception):  # noqa: N818 - never leaves parameters.py
    """Say why a value is not allowed and what is."""


def shown(value: Any, width: int = 40) -> str:
    """Return a value's repr on one line, cut in the middle when it is long."""
    text = printable(" ".join(line.strip() for line in repr(value).splitlines()))
    return text if len(text) <= width else f"{text[: width // 2]}…{text[-width // 3 :]}"


def allowed(bounds: Bounds) -> str:
    """Say a range in words."""
    low, high = bounds.minimum, bounds.maximum
    if low is None:
        return "any number" if high is None else f"at most {high}"
    return f"at least {low}" if high is None else f"from {low} to {high}"


def _must_be(bounds: Bounds, what: str = "") -> str:
    """Return the end of a sentence that says the range; nothing where there is none."""
    is_open = bounds.minimum is None and bounds.maximum is None
    return "" if is_open else f": it must be {what}{allowed(bounds)}"


def within(value: Any, bounds: Bounds) -> Any:
    """Return `value` if it lies in `bounds`."""
    low, high = bounds.minimum, bounds.maximum
    if (low is not None and value < low) or (high is not None and value > high):
        raise Refused(f"is out of range{_must_be(bounds)}")
    return value


def number(value: Any, bounds: Bounds) -> float:
    """Take a finite real number; 12 digits are kept, so that 0.1 + 0.2 is sent as 0.3."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise Refused(f"is not a number{_must_be(bounds, 'one ')}")
    # A float32 means the short decimal that it prints, not the long one of its widening.
    try:
        exact = float(str(value)) if hasattr(value, "dtype") else float(value)
    except OverflowError:
        exact = math.inf
    if not math.isfinite(exact):
        raise Refused(f"is not finite{_must_be(bounds)}")
    return float(f"{within(exact, bounds):.12g}")


def integer(value: Any, bounds: Bounds) -> int:
    """Take a whole number; 3.0 is one."""
    whole = isinstance(value, numbers.Integral) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole:
        raise Refused(f"is not a whole number{_must_be(bounds, 'one ')}")
    return int(within(int(value), bounds))


def boolean(value: Any, _: Bounds) -> bool:
    """Take a truth value of Python or numpy, and no number."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise Refused("is neither true nor false")


def string(value: Any, _: Bounds) -> str:
    """Take a text."""
    if not isinstance(value, str):
        raise Refused("is not a string")
    return _sendable(value)


def _sendable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Refused(
            f"has half a character (a lone surrogate) at {error.start}: it cannot be sent"
        ) from None
    return text


def prompt(value: Any, _: Bounds) -> Any:
    """Take one of the four forms of a prompt; lists become tuples."""
    if isinstance(value, str):
        return _sendable(value)
    items = _items(value)
    if not items:
        raise Refused(f"is empty or no list: give {PROMPT_FORMS}")
    if all(isinstance(item, str) for item in items):
        return tuple(map(_sendable, items))
    if all(_is_token_id(item) for item in items):
        return tuple(int(item) for item in items)
    rows = tuple(_items(item) for item in items)
    if all(row and all(_is_token_id(token) for token in row) for row in rows):
        return tuple(tuple(int(token) for token in row) for row in rows)
    raise Refused(f"mixes kinds: give {PROMPT_FORMS}")


PROMPT_FORMS = "a text, a list of texts, a list of token ids, or a list of such lists"


def _items(value: Any) -> tuple[Any, ...]:
    """Return the items of a list, tuple or array; nothing for what is none of them."""
    listed = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(listed, str | bytes) or not isinstance(listed, Sequence):
        return ()
    return tuple(listed)


def _is_token_id(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= 0


def stop(value: Any, bounds: Bounds) -> tuple[str, ...]:
    """Take one text or up to `bounds.maximum` of them, none empty."""
    texts = (value,) if isinstance(value, str) else _items(value)
    if not texts or not all(isinstance(text, str) for text in texts):
        most = "" if bounds.maximum is None else f"up to {bounds.maximum} "
        raise Refused(f"is neither a text nor a list of {most}texts")
    if "" in texts:
        raise Refused("has an empty text, which would stop at once: leave it out")
    if bounds.maximum is not None and len(texts) > bounds.maximum:
        raise Refused(f"has {len(texts)} texts: there may be at most {bounds.maximum}")
    return tuple(map(_sendable, texts))


def logit_bias(value: Any, bounds: Bounds) -> dict[str, int]:
    """Take a mapping from token ids (numbers or their digits) to whole numbers."""
    if not isinstance(value, Mapping):
        raise Refused('is not a mapping from token ids to numbers, such as {"1234": -100}')
    return {_token_key(key): _bias(key, bias, bounds) for key, bias in value.items()}


def _token_key(key: Any) -> str:
    digits = str(key) if not isinstance(key, bool) else ""
    if not (digits.isascii() and digits.isdigit()):
        raise Refused(f"has the key {shown(key)}: keys are token ids, as whole numbers")
    return str(int(digits))


def _bias(key: Any, bias: Any, bounds: Bounds) -> int:
    try:
        return integer(bias, bounds)
    except Refused as refusal:
        raise Refused(f"has {shown(bias)} for token {key}, which {refusal}") from None


STREAM_OPTIONS = ("include_usage", "include_obfuscation")


def stream_options(value: Any, bounds: Bounds) -> dict[str, bool]:
    """Take a mapping of the two known options to truth values."""
    if not isinstance(value, Mapping):
        raise Refused('is not a mapping, such as {"include_usage": true}')
    for name in value:
        if name not in STREAM_OPTIONS:
            raise Refused(f"has {shown(name)}: there are only {' and '.join(STREAM_OPTIONS)}")
    return {name: boolean(flag, bounds) for name, flag in value.items() if flag is not None}

"""Columns of logprobs, of whichever server, into `Token` and `Alternative`.

Two shapes exist: the API's four parallel lists, and the chat's ``content`` entries that llama.cpp sends.
Both are kept as received in `Logprobs`; what is derived here invents nothing: an unknown rank, id or
logprob stays None.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, zip_longest
from typing import Any

from oai_nb.decode import Entry, Logprobs
from oai_nb.visible import half_character, visible

SAME_LOGPROB = 1e-3
"""Two logprobs of one text that differ by more belong to two token ids (servers round in the 4th digit)."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One candidate at a position. `logprob` is in nats; -inf where the server sent -Infinity or NaN."""

    text: str
    bytes: bytes | None
    id: int | None
    logprob: float
    chosen: bool = False

    @property
    def shown(self) -> str:
        """Give the visible form."""
        return visible(self.text, self.bytes)


@dataclass(frozen=True, slots=True)
class Token:
    r"""One token of an answer.

    `text` is as received (half a character is ``bytes:\xf0`` or U+FFFD); `bytes` is None where it cannot
    be known; `rank` is 1 for the likeliest and None where the server showed too few alternatives to tell;
    `top` runs from the likeliest down and holds the chosen one; `offset` counts characters from the start
    of the prompt.
    """

    text: str
    bytes: bytes | None = None
    id: int | None = None
    logprob: float | None = None
    rank: int | None = None
    top: tuple[Alternative, ...] = ()
    offset: int | None = None

    @property
    def prob(self) -> float | None:
        """Give the probability, or None."""
        return None if self.logprob is None else math.exp(self.logprob)

    @property
    def shown(self) -> str:
        """Give the visible form."""
        return visible(self.text, self.bytes)


def tokens_of(logprobs: Logprobs, token_ids: Sequence[int] | None, asked: int | None) -> tuple[Token, ...]:
    """Return the tokens in a choice's columns.

    `token_ids` are used where there is one for each token. `asked` is the number of alternatives that were
    asked for; without it, the shortest row tells.
    """
    if logprobs.content is not None:
        return tuple(_from_entry(entry, asked) for entry in logprobs.content)
    texts = logprobs.tokens or ()
    ids = token_ids if token_ids is not None and len(token_ids) == len(texts) else ()
    rows = logprobs.top_logprobs or ()
    k = asked if asked is not None else min((len(row) for row in rows if row), default=0)
    columns = zip_longest(texts, logprobs.token_logprobs or (), rows, logprobs.text_offset or (), ids)
    return tuple(
        _from_columns(text, number(logprob), row, offset, token_id, k)
        for text, logprob, row, offset, token_id in columns
        if text is not None
    )


def number(logprob: float | None) -> float | None:
    """Read NaN, which stands for "impossible" in servers' JSON, as -inf, and what is above 0 as 0."""
    if logprob is None:
        return None
    return -math.inf if math.isnan(logprob) else min(logprob, 0.0)


def above_zero(logprobs: Logprobs) -> bool:
    """Tell whether there are values that cannot be log probabilities, by more than a rounding.

    Of the alternatives, of which there are many, the first positions tell: a server that sends logits there
    sends them everywhere.
    """
    entries = logprobs.content or ()
    first = [one for entry in entries[:FEW] for one in entry.get("top_logprobs") or ()]
    values = chain(
        logprobs.token_logprobs or (),
        *(row.values() for row in (logprobs.top_logprobs or ())[:FEW] if row),
        (one.get("logprob") for one in (*entries, *first)),
    )
    return max(chain((0.0,), filter(None, values))) > SAME_LOGPROB  # from 0.0, which NaN does not exceed


FEW = 100
"""Positions that are enough to know a server by."""


def token_bytes(text: str) -> bytes | None:
    """Return the bytes of a token's text, or None where it holds the sign for what was undecodable."""
    half = half_character(text)
    if half is not None:
        return half
    return None if "\ufffd" in text else text.encode("utf-8", "surrogatepass")


def _from_columns(
    text: str,
    logprob: float | None,
    row: Mapping[str, float | None] | None,
    offset: int | None,
    token_id: int | None,
    k: int,
) -> Token:
    found = []
    for name, raw in (row or {}).items():
        value = number(raw)
        if value is not None:
            chosen = name == text and _same(value, logprob)
            found.append(Alternative(name, token_bytes(name), token_id if chosen else None, value, chosen))
    top = _with_chosen(found, Alternative(text, token_bytes(text), token_id, logprob or 0.0, True), logprob)
    return Token(text, token_bytes(text), token_id, logprob, _rank(top, k), top, _known(offset))


def _same(value: float, logprob: float | None) -> bool:
    return logprob is None or value == logprob or abs(value - logprob) < SAME_LOGPROB


def _from_entry(entry: Entry, asked: int | None) -> Token:
    text, data, token_id, logprob = _fields(entry)
    found = []
    for other in entry.get("top_logprobs") or ():
        name, name_bytes, name_id, value = _fields(other)
        if value is not None:
            same = name_id == token_id if token_id is not None else (name, name_bytes) == (text, data)
            found.append(Alternative(name, name_bytes, name_id, value, same))
    top = _with_chosen(found, Alternative(text, data, token_id, logprob or 0.0, True), logprob)
    k = asked if asked is not None else len(found)
    return Token(text, data, token_id, logprob, _rank(top, k), top)


def _fields(entry: Entry) -> tuple[str, bytes | None, int | None, float | None]:
    text, data = str(entry.get("token") or ""), entry.get("bytes")
    known = bytes(data) if data is not None else token_bytes(text)
    return text, known, entry.get("id"), number(entry.get("logprob"))


def _with_chosen(
    found: Iterable[Alternative], chosen: Alternative, logprob: float | None
) -> tuple[Alternative, ...]:
    """Sort from the likeliest down; add the chosen one where the server's list left it out."""
    listed = list(found)
    if listed and logprob is not None and not any(one.chosen for one in listed):
        listed.append(chosen)
    return tuple(sorted(listed, key=lambda one: -one.logprob))


def _rank(top: Sequence[Alternative], k: int) -> int | None:
    """Return the chosen one's rank, unless it lies below the `k` likeliest that the server showed."""
    position = next((i for i, one in enumerate(top) if one.chosen), None)
    if position is None or (len(top) > k and position == len(top) - 1):
        return None
    return position + 1


def _known(offset: int | None) -> int | None:
    return offset if offset is not None and offset >= 0 else None


REACH = 16
"""How many bytes ahead the next token is looked for, for each one before it that could not be placed."""


def echoed(tokens: Sequence[Token], text: str, prompt: str | Sequence[Any]) -> int:
    """Return how many of the first tokens are the prompt's, which `text` may begin with.

    They are laid along the text, which is the truth: tokens that are not in it (a first ``<s>``) shift
    nothing. Where they do not meet it, their offsets tell; where those are unknown too, it is none.
    """
    if not isinstance(prompt, str):
        differ = any(token.id not in (None, other) for token, other in zip(tokens, prompt, strict=False))
        return 0 if differ else min(len(prompt), len(tokens))
    end = _end(text, prompt)
    data = text.encode("utf-8", "surrogatepass")
    goal = len(text[:end].encode("utf-8", "surrogatepass"))
    at = lost = 0
    for count, token in enumerate(tokens):
        found = place(data, token.bytes, at, lost)
        if at >= goal or (found is not None and found >= goal):
            return count
        lost = lost + 1 if found is None else 0
        at = at if found is None else found + len(token.bytes or b"")
    if at >= goal or end == len(text):
        return len(tokens)
    return sum(1 for token in tokens if token.offset is not None and token.offset < end)


def _end(text: str, prompt: str) -> int:
    """Return where the prompt ends in a text; tokenizers may have changed its spaces and forms of letters."""
    if text.startswith(prompt):
        return len(prompt)
    wanted, end, came = letters(prompt), 0, ""
    while end < len(text) and len(came) < len(wanted):
        came += letters(text[end])
        end += 1
    return end if wanted.startswith(came) else 0


def letters(text: str) -> str:
    """Return a text without spaces, its letters in one form: what tokenizers do not change."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def place(data: bytes, token: bytes | None, at: int, lost: int) -> int | None:
    """Return where a token's bytes lie: right here, or a little further where some before it are lost."""
    if token is None:
        return None
    if data.startswith(token, at):
        return at
    found = data.find(token, at, at + REACH * lost + len(token)) if lost and token else -1
    return found if found >= 0 else None


IMPOSSIBLE = -9999.0
"""What the field writes for a logprob of -inf, which JSON has no word for."""


def finite(logprob: float | None) -> float | None:
    """Return a logprob that JSON can hold."""
    return logprob if logprob is None or math.isfinite(logprob) else IMPOSSIBLE


def legacy(logprobs: Logprobs, tokens: Sequence[Token]) -> dict[str, list[Any]]:
    """Return the API's four lists, made from the tokens where the server sent the chat's form."""
    if logprobs.content is None:
        return {
            "tokens": list(logprobs.tokens or ()),
            "token_logprobs": [finite(value) for value in logprobs.token_logprobs or ()],
            "top_logprobs": [
                row and {name: finite(value) for name, value in row.items()}
                for row in logprobs.top_logprobs or ()
            ],
            "text_offset": list(logprobs.text_offset or ()),
        }
    starts = accumulate((len(token.text) for token in tokens), initial=0)
    return {
        "tokens": [token.text for token in tokens],
        "token_logprobs": [finite(token.logprob) for token in tokens],
        "top_logprobs": [{one.text: finite(one.logprob) for one in reversed(token.top)} for token in tokens],
        "text_offset": [start for start, _ in zip(starts, tokens, strict=False)],
    }

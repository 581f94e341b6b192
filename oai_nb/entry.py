"""One run as a row of the history: all that is known of it, small, and without any key. Pure.

The answer is kept as the events that came, compressed, so that keeping it costs next to nothing; it is folded
again when it is asked for.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from oai_nb.completion import Completion, Note, Usage, circumstances
from oai_nb.fold import from_record, mended
from oai_nb.keys import MASKED, Mask

MOST_ANSWER = 16 * 2**20
"""Bytes that one compressed answer may take; of a longer one the texts alone are kept."""

_BETWEEN = b"\0"  # in no JSON
_LEVEL = 1  # twice as fast as the usual 6, and a fifth larger

HIDDEN = Note("changed", f"a key was in this run: here {MASKED} stands in its place")
BARE = Note("changed", "only the texts of this answer were kept")


class Entry(NamedTuple):
    """One row. `record` is the JSON of all but the answer (its `circumstances`), `events` the answer's."""

    started: float
    model: str
    text: str
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    record: str
    events: bytes


def entry_of(completion: Completion, events: Sequence[bytes], mask: Mask) -> Entry:
    """Return the row of a run that has ended, from its completion and the events which that was folded of."""
    blob = _BETWEEN.join(events)
    if _may_show_a_key(completion, blob, mask):
        completion, blob = _masked(completion, events, mask)
    packed = zlib.compress(blob, _LEVEL)
    if len(packed) > MOST_ANSWER:
        completion, blob = bare(completion, mask)
        packed = zlib.compress(blob, _LEVEL)
    return _entry(completion, packed)


def completion_of(record: str, events: bytes) -> Completion:
    """Return the completion that a row was made of. Raises BrokenStreamError, zlib.error."""
    came = zlib.decompress(events).split(_BETWEEN)
    return from_record(json.loads(record), filter(None, came))


def _entry(completion: Completion, packed: bytes) -> Entry:
    first = completion.choices[0] if completion.choices else None
    usage = completion.usage or Usage()
    return Entry(
        started=0.0 if completion.timing is None else completion.timing.started,
        model=completion.model or mended(str((completion.sent or {}).get("model") or "")),
        text=completion.text,
        finish_reason=None if first is None else first.finish_reason,
        prompt_tokens=usage.prompt_tokens or None,
        completion_tokens=usage.completion_tokens or None,
        record=json.dumps(circumstances(completion)),
        events=packed,
    )


# --- keys: a server may repeat one, also in pieces, and a user may have put it into a prompt ---


def _may_show_a_key(completion: Completion, blob: bytes, mask: Mask) -> bool:
    return mask.holds(blob) or mask.holds(
        json.dumps([circumstances(completion), *_texts(completion)]).encode()
    )


def _masked(completion: Completion, events: Sequence[bytes], mask: Mask) -> tuple[Completion, bytes]:
    """Return both without keys; without logprobs too where a key came in pieces, of which they are made."""
    record = json.loads(mask.covered(json.dumps(circumstances(completion))))
    covered = [mask.covered(event.decode("utf-8", "replace")).encode() for event in events]
    told = _noted(from_record(record, covered), HIDDEN)
    in_pieces = spelled(told, mask)
    return bare(told, mask) if in_pieces else (told, _BETWEEN.join(covered))


def spelled(completion: Completion, mask: Mask) -> bool:
    """Tell whether a key stands in the texts, or in the tokens put together."""
    return any(map(mask.spans, _texts(completion)))


def _texts(completion: Completion) -> list[str]:
    """Return the texts, and the tokens of each choice put together, which may be others."""
    logprobs = [one.logprobs for one in completion.choices if one.logprobs is not None]
    tokens = [
        (*(one.tokens or ()), *(entry.get("token") or "" for entry in one.content or ())) for one in logprobs
    ]
    return [*completion.texts, *map("".join, tokens)]


def bare(completion: Completion, mask: Mask) -> tuple[Completion, bytes]:
    """Return the completion and its one event, the texts covered, without logprobs and token ids."""
    choices = tuple(
        replace(one, text=mask.covered(one.text), logprobs=None, token_ids=None) for one in completion.choices
    )
    left = _noted(replace(completion, choices=choices), BARE)
    return left, json.dumps(left.to_dict()).encode()


def _noted(completion: Completion, note: Note) -> Completion:
    return replace(completion, fidelity=(*completion.fidelity, note))

"""Chunks into a `Completion`: a whole answer is one chunk, a stream is many, the result is the same.

`Fold` is the state of a running answer and can be asked for its completion at any moment. Choices are
placed by their index and never by their order. It keeps columns rather than chunks, which spares the
garbage collector tens of thousands of objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from oai_nb.completion import RECORD, Choice, Completion, Note, Server, Timing, Usage
from oai_nb.decode import ChoiceDelta, Chunk, Logprobs, decode
from oai_nb.errors import BrokenStreamError
from oai_nb.parameters import ANY
from oai_nb.request import Request

NO_END = "the stream ended before the server said that it was finished"


class Fold:
    """The growing answer to one request.

    `done` is set when the server said ``[DONE]``. `count` is the number of chunks taken.
    """

    def __init__(self, request: Request | None = None) -> None:
        self.request = request
        self.done = False
        self.count = 0
        self._head: dict[str, Any] = {}
        self._choices: dict[int, _Columns] = {}
        self._usage = _UsageCount()
        self._notes: dict[str, Note] = {}

    def add(self, chunk: Chunk) -> None:
        """Take one chunk, or a whole answer."""
        self.count += 1
        for name in ("id", "model", "created", "system_fingerprint"):
            value = getattr(chunk, name)
            if value and name not in self._head:
                self._head[name] = value
        for delta in chunk.choices or ():
            columns = self._choices.get(delta.index)
            if columns is None:
                columns = self._choices[delta.index] = _Columns()
            columns.add(delta)
        if chunk.usage:
            self._usage.add(chunk.usage, [delta.index for delta in chunk.choices or ()])
        if chunk.without_logprobs:
            self._notes["logprobs"] = Note("ignored", "logprobs came in an unknown shape", "logprobs")

    @property
    def finished(self) -> bool:
        """Tell whether the server said that the answer is whole."""
        choices = self._choices.values()
        return self.done or (bool(choices) and all(columns.finish_reason for columns in choices))

    @property
    def texts(self) -> dict[int, str]:
        """Give the text of each choice so far, by index."""
        return {index: self._choices[index].text()[0] for index in sorted(self._choices)}

    def completion(self, *, incomplete: str | None = None) -> Completion:
        """Return the answer so far; `incomplete` is the cause why there will be no more of it."""
        asked = None if self.request is None else self.request.logprobs
        choices, damaged = [], 0
        for index in sorted(self._choices):
            choice, bad = self._choices[index].choice(index, asked)
            choices.append(choice)
            damaged += bad
        notes = dict(self._notes)
        if damaged:
            text = f"{damaged} × \ufffd in the text: half a character, or no valid Unicode"
            notes["damaged"] = Note("changed", text)
        return Completion(
            choices=tuple(choices),
            id=self._head.get("id", ""),
            model=self._head.get("model", ""),
            created=int(self._head.get("created", 0)),
            system_fingerprint=self._head.get("system_fingerprint"),
            usage=self._usage.total(),
            request=self.request,
            fidelity=tuple(notes.values()),
            incomplete=incomplete,
        )


class _Columns:
    """One choice's growing columns."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.finish_reason: str | None = None
        self.token_ids: list[int] = []
        self.lists: dict[str, list[Any]] | None = None
        self.content: list[dict[str, Any]] | None = None

    def add(self, delta: ChoiceDelta) -> None:
        if delta.text:
            self.parts.append(delta.text)
        if delta.finish_reason:
            self.finish_reason = delta.finish_reason
        if delta.token_ids:
            self.token_ids += delta.token_ids
        if delta.logprobs is not None:
            self._add_logprobs(delta.logprobs)

    def _add_logprobs(self, logprobs: Logprobs) -> None:
        if logprobs.content is not None:
            self.content = (self.content or []) + list(logprobs.content)
            return
        if self.lists is None:
            self.lists = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        count = len(logprobs.tokens or ())
        for name, column in self.lists.items():
            values = getattr(logprobs, name) or ()
            column += values
            if len(values) < count:  # what the server left out must not shift later rows
                column += [None] * (count - len(values))

    def text(self) -> tuple[str, int]:
        """Return the text and how many of its characters were damaged on the way."""
        return mended("".join(self.parts))

    def choice(self, index: int, asked: int | None) -> tuple[Choice, int]:
        text, damaged = self.text()
        ids = tuple(self.token_ids) or None
        return Choice(index, text, self.finish_reason, self._logprobs(), ids, asked), damaged

    def _logprobs(self) -> Logprobs | None:
        if self.content is not None:
            return Logprobs(content=tuple(self.content))
        if self.lists is None:
            return None
        columns = {name: tuple(column) for name, column in self.lists.items()}
        for name in ("top_logprobs", "text_offset"):
            if all(value is None for value in columns[name]):
                columns[name] = ()
        return Logprobs(**columns)


def mended(text: str) -> tuple[str, int]:
    """Join the halves of surrogate pairs, and turn halves that stay alone into U+FFFD; count the damaged."""
    if text.isascii():
        return text, 0
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text, text.count("\ufffd")


class _UsageCount:
    """Counts of tokens, however servers send them: once at the end, with every chunk, or once a choice."""

    def __init__(self) -> None:
        self._whole: dict[str, Any] | None = None
        self._by_choice: dict[int, dict[str, Any]] = {}

    def add(self, usage: Mapping[str, Any], indices: list[int]) -> None:
        if not any(usage.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")):
            return
        if len(indices) == 1:
            self._by_choice[indices[0]] = dict(usage)
        else:
            self._whole = dict(usage)

    def total(self) -> Usage | None:
        if self._whole is not None:
            return _usage(self._whole)
        if not self._by_choice:
            return None
        counts = list(self._by_choice.values())
        completion = sum(count.get("completion_tokens") or 0 for count in counts)
        prompt = counts[0].get("prompt_tokens") or 0
        summed = {
            "completion_tokens": completion,
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
        }
        return _usage(counts[0] | summed)


def _usage(counts: Mapping[str, Any]) -> Usage:
    known = {item.name: counts.get(item.name) for item in fields(Usage)}
    return Usage(**{name: value for name, value in known.items() if value is not None})


def fold(chunks: Iterable[Chunk], request: Request | None = None) -> Completion:
    """Return the completion that the chunks of an ended stream, or one whole answer, make together."""
    state = Fold(request)
    for chunk in chunks:
        state.add(chunk)
    return state.completion(incomplete=None if state.finished else NO_END)


def from_json(text: str | bytes) -> Completion:
    """Return the completion in our own record or in any server's answer. Raises BrokenStreamError."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    try:
        value = json.loads(data.decode("utf-8", "replace"))
    except ValueError:
        raise BrokenStreamError("this is neither our record nor a server's answer: it is not JSON") from None
    if not isinstance(value, dict) or "oai_nb" not in value:
        return fold([decode(data)])
    if value["oai_nb"] != RECORD:
        raise BrokenStreamError(f"this record has version {value['oai_nb']}; this oai_nb reads {RECORD}")
    return _from_record(value)


def _from_record(record: Mapping[str, Any]) -> Completion:
    asked = record.get("request")
    extra = {name: asked[name] for name in record.get("extra") or ()} if asked else {}
    request = (
        None
        if asked is None
        else Request(
            **{name: value for name, value in asked.items() if name not in extra},
            extra=extra,
            limits=ANY,
        )
    )
    answer = fold([decode(json.dumps(record["answer"]).encode())], request)
    server, timing = record.get("server"), record.get("timing")
    return replace(
        answer,
        sent=record.get("sent"),
        server=None if server is None else Server(**server),
        timing=None if timing is None else Timing(**timing),
        fidelity=tuple(Note(**note) for note in record.get("fidelity") or ()),
        incomplete=record.get("incomplete"),
    )

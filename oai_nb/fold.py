"""Chunks into a `Completion`: a whole answer is one chunk, a stream is many, the result is the same.

`Fold` is the state of a running answer and can be asked for its completion at any moment. Choices are
placed by their index and never by their order. It keeps columns rather than chunks, which spares the
garbage collector tens of thousands of objects.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from oai_nb.completion import RECORD, Choice, Completion, Note, Server, Timing, Usage
from oai_nb.decode import ChoiceDelta, Chunk, Entry, Logprobs, decode, excerpt
from oai_nb.errors import BrokenStreamError
from oai_nb.parameters import ANY, PARAMETERS
from oai_nb.request import Request
from oai_nb.tokens import above_zero

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
        for name in chunk.left_out:
            asked = name if name in PARAMETERS else None
            text = f"{name} came in an unknown shape"
            self._notes[name] = Note("ignored" if asked else "info", text, asked)
        if chunk.is_chat:
            self._notes["chat"] = Note("changed", "the server answered in the chat's form")

    @property
    def finished(self) -> bool:
        """Tell whether the server said that the answer is whole."""
        choices = self._choices.values()
        return self.done or (bool(choices) and all(columns.finish_reason for columns in choices))

    @property
    def texts(self) -> dict[int, str]:
        """Give the text of each choice so far, by index."""
        return {index: self._choices[index].text() for index in sorted(self._choices)}

    def completion(self, *, incomplete: str | None = None) -> Completion:
        """Return the answer so far; `incomplete` is the cause why there will be no more of it."""
        came = len(self._choices) if incomplete is None else None
        choices = tuple(
            self._choices[index].choice(index, *self._asked(index, came)) for index in sorted(self._choices)
        )
        created = self._head.get("created", 0)
        return Completion(
            choices=choices,
            id=self._head.get("id", ""),
            model=self._head.get("model", ""),
            created=int(created) if math.isfinite(created) else 0,
            system_fingerprint=self._head.get("system_fingerprint"),
            usage=self._usage.total(),
            request=self.request,
            fidelity=(*self._notes.values(), *self._damages(choices)),
            incomplete=incomplete,
        )

    def _asked(self, index: int, came: int | None) -> tuple[int | None, Any]:
        """Return how many alternatives were asked for, and the prompt if it was to be echoed."""
        request = self.request
        if request is None:
            return None, None
        return request.logprobs, request.prompt_of(index, came) if request.echo else None

    @staticmethod
    def _damages(choices: Iterable[Choice]) -> Iterator[Note]:
        damaged = sum(choice.text.count("\ufffd") for choice in choices)
        if damaged:
            text = f"{damaged} × \ufffd in the text: half a character, or no valid Unicode"
            yield Note("changed", text)
        if any(choice.logprobs is not None and above_zero(choice.logprobs) for choice in choices):
            yield Note("changed", "logprobs above 0 came: not log probabilities", "logprobs")


class _Columns:
    """One choice's growing columns."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.finish_reason: str | None = None
        self.token_ids: list[int] = []
        self.lists: dict[str, list[Any]] | None = None
        self.content: list[Entry] | None = None

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
            if self.content is None:
                self.content = []
            self.content += logprobs.content
            return
        if self.lists is None:
            self.lists = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        count = len(logprobs.tokens or ())
        for name, column in self.lists.items():
            values = getattr(logprobs, name) or ()
            column += values
            if len(values) < count:  # what the server left out must not shift later rows
                column += [None] * (count - len(values))

    def text(self) -> str:
        return mended("".join(self.parts))

    def choice(self, index: int, asked: int | None, echo: Any) -> Choice:
        ids = tuple(self.token_ids) or None
        return Choice(index, self.text(), self.finish_reason, self._logprobs(), ids, asked, echo)

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


def mended(text: str) -> str:
    """Join the halves of surrogate pairs, and turn halves that stay alone into U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


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
        if len(counts) == 1:
            return _usage(counts[0])
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
    return from_record(value)


def from_record(record: Mapping[str, Any], events: Iterable[bytes] | None = None) -> Completion:
    """Return the completion in our own record, whose answer may be the events that came.

    Raises BrokenStreamError.
    """
    if record.get("oai_nb") != RECORD:
        raise BrokenStreamError(f"this record has version {record.get('oai_nb')}; this oai_nb reads {RECORD}")
    try:
        return _from_record(record, [json.dumps(record["answer"]).encode()] if events is None else events)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else excerpt(str(error), 200)
        raise BrokenStreamError(f"this record is damaged: {what}") from None


def _from_record(record: Mapping[str, Any], events: Iterable[bytes]) -> Completion:
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
    state = Fold(request)
    for data in events:
        state.add(decode(data))
    answer = state.completion(incomplete=record.get("incomplete"))
    server, timing = record.get("server"), record.get("timing")
    return replace(
        answer,
        sent=record.get("sent"),
        server=None if server is None else Server(**server),
        timing=None if timing is None else Timing(**timing),
        fidelity=tuple(Note(**note) for note in record.get("fidelity") or ()),
    )

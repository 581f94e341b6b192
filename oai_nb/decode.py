"""The bytes of any server's answer or event, into one shape: `Chunk`.

A whole answer and a streamed event have the same shape, so one decoder serves both. What servers do
differently is levelled here and in `tokens`; nothing else knows of it. msgspec decodes; what it rightly
refuses (NaN, lone surrogates, invalid UTF-8) goes through the standard library's parser, and a field of
an unknown shape is left out by itself, so that nothing else that arrived is lost.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, TypedDict, TypeVar

import msgspec

from oai_nb.errors import (
    AuthenticationError,
    BrokenStreamError,
    NotFoundError,
    RateLimitError,
    ServerError,
)
from oai_nb.visible import cut, one_line

S = TypeVar("S", bound=msgspec.Struct)


class Entry(TypedDict, total=False):
    """One token, or one of its alternatives, in the chat's form of logprobs."""

    id: int | None
    token: str | None
    bytes: tuple[Annotated[int, msgspec.Meta(ge=0, le=255)], ...] | None
    logprob: float | None
    top_logprobs: tuple[Entry, ...] | None


class Counts(TypedDict, total=False):
    """Counts of tokens, as servers send them."""

    prompt_tokens: int | None
    completion_tokens: int | None
    total_tokens: int | None
    completion_tokens_details: dict[str, Any] | None
    prompt_tokens_details: dict[str, Any] | None


class Logprobs(msgspec.Struct, frozen=True):
    """The API's object, in columns; `content` holds the entries of servers that send the chat's form."""

    tokens: tuple[str, ...] | None = None
    token_logprobs: tuple[float | None, ...] | None = None
    top_logprobs: tuple[dict[str, float | None] | None, ...] | None = None
    text_offset: tuple[int | None, ...] | None = None
    content: tuple[Entry, ...] | None = None


class Part(msgspec.Struct, frozen=True):
    """A part of a message."""

    text: str | None = None


class Message(msgspec.Struct, frozen=True):
    """The chat's form of a choice's text."""

    content: str | tuple[Part, ...] | None = None

    @property
    def text(self) -> str | None:
        """Give the parts as one text."""
        if isinstance(self.content, tuple):
            return "".join(part.text or "" for part in self.content)
        return self.content


class ChoiceDelta(msgspec.Struct, frozen=True):
    """What one event (or a whole answer) says of one choice. `delta` and `message` are the chat's texts."""

    index: int = -1  # where it says none, `decode` puts its place among the choices
    text: str | None = None
    finish_reason: str | None = None
    logprobs: Logprobs | None = None
    token_ids: tuple[int, ...] | None = None
    delta: Message | None = None
    message: Message | None = None


class Chunk(msgspec.Struct, frozen=True):
    """One event of a stream, or one whole answer.

    `error` is the server's error object, where it sent one with status 200. `left_out` names the fields
    that had an unknown shape, `is_chat` says that the text came in the chat's form.
    """

    id: str | None = None
    model: str | None = None
    created: int | float | None = None
    system_fingerprint: str | None = None
    choices: tuple[ChoiceDelta, ...] | None = ()
    usage: Counts | None = None
    error: Any = None
    # What is found out here has names that no server sends.
    left_out: tuple[str, ...] = msgspec.field(default=(), name="oai_nb.left_out")
    is_chat: bool = msgspec.field(default=False, name="oai_nb.is_chat")


_decoder = msgspec.json.Decoder(Chunk)


def decode(data: bytes) -> Chunk:
    """Return the chunk in one event's data or one answer's body. Raises BrokenStreamError."""
    try:
        chunk = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        chunk = _decode_leniently(data)
    for choice in chunk.choices or ():
        if choice.text is None or choice.index < 0:
            return _levelled(chunk)
    return chunk


def _levelled(chunk: Chunk) -> Chunk:
    """Return the chunk with an index for each choice, and the API's `text` in place of the chat's form."""
    choices, is_chat = [], False
    for place, choice in enumerate(chunk.choices or ()):
        said = (choice.message or choice.delta) if choice.text is None else None
        is_chat = is_chat or said is not None
        text = choice.text if said is None else said.text
        index = place if choice.index < 0 else choice.index
        choices.append(msgspec.structs.replace(choice, index=index, text=text, delta=None, message=None))
    return msgspec.structs.replace(chunk, choices=tuple(choices), is_chat=is_chat)


def _decode_leniently(data: bytes) -> Chunk:
    try:
        value = _whole_strings(json.loads(data.decode("utf-8", "replace")))
    except ValueError:
        raise BrokenStreamError(f"the server sent what is not JSON: {excerpt(data)}") from None
    try:
        return msgspec.convert(value, Chunk, strict=False)
    except msgspec.ValidationError:
        left_out: dict[str, None] = {}
    try:
        chunk = _fitting(value, Chunk, left_out)
    except msgspec.ValidationError as error:
        raise BrokenStreamError(f"the server sent an answer of an unknown shape: {error}") from None
    return msgspec.structs.replace(chunk, left_out=tuple(left_out))


def _fitting(value: Any, kind: type[S], left_out: dict[str, None]) -> S:
    """Make a `kind` of the fields that have its types, and name the others. Raises where one is the text."""
    if not isinstance(value, dict):
        raise msgspec.ValidationError(f"Expected `object`, got `{type(value).__name__}`")
    fields = {}
    for field in msgspec.structs.fields(kind):
        raw = value.get(field.encode_name)
        if raw is None:
            continue
        try:
            fields[field.name] = _converted(field, raw, left_out)
        except msgspec.ValidationError:
            if field.name in _NEEDED or (field.name in _CHAT and value.get("text") is None):
                raise
            left_out[field.name] = None
    return kind(**fields)


_NEEDED, _CHAT = ("choices", "text"), ("delta", "message")


def _converted(field: msgspec.structs.FieldInfo, raw: Any, left_out: dict[str, None]) -> Any:
    """Return a field's value, of which parts that do not fit are left out where it has some."""
    if field.name == "choices" and isinstance(raw, list):
        return tuple(_fitting(choice, ChoiceDelta, left_out) for choice in raw)
    if field.name == "logprobs" and isinstance(raw, dict):
        odd: dict[str, None] = {}
        columns = _fitting(raw, Logprobs, odd)
        if columns.tokens is not None or columns.content is not None:
            left_out |= odd
            return columns
    return msgspec.convert(raw, field.type, strict=False)


def _whole_strings(value: Any) -> Any:
    """Turn lone surrogates into U+FFFD; a choice's text is left, since its next event may hold the half."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {
            name: item if name in _TEXTS and isinstance(item, str) else _whole_strings(item)
            for name, item in value.items()
        }
    return [_whole_strings(item) for item in value] if isinstance(value, list) else value


_TEXTS = ("text", "content")
_SEARCHED = 65_536  # characters of a body in which an excerpt is looked for


def excerpt(data: bytes | str, width: int = 80) -> str:
    """Return the beginning of a body on one line, where nothing acts; of a page of HTML only its title."""
    head = data[:_SEARCHED]
    text = head.decode("utf-8", "replace") if isinstance(head, bytes) else head
    title = re.search(r"<title[^>]*>(.*?)</title>", text, re.DOTALL | re.IGNORECASE)
    if title:
        text = title[1]
    elif re.match(r"\s*<(!doctype|html)", text, re.IGNORECASE):
        text = "a page of HTML"
    return cut(one_line(text), width)


_BY_STATUS = {401: AuthenticationError, 403: AuthenticationError, 404: NotFoundError, 429: RateLimitError}


def server_error(body: Any, status: int | None = None) -> ServerError:
    """Return the error that a server means, whatever shape it gave it.

    `body` is the decoded JSON or the raw text. Known shapes: ``{"error": {...}}``, ``{"error": "text"}``,
    ``{"object": "error", "message": ...}``, ``{"detail": ...}`` and plain text or HTML.
    """
    inner = body.get("error", body) if isinstance(body, dict) else body
    fields = inner if isinstance(inner, dict) else {}
    text = fields.get("message") or fields.get("detail") or (inner if isinstance(inner, str) else "")
    said = excerpt(text if isinstance(text, str) else json.dumps(text), 300)
    code = fields.get("code")
    kind = _BY_STATUS.get(status if status is not None else _as_status(code), ServerError)
    prefix = f"the server answered {status}" if status is not None else "the server failed while answering"
    return kind(
        f"{prefix}: {said}" if said else f"{prefix} and said no more",
        status=status,
        type=fields.get("type"),
        param=fields.get("param"),
        code=code,
    )


def _as_status(code: Any) -> int:
    return code if isinstance(code, int) else 0

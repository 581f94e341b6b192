"""The bytes of any server's answer or event, into one shape: `Chunk`.

A whole answer and a streamed event have the same shape, so one decoder serves both. What servers do
differently is levelled here and in `tokens`; nothing else knows of it. msgspec decodes; what it rightly
refuses (NaN, lone surrogates, invalid UTF-8) goes through the standard library's parser, so that
nothing that arrived is lost.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from oai_nb.errors import (
    AuthenticationError,
    BrokenStreamError,
    NotFoundError,
    RateLimitError,
    ServerError,
)


class Logprobs(msgspec.Struct, frozen=True):
    """The API's object, in columns; `content` holds the entries of servers that send the chat's form."""

    tokens: tuple[str, ...] | None = None
    token_logprobs: tuple[float | None, ...] | None = None
    top_logprobs: tuple[dict[str, float | None] | None, ...] | None = None
    text_offset: tuple[int | None, ...] | None = None
    content: tuple[dict[str, Any], ...] | None = None


class ChoiceDelta(msgspec.Struct, frozen=True):
    """What one event (or a whole answer) says of one choice."""

    index: int = 0
    text: str | None = None
    finish_reason: str | None = None
    logprobs: Logprobs | None = None
    token_ids: tuple[int, ...] | None = None


class Chunk(msgspec.Struct, frozen=True):
    """One event of a stream, or one whole answer.

    `error` is the server's error object, where it sent one with status 200. `without_logprobs` says that
    the logprobs had an unknown shape and were left out.
    """

    id: str | None = None
    model: str | None = None
    created: int | float | None = None
    system_fingerprint: str | None = None
    choices: tuple[ChoiceDelta, ...] | None = ()
    usage: dict[str, Any] | None = None
    error: Any = None
    without_logprobs: bool = False


_decoder = msgspec.json.Decoder(Chunk)


def decode(data: bytes) -> Chunk:
    """Return the chunk in one event's data or one answer's body. Raises BrokenStreamError."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_leniently(data)


def _decode_leniently(data: bytes) -> Chunk:
    try:
        value = _whole_strings(json.loads(data.decode("utf-8", "replace")))
    except ValueError:
        raise BrokenStreamError(f"the server sent what is not JSON: {excerpt(data)}") from None
    try:
        return msgspec.convert(value, Chunk, strict=False)
    except msgspec.ValidationError as error:
        if not (isinstance(value, dict) and _drop_logprobs(value)):
            raise BrokenStreamError(f"the server sent an answer of an unknown shape: {error}") from None
    try:
        return msgspec.convert(value | {"without_logprobs": True}, Chunk, strict=False)
    except msgspec.ValidationError as error:
        raise BrokenStreamError(f"the server sent an answer of an unknown shape: {error}") from None


def _whole_strings(value: Any) -> Any:
    """Turn lone surrogates into U+FFFD; a choice's text is left, since its next event may hold the half."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {name: item if name == "text" else _whole_strings(item) for name, item in value.items()}
    return [_whole_strings(item) for item in value] if isinstance(value, list) else value


def _drop_logprobs(value: dict[str, Any]) -> bool:
    """Take the logprobs out of each choice; tell whether there were any."""
    choices = value.get("choices")
    if not isinstance(choices, list):
        return False
    dropped = [choice.pop("logprobs", None) for choice in choices if isinstance(choice, dict)]
    return any(logprobs is not None for logprobs in dropped)


def excerpt(data: bytes | str, width: int = 80) -> str:
    """Return the beginning of a body on one line; of a page of HTML only its title."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    title = re.search(r"<title[^>]*>(.*?)</title>", text, re.DOTALL | re.IGNORECASE)
    if title:
        text = title[1]
    elif re.match(r"\s*<(!doctype|html)", text, re.IGNORECASE):
        text = "a page of HTML"
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


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

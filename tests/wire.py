"""A scripted HTTP/1.1 server on 127.0.0.1, and the bytes that real servers were seen to send.

What is sent, and when, is data: a script is a head and a list of steps, one script per attempt. The server
knows sockets and bytes; it knows nothing of the client under test. It answers one request per connection and
records what came, how much was sent, and the moment the client went away.

    route = wire.on(stream(event("Hel"), Stall()))
    ...
    seen = route.requests.at(0)
    assert seen.json["prompt"] == "x" and seen.closed.wait(30) and seen.sent == 1
"""

import asyncio
import concurrent.futures
import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

LIMIT = 30.0  # seconds; against hanging, never a measure
COMPLETIONS = "/v1/completions"

EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
CHUNKED = EVENTS.replace(b"connection: close", b"transfer-encoding: chunked\r\nconnection: close")
DONE = b"data: [DONE]\n\n"


# --- scripts ---


@dataclass(frozen=True)
class Wait:
    """Go on when the test calls `set()`. It stays set, also for later attempts."""

    gate: concurrent.futures.Future[None] = field(default_factory=concurrent.futures.Future)

    def set(self):
        if not self.gate.done():
            self.gate.set_result(None)


@dataclass(frozen=True)
class Stall:
    """Send nothing more until the client goes away."""


@dataclass(frozen=True)
class Forever:
    """Send the same piece again and again, `per_second` of them, until the client goes away."""

    piece: bytes
    per_second: float = 200.0


@dataclass(frozen=True)
class Call:
    """Call a function of the test, in the server's thread."""

    function: Callable[[], object]


@dataclass(frozen=True)
class Close:
    """Close the connection here: in a chunked answer the final chunk is missing."""


@dataclass(frozen=True)
class Reset:
    """Break the connection with RST."""


Step = bytes | Wait | Stall | Forever | Call | Close | Reset


@dataclass(frozen=True)
class Script:
    """Hold one answer: the head, then the steps in order, `pace` seconds apart, then an orderly end."""

    head: bytes
    steps: tuple[Step, ...]
    chunked: bool = False
    pace: float = 0.0


def stream(*steps: Step, pace: float = 0.0) -> Script:
    """Answer with events that end where the connection is closed."""
    return Script(EVENTS, steps, pace=pace)


def chunked(*steps: Step, pace: float = 0.0) -> Script:
    """Answer with events in HTTP chunks, one for each piece of bytes, and the final chunk."""
    return Script(CHUNKED, steps, chunked=True, pace=pace)


def raw(*steps: Step) -> Script:
    """Answer with these bytes alone; `raw(Stall())` never sends a head."""
    return Script(b"", steps)


def answer(status: int, content_type: str, body: str | bytes, **headers: Any) -> Script:
    """Answer whole, with a length. `retry_after=2` is the header `retry-after: 2`."""
    data = body.encode() if isinstance(body, str) else body
    fields = {"content-type": content_type, "content-length": len(data), "connection": "close"}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", *(f"{k}: {v}" for k, v in fields.items())]
    return Script("\r\n".join([*lines, "", ""]).encode(), (data,))


def whole(body: Any, **headers: Any) -> Script:
    """Answer 200 with JSON: bytes and text as they are, anything else encoded."""
    text = body if isinstance(body, str | bytes) else json.dumps(body, ensure_ascii=False)
    return answer(200, "application/json", text, **headers)


def failure(
    status: int, message: str, *, code: str | None = None, param: str | None = None, **headers: Any
) -> Script:
    """Answer with an error as OpenAI shapes it."""
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return answer(status, "application/json", json.dumps({"error": error}), **headers)


def completion(
    text: str = "", index: int = 0, finish_reason: str | None = None, logprobs: Any = None, **more: Any
):
    """Build a completion of one choice; `more` adds or replaces fields of the whole."""
    choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}
    return {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
    } | more


def event(
    text: str = "",
    index: int = 0,
    finish_reason: str | None = None,
    logprobs: Any = None,
    newline: bytes = b"\n\n",
    prefix: bytes = b"data: ",
    **more: Any,
) -> bytes:
    """Encode one event of a stream, its text as raw UTF-8."""
    body = completion(text, index, finish_reason, logprobs, **more)
    return (
        prefix
        + json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        + newline
    )


# --- what came ---


@dataclass(eq=False)
class Seen:
    """Hold one request and what became of its answer.

    `closed` is set the moment the client leaves before the script has ended, `ended` when the server is
    through. `sent` counts the pieces of bytes that went out, the head excluded.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    arrived_at: float = field(default_factory=time.perf_counter)
    sent: int = 0
    closed: threading.Event = field(default_factory=threading.Event)
    closed_at: float | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def json(self) -> Any:
        """The body decoded, None when it is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def model(self) -> Any:
        return self.json.get("model") if isinstance(self.json, dict) else None


class Requests(list):
    """A list of `Seen` that one can wait for."""

    def __init__(self):
        super().__init__()
        self._grown = threading.Condition()

    def add(self, seen: Seen) -> None:
        with self._grown:
            self.append(seen)
            self._grown.notify_all()

    def at(self, index: int = 0, limit: float = LIMIT) -> Seen:
        """Wait for request number `index` (from 0)."""
        with self._grown:
            came = self._grown.wait_for(lambda: len(self) > index, limit)
        assert came, f"waited {limit:g} s for request {index}; {len(self)} came"
        return self[index]


@dataclass(eq=False)
class Route:
    """Give attempt k script k; the last one serves all later attempts."""

    scripts: tuple[Script, ...]
    path: str
    model: str | None
    requests: Requests = field(default_factory=Requests)

    def fits(self, seen: Seen) -> bool:
        return seen.path.startswith(self.path) and self.model in (None, seen.model)

    def take(self, seen: Seen) -> Script:
        self.requests.add(seen)
        return self.scripts[min(len(self.requests), len(self.scripts)) - 1]


# --- the server ---


class Wire:
    """Serve scripts on a free port of 127.0.0.1, in a thread of its own."""

    def __init__(self):
        self.requests = Requests()
        self.port = 0
        self._routes: list[Route] = []
        self._faults: list[BaseException] = []
        self._ready = threading.Event()
        self._stop: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), name="wire", daemon=True)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.root}/v1"

    def on(self, *scripts: Script, path: str = COMPLETIONS, model: str | None = None) -> Route:
        """Answer requests whose path begins so (and that name this model); the newest such route serves."""
        route = Route(scripts, path, model)
        self._routes.insert(0, route)
        return route

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(LIMIT), "the wire did not start"
        return self

    def __exit__(self, *_):
        self._stop.set_result(None)
        self._thread.join(LIMIT)
        assert not self._thread.is_alive(), "the wire did not stop"
        if self._faults:
            raise ExceptionGroup("a script could not be played", self._faults)

    async def _main(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await asyncio.wrap_future(self._stop)
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            seen = await _receive(reader)
            await _Player(reader, writer, seen).play(self._script(seen))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client left before its request was whole, or while we were writing
        except asyncio.CancelledError:
            writer.transport.abort()  # the wire stops; what is still in the buffer must not hold it up
            raise
        except Exception as fault:
            self._faults.append(fault)
        finally:
            writer.close()

    def _script(self, seen: Seen) -> Script:
        self.requests.add(seen)
        for route in self._routes:
            if route.fits(seen):
                return route.take(seen)
        return failure(404, f"the wire has no script for {seen.method} {seen.path}")


async def _receive(reader: asyncio.StreamReader) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Seen(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))


class _Gone(ConnectionError):
    pass


class _Player:
    """Play one script on one connection, looking out for the client's leaving all the while."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Seen):
        self.reader, self.writer, self.seen = reader, writer, seen
        self.gone = asyncio.ensure_future(self._watch())

    async def play(self, script: Script) -> None:
        try:
            await self._write(script.head)
            if await self._steps(script) and script.chunked:
                await self._write(b"0\r\n\r\n")
        except ConnectionError:
            await asyncio.wait({self.gone})
        finally:
            self.gone.cancel()
            self.seen.ended.set()

    async def _watch(self) -> None:
        with contextlib.suppress(OSError):
            while await self.reader.read(65536):
                pass
        self.seen.closed_at = time.perf_counter()
        self.seen.closed.set()

    async def _steps(self, script: Script) -> bool:
        """Play the steps; say whether the answer may end in order."""
        for number, step in enumerate(script.steps):
            if number and script.pace:
                await self._until(None, script.pace)
            if isinstance(step, Close):
                return False
            if isinstance(step, Reset):
                self._reset()
                return False
            await self._step(step, script)
        return True

    async def _step(self, step: Step, script: Script) -> None:
        match step:
            case bytes():
                await self._piece(step, script)
            case Wait():
                await self._until(asyncio.wrap_future(step.gate))
            case Stall():
                await self._until(None)
            case Forever():
                await self._forever(step, script)
            case Call():
                step.function()
            case _:
                raise TypeError(f"not a step of a script: {step!r}")

    async def _forever(self, step: Forever, script: Script) -> None:
        clock = asyncio.get_running_loop().time
        due = clock()
        while True:
            await self._piece(step.piece, script)
            due += 1 / step.per_second
            await self._until(None, max(0.0, due - clock()))

    async def _piece(self, data: bytes, script: Script) -> None:
        await self._write(b"%x\r\n%b\r\n" % (len(data), data) if script.chunked else data, pieces=1)

    async def _write(self, data: bytes, pieces: int = 0) -> None:
        if self.gone.done():
            raise _Gone
        self.seen.sent += pieces  # before the client can have it, so that a test may look at once
        self.writer.write(data)
        await self.writer.drain()

    async def _until(self, awaited: asyncio.Future | None, seconds: float | None = None) -> None:
        """Wait for a future or for some seconds; leave at once when the client does."""
        futures = {self.gone} if awaited is None else {self.gone, awaited}
        await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if self.gone.done():
            raise _Gone

    def _reset(self) -> None:
        linger_not = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not)
        self.writer.transport.abort()


# --- the cases of dev_cases.md, byte for byte ---

KEY = "sk-SECRETKEY1234567890abcdef"  # the key that case D09 must not show


@dataclass(frozen=True)
class Case:
    """Hold one answer seen in the wild and what a client should make of it.

    `texts` and `finish_reasons` are per choice, and must be kept also when there is an `error`. `error` is
    what the message must contain ("" is any), `never` what must appear nowhere. `usage` is what the server
    counted, if it said so. `streamed` says whether the request asks for a stream.
    """

    script: Script
    texts: tuple[str, ...] = ()
    finish_reasons: tuple[str | None, ...] = ()
    error: str | None = None
    never: tuple[str, ...] = ()
    usage: dict[str, int] | None = None
    streamed: bool = True

    @property
    def incomplete(self) -> bool:
        """Whether text came and the end did not."""
        return bool(self.texts) and None in self.finish_reasons


def _hello(*steps: Step, **expected: Any) -> Case:
    return Case(stream(*steps), ("Hello",), ("stop",), **expected)


def _whole(text: str, finish_reason: str, logprobs: Any, **expected: Any) -> Case:
    body = completion(
        text, 0, finish_reason, logprobs, **{k: expected[k] for k in ("usage",) if k in expected}
    )
    return Case(whole(body), (text,), (finish_reason,), streamed=False, **expected)


def _refused(script: Script, error: str, *never: str) -> Case:
    return Case(script, error=error, never=never, streamed=False)


def logprobs(
    tokens: list[str], values: list[float | None], top: list | None = None, offsets: list[int] | None = None
):
    """Build the API's logprobs object; offsets count the characters of the tokens unless given."""
    starts = [sum(map(len, tokens[:k])) for k in range(len(tokens))] if offsets is None else offsets
    return {"tokens": tokens, "token_logprobs": values, "top_logprobs": top, "text_offset": starts}


def _cut_inside(character: str, data: bytes) -> tuple[bytes, bytes]:
    middle = data.index(character.encode()) + len(character.encode()) // 2
    return data[:middle], data[middle:]


_END = event("lo", finish_reason="stop")
_USAGE = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
_PAGE = (
    "<!DOCTYPE html>\n<html><head><title>api | 502: Bad gateway</title></head><body>"
    + "<div class=x>" * 400
    + "</body></html>"
)
_INFINITE = logprobs(["a"], [0.0], [{"a": 0.0, "<s>": float("-inf"), "x": float("nan")}], [0])
_EMOJI = event("é😀日", finish_reason="stop")
_TOP_GE = [{"id": 1, "token": " Ge", "bytes": [32, 71, 101], "logprob": -0.5}]
_TOP_GE += [{"id": 2, "token": "\ufffd", "bytes": [226], "logprob": -2.5}]
_THUMB = {"id": 231, "token": "👍", "bytes": [240, 159, 145, 141], "logprob": -0.1}
_TOP_THUMB = [{"id": 231, "token": "\ufffd", "bytes": [141], "logprob": -0.1}]
_TOP_THUMB += [{"id": 118, "token": "\ufffd", "bytes": [168], "logprob": -3.0}]

CASES = {
    "D01-line-separator": Case(
        stream(event("a\u2028b"), event("c", finish_reason="stop"), DONE), ("a\u2028bc",), ("stop",)
    ),
    "D02-no-space": _hello(
        event("Hel", prefix=b"data:"), event("lo", finish_reason="stop", prefix=b"data:"), b"data:[DONE]\n\n"
    ),
    "D02-crlf": _hello(
        event("Hel", newline=b"\r\n\r\n"),
        event("lo", finish_reason="stop", newline=b"\r\n\r\n"),
        b"data: [DONE]\r\n\r\n",
    ),
    "D03-ping-after-id": _hello(
        b"id: 1\n" + event("Hel"), b": ping\n\n", b"id: 2\n" + _END, b": ping\n\n", DONE
    ),
    "D04-character-cut": Case(stream(*_cut_inside("😀", _EMOJI), DONE, pace=0.002), ("é😀日",), ("stop",)),
    "D04-byte-by-byte": Case(
        stream(*(bytes([byte]) for byte in _EMOJI + DONE), pace=0.001), ("é😀日",), ("stop",)
    ),
    "D05-usage-without-choices": _hello(
        event("Hel", usage=None),
        event("lo", finish_reason="stop", usage=None),
        event(choices=[], usage=_USAGE),
        DONE,
        usage=_USAGE,
    ),
    "D06-cut-chunked": Case(chunked(event("Hel"), event("lo"), Close()), ("Hello",), (None,), error=""),
    "D06-cut-close-delimited": Case(stream(event("Hel"), event("lo")), ("Hello",), (None,), error=""),
    "D06-reset": Case(stream(event("Hel"), event("lo"), Reset()), ("Hello",), (None,), error=""),
    "D07-error-in-stream": Case(
        stream(
            event("Hel"),
            b'data: {"error":{"message":"KV cache is full","type":"InternalServerError","code":500}}\n\n',
            DONE,
        ),
        ("Hel",),
        (None,),
        error="KV cache is full",
    ),
    "D08-html-page": _refused(answer(502, "text/html", _PAGE), "502", "<"),
    "D08-error-is-a-string": _refused(
        answer(404, "application/json", '{"error":"model not found"}'), "model not found"
    ),
    "D09-key-in-the-401": _refused(
        failure(401, f"Incorrect API key provided: {KEY}.", code="invalid_api_key"), "401", "SECRETKEY"
    ),
    "D14-bytes-tokens": _whole(
        "😀", "length", logprobs(["bytes:\\xf0\\x9f", "bytes:\\x98\\x80"], [-0.5, -0.25], None, [0, 0])
    ),
    "D14-three-tokens-one-entry": _whole(
        "👍",
        "length",
        {"content": [{**_THUMB, "top_logprobs": _TOP_THUMB}]},
        usage={"prompt_tokens": 1, "completion_tokens": 3, "total_tokens": 4},
    ),
    "D15-null-first": _whole(
        "ab", "length", logprobs(["a", "b"], [None, -1.5], [None, {"b": -1.5, "c": -2.0}], [0, 1])
    ),
    "D15-null-first-echo": _whole(
        "The step",
        "length",
        logprobs(["The", " step"], [None, -8.8], [None, {" step": -8.8, " is": -0.7}], [0, 3]),
    ),
    "D16-infinity": _whole("a", "stop", _INFINITE),
    "D16-infinity-in-a-stream": Case(
        stream(event("a", finish_reason="stop", logprobs=_INFINITE), DONE), ("a",), ("stop",)
    ),
    "D16-stand-ins": _whole("a", "stop", logprobs(["a"], [0.0], [{"a": 0.0, "<s>": -9999.0, "x": -100}])),
    "D18-chat-shape": _whole(" Ge", "length", {"content": [{**_TOP_GE[0], "top_logprobs": _TOP_GE}]}),
    "D18-chat-shape-in-a-stream": Case(
        stream(
            event(" Ge", logprobs={"content": [{**_TOP_GE[0], "top_logprobs": _TOP_GE}]}, id="chatcmpl-1"),
            event("", finish_reason="length", id="chatcmpl-1"),
            DONE,
        ),
        (" Ge",),
        ("length",),
    ),
    "D19-two-interleaved": Case(
        stream(
            event("A", 0),
            event("x", 1),
            event("B", 0),
            event("y", 1),
            event("", 1, finish_reason="stop"),
            event("C", 0, finish_reason="length"),
            DONE,
        ),
        ("ABC", "xy"),
        ("length", "stop"),
    ),
}

"""`Recording`: a look on every exchange with a server as it passes, and a line of a file for each.

What it sees is what `Http` reads. All that gets into the file is masked, and no header of a request does.
"""

from __future__ import annotations

import asyncio
import atexit
import codecs
import itertools
import os
import re
import secrets
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic

import httpx

from oai_nb import deck
from oai_nb.address import Address
from oai_nb.deck import Asked, Deck, Send
from oai_nb.entry import bare, spelled
from oai_nb.errors import ConfigurationError, OaiNbError
from oai_nb.exchange import HEAD, Exchange, check_head, line
from oai_nb.http import FOREIGN, pieces, reason, untrusted
from oai_nb.intake import Intake
from oai_nb.keys import Mask
from oai_nb.request import Request

UNTRUSTED = "SSLError"
"""The name of an error of trust, for which httpx has none of its own."""

_HEADERS = ("content-type", "server", "retry-after", "retry-after-ms")
_DONE = re.compile(rb"(?:\A|[\r\n])data: ?\[DONE\]\s*\Z")
_DONE_FITS = 64  # bytes at the end of a piece in which the last event is looked for


class Recording(Deck):
    """What is being recorded: `path` is the file, `count` the exchanges that this wrote into it.

    `close` ends it, as the end of a ``with`` block does; it raises ConfigurationError where something could
    not be written.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._last = datetime.now().astimezone()
        self.take = f"{self._last.isoformat(timespec='seconds')} {secrets.token_hex(3)}"
        self._open: dict[_Taking, None] = {}
        self._writing = threading.Lock()
        self._fault = ""
        try:
            _append(path, b"")
        except OSError as error:
            raise ConfigurationError(f"{path.name} cannot be written: {error.strerror or error}") from None
        atexit.register(self._leave)

    def _leave(self) -> None:
        """Keep what still runs when the program ends."""
        with suppress(ConfigurationError):  # which was said already
            self.close()

    def forked(self) -> None:
        """Leave what is open, and the lock, to the parent of this process."""
        self._open, self._writing = {}, threading.Lock()

    def now(self) -> datetime:
        """Return a time later than any before: the clock may be set back, and the order counts."""
        self._last = max(datetime.now().astimezone(), self._last + timedelta(microseconds=1))
        return self._last

    def kind(self, _: Address) -> None:
        """Leave it to the answers to tell the kind of server."""

    @asynccontextmanager
    async def through(self, asked: Asked, send: Send) -> AsyncIterator[httpx.Response]:
        """Ask the server, and look on."""
        taking = _Taking(self, asked)
        self._open[taking] = None
        try:
            async with send() as response:
                yield taking.answered(response)
        except tuple(FOREIGN) as error:
            taking.end("failed", error)
            raise
        except asyncio.CancelledError:
            taking.end("stopped")
            raise
        finally:
            taking.end("whole")  # an error that was answered, or one of our own before any answer
            self._open.pop(taking, None)

    def keep(self, exchange: Callable[[], Exchange]) -> None:
        """Write an exchange; where that fails, say so once, disturb no answer, and raise at the end."""
        try:
            data = exchange().line()
            with self._writing:
                _append(self.path, data)
                self.count += 1
        except (ConfigurationError, OSError, ValueError) as error:  # a key that looks like JSON garbles it
            if not self._fault:
                why = getattr(error, "strerror", None) or error
                self._fault = f"{self.path.name} lacks answers, for they cannot be written: {why}"
                sys.stderr.write(f"{self._fault}\n")

    def close(self) -> None:
        """End it, and keep what still runs as far as it came; twice is once. Raises ConfigurationError."""
        super().close()
        atexit.unregister(self._leave)
        for taking in tuple(self._open):
            taking.end("stopped")
        fault, self._fault = self._fault, ""
        if fault:
            raise ConfigurationError(fault)


class _Taking:
    """One exchange while it passes. It ends once, from whichever thread is first."""

    def __init__(self, recording: Recording, asked: Asked) -> None:
        self._recording, self._asked = recording, asked
        self._at, self._begun = recording.now(), monotonic()
        self._response: httpx.Response | None = None
        self._came: list[tuple[float, bytes]] = []
        self._ending = threading.Lock()
        self._ended = False

    def answered(self, response: httpx.Response) -> httpx.Response:
        """Return the answer as it is to be read from now on."""
        self._response = response
        headers = response.headers.copy()
        headers.pop("content-encoding", None)  # the pieces are taken as they are read
        stream = _Watched(pieces(response), self)
        return httpx.Response(
            response.status_code,
            headers=headers,
            stream=stream,
            request=response.request,
            extensions=response.extensions,
        )

    async def add(self, piece: bytes) -> None:
        """Take a piece; the last event of a stream is the end, before anybody sees it."""
        self._came.append((monotonic() - self._begun, piece))
        if _is_done(piece):
            await self.end_aside("whole")

    async def end_aside(self, ended: str, error: Exception | None = None) -> None:
        """End it in another thread: other answers go on while keys are looked for in a long one."""
        try:
            await asyncio.to_thread(self.end, ended, error)
        except RuntimeError:  # none is begun any more while the interpreter ends
            self.end(ended, error)

    def end(self, ended: str, error: Exception | None = None) -> None:
        """Write it, if it has not ended and anything came of it; when this returns, it is in the file."""
        with self._ending:
            written, self._ended = self._ended, True
            if written or (self._response is None and ended == "whole"):
                return
            if ended == "stopped" and _is_done(b"".join(piece for _, piece in self._came)):
                ended = "whole"
            self._recording.keep(lambda: self._exchange(ended, error))

    def _exchange(self, ended: str, error: Exception | None) -> Exchange:
        asked, response, mask = self._asked, self._response, self._asked.http.mask
        headers = {} if response is None else {name: response.headers.get(name) for name in _HEADERS}
        answer = response is not None and response.is_success
        return Exchange(
            take=self._recording.take,
            at=self._at.isoformat(timespec="microseconds"),
            server=asked.server,
            ask=asked.ask,
            body=asked.body,
            status=None if response is None else response.status_code,
            headers={name: mask(value) for name, value in headers.items() if value is not None},
            seconds=round(monotonic() - self._begun, 3),
            ended=ended,
            error=None if error is None else (_name(error), mask(reason(error))),
            pieces=_unspelled(texts(self._came, mask, answer=answer), mask),
        )


class _Watched(httpx.AsyncByteStream):
    """The pieces of an answer as they are read, each shown to a taking first."""

    def __init__(self, source: AsyncIterator[bytes], taking: _Taking) -> None:
        self._source, self._taking = source, taking

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._source:
                await self._taking.add(piece)
                yield piece
        except Exception as error:
            await self._taking.end_aside("failed", error)
            raise
        await self._taking.end_aside("whole")


def _is_done(data: bytes) -> bool:
    """Tell whether this ends with a stream's last event."""
    last = data[-_DONE_FITS:]
    return b"[DONE]" in last and _DONE.search(last) is not None


def texts(came: list[tuple[float, bytes]], mask: Mask, *, answer: bool) -> tuple[tuple[float, str], ...]:
    """Return the pieces as texts: no character is cut, and no key is in them or over two of them.

    An answer keeps its words; in what a server says of an error, all that may be a key is covered.
    """
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    times = [round(at, 3) for at, _ in came]
    texts = [decode(piece) for _, piece in came]
    if came:
        texts[-1] += decode(b"", final=True)
    texts = mask.covered_parts(texts)
    if not answer:
        texts = [mask("".join(texts))]
        times = times[-1:]
    grouped = itertools.groupby(zip(times, texts, strict=False), key=lambda pair: pair[0])
    joined = ((at, "".join(text for _, text in group)) for at, group in grouped)
    return tuple((at, text) for at, text in joined if text)


def _unspelled(pieces: tuple[tuple[float, str], ...], mask: Mask) -> tuple[tuple[float, str], ...]:
    """Return the pieces, or the covered texts alone where a key is spelled over several events or tokens."""
    intake = Intake(Request(""), mask)
    try:
        intake.feed("".join(text for _, text in pieces).encode("utf-8", "replace"))
        intake.end()
    except OaiNbError:
        pass  # it is no answer, or not a whole one: what there is of it counts
    answer = intake.fold.completion(incomplete=None)
    return ((pieces[-1][0], bare(answer, mask)[1].decode()),) if spelled(answer, mask) else pieces


def _name(error: Exception) -> str:
    return UNTRUSTED if untrusted(error) else type(error).__name__


def _append(path: Path, data: bytes) -> None:
    """Write a line behind the last one, at once, so that several kernels may; begin a new file by its head.

    Raises OSError; ConfigurationError where the file is none of ours.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
    file = os.open(path, flags, 0o666)
    try:
        size = os.fstat(file).st_size
        if not size:
            data = line(HEAD) + data
        else:
            check_head(path, os.read(file, 4096).removeprefix(b"\xef\xbb\xbf").partition(b"\n")[0])
            os.lseek(file, -1, os.SEEK_END)
            if data and os.read(file, 1) != b"\n":  # a kernel was killed there
                data = b"\n" + data
        while data:
            data = data[os.write(file, data) :]
    finally:
        os.close(file)


def _forked() -> None:
    if isinstance(deck.current, Recording):
        deck.current.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)

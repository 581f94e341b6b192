"""`Replay`: the answers of a recording in the place of every server, at their pace.

It opens no connection. What `Http` reads of it is what it read when it was recorded.
"""

from __future__ import annotations

import asyncio
import math
import numbers
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from oai_nb.address import Address
from oai_nb.completion import Server
from oai_nb.deck import Asked, Deck, Send
from oai_nb.errors import BrokenStreamError, ConfigurationError
from oai_nb.exchange import Exchange, read
from oai_nb.http import FOREIGN, Http, TryAgain, pause
from oai_nb.recorded import Recorded
from oai_nb.recording import UNTRUSTED
from oai_nb.run import LONGEST_PAUSE
from oai_nb.servers import Kind
from oai_nb.told import EXTENSION, Told

LONGEST_WAIT = 5.0
"""Seconds of a recording that are waited at most between two pieces: a model may have been loaded then."""


class Replay(Deck):
    """What is being replayed: `path` is the file, `count` the exchanges in it, `speed` how fast.

    `close` ends it, as the end of a ``with`` block does; servers are asked again then.
    """

    def __init__(self, path: Path, speed: float) -> None:
        super().__init__(path)
        self.speed = _checked(speed)
        exchanges, complaints = read(path)
        self._recorded = Recorded(path.name, exchanges)
        self.count = len(exchanges)
        for complaint in complaints:
            sys.stderr.write(f"{complaint}\n")

    def kind(self, address: Address) -> Kind | None:
        """Return the kind of the server as its answers in the file show it."""
        return self._recorded.kind(address)

    @asynccontextmanager
    async def through(self, asked: Asked, _: Send) -> AsyncIterator[httpx.Response]:
        """Answer from the file. Raises NotRecordedError."""
        asked.deadline.enter("first_token")
        server = asked.server
        exchange = self._recorded.find(server, asked.ask, asked.body)
        note, played = self._note(exchange, server), _Played(exchange, self.speed)
        try:
            if exchange.status is None:
                await played.wait_for_the_end()
            yield httpx.Response(
                exchange.status or 200,
                headers=dict(exchange.headers),
                stream=played,
                request=httpx.Request(asked.method, asked.url),
                extensions={EXTENSION: self._told(exchange, server, note)},
            )
        except TryAgain as again:
            again.after = self._sooner(again.after)
            raise
        except _ENDINGS as error:
            raise self._ours(error, asked.http, note) from None

    def _ours(self, error: Exception, http: Http, note: str) -> Exception:
        """Return what ended an answer as our error, which says that it is replayed."""
        ours = BrokenStreamError(str(error)) if isinstance(error, _Ended) else http.translated(error)
        said = ours.error if isinstance(ours, TryAgain) else ours
        said.args = (f"{said}; {note}",)
        if isinstance(ours, TryAgain):
            ours.after = self._sooner(ours.after)
        return ours

    def _note(self, exchange: Exchange, server: str) -> str:
        """Say that this is no answer of now."""
        speeds = {1.0: "", math.inf: " at once"}
        speed = speeds.get(self.speed, f" at {self.speed:g} times the speed")
        where = "" if exchange.server == server else f", where {exchange.server} answered"
        return f"replayed{speed} from {self.path.name}, recorded {exchange.date}{where}"

    def _told(self, exchange: Exchange, server: str, note: str) -> Told:
        other = None
        if exchange.server != server:
            kind = self._recorded.kind(Address(exchange.server))
            other = Server("unknown" if kind is None else kind.name, exchange.server)
        first = exchange.pieces[0][0] if exchange.pieces else exchange.seconds
        return Told(note, exchange.body, other, (first, exchange.seconds))

    def _sooner(self, after: float | None) -> float:
        """Return the pause before the next try, at the replay's pace; one that is not waited for stays."""
        after = pause(0) if after is None else after
        return after if after > LONGEST_PAUSE else min(after, LONGEST_WAIT) / self.speed


class _Ended(Exception):  # noqa: N818 - never leaves this module
    """Say that a recorded answer goes no further."""


_ENDINGS: tuple[type[Exception], ...] = (_Ended, *FOREIGN)


class _Played(httpx.AsyncByteStream):
    """The pieces of an exchange, each after its time; at the end what ended it."""

    def __init__(self, exchange: Exchange, speed: float) -> None:
        self._exchange, self._speed = exchange, speed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        clock = asyncio.get_running_loop().time
        due, before = clock(), 0.0
        for at, text in (*self._exchange.pieces, (self._exchange.seconds, "")):
            due += min(max(0.0, at - before), LONGEST_WAIT) / self._speed
            before = at
            await asyncio.sleep(max(0.0, due - clock()))
            if text:
                yield text.encode("utf-8", "replace")
        if self._exchange.ended == "stopped":
            raise _Ended("the recording of this answer stops here")
        if self._exchange.error is not None:
            raise _foreign(*self._exchange.error)

    async def wait_for_the_end(self) -> None:
        """Raise after its time what came in place of an answer."""
        async for _ in self:
            pass


def _foreign(name: str, why: str) -> Exception:
    """Return the error that httpx raised."""
    if name == UNTRUSTED:
        error = httpx.ConnectError(why)
        error.__cause__ = ssl.SSLError()
        return error
    kinds = {kind.__name__: kind for kind in FOREIGN if issubclass(kind, httpx.RequestError)}
    return kinds.get(name, httpx.ReadError)(why)


def _checked(speed: Any) -> float:
    """Return the speed. Raises ConfigurationError."""
    real = isinstance(speed, numbers.Real) and not isinstance(speed, bool)
    if not (real and float(speed) > 0):
        how = "1 plays as recorded, 2 twice as fast, math.inf at once"
        raise ConfigurationError(f"speed={speed!r} is no number above 0: {how}")
    return float(speed)

"""`Run`: one request under way in the I/O loop, from its first try to its end.

All the state of a run lives here, behind one lock. It ends once: with the answer, with an error, or because
somebody stops it; what had come by then is kept. Attributes may be read from any thread; what is folded may
only be looked at while holding `changed`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from oai_nb import deadline, journal, loop, servers
from oai_nb.completion import Completion, Note, Timing
from oai_nb.deadline import Deadline, Limits
from oai_nb.decode import excerpt
from oai_nb.errors import BrokenStreamError, OaiNbError, ServerError
from oai_nb.http import TryAgain, pause, pieces, whole
from oai_nb.intake import Intake
from oai_nb.keys import Mask
from oai_nb.peer import Peer
from oai_nb.request import Request
from oai_nb.told import Told, told

if TYPE_CHECKING:
    import httpx

LONGEST_PAUSE = 60.0
"""Seconds that a server may ask to be left alone; to wait longer is the user's to decide."""
RUNNING = "still running"
"""Why the answer of a run that has not ended is incomplete."""

_GRACE = (
    1.0  # seconds after [DONE] in which a server may end its answer, so that the connection can be reused
)
_FIELDS = (b"d", b"e", b"i", b"r", b":")  # how a line of events begins (data, event, id, retry), and no JSON
_BLANK = b" \t\r\n\xef\xbb\xbf"
_BLANKS = 65_536  # bytes in which an answer may begin
_STATES = {"connect": "connecting", "first_token": "waiting", "retry": "retrying", "idle": "streaming"}
_log = logging.getLogger(__name__)


class Run:
    """A request that is being answered; it is on the way as soon as this exists.

    `sent` is its JSON, None until that is known. `incomplete` is why the answer is only a part, `error` what
    ended it, `again` why and when (`time.monotonic`) it will be tried again.
    """

    def __init__(
        self,
        peer: Peer,
        request: Request,
        *,
        streamed: bool,
        limits: Limits,
        max_retries: int,
        notes: tuple[Note, ...] = (),
    ) -> None:
        journal.tell()
        self.peer = peer
        self.request = request
        self.intake = Intake(request, peer.http.mask)
        self.changed = threading.Condition(threading.Lock())
        self.ended = threading.Event()
        self.sent: dict[str, Any] | None = None
        self.incomplete: str | None = RUNNING
        self.error: OaiNbError | None = None
        self.again = ("", 0.0)
        self._told: Told | None = None
        self._notes = notes
        self._final: Completion | None = None
        self._making = threading.Lock()
        self._streamed = streamed
        self._max_retries = max_retries
        self._deadline = Deadline(limits)
        self._end_state = ""
        self._started, self._begun = time(), monotonic()
        self._first: float | None = None
        self._total: float | None = None
        self._task: asyncio.Task[Any] | None = None
        self._loop = loop.running()
        peer.running.add(self)
        journal.watch(self)
        loop.submit(self._main())

    @property
    def state(self) -> str:
        """Give connecting, waiting, retrying, streaming, done, stopped or failed."""
        if self._end_state:
            return self._end_state
        state = _STATES[self._deadline.phase]
        return state if self.intake.events or state != "streaming" else "waiting"

    @property
    def seconds(self) -> float:
        """Give how long it has taken."""
        return monotonic() - self._begun if self._total is None else self._total

    @property
    def timing(self) -> Timing:
        """Give when it began and how long it took, as far as that is known."""
        return Timing(self._started, self._first, self._total)

    @property
    def completion(self) -> Completion:
        """Give the answer so far; when the run has ended it is made once, for all who ask."""
        with self._making:
            if self._final is not None:
                return self._final
            with self.changed:
                ended = self.ended.is_set()
                answer = self.intake.fold.completion(incomplete=self.incomplete)
            answer = replace(answer, sent=self.sent, server=self.peer.server, timing=self.timing)
            answer = answer if self._told is None else self._told.of(answer)
            noted = (*self._notes, *answer.fidelity, *servers.observe(self.request, answer))
            answer = replace(answer, fidelity=noted)
            if ended:
                self._final = answer
            return answer

    def stop(self, cause: str) -> None:
        """End it at once, from any thread; its connection is closed within milliseconds."""
        if self._end("stopped", cause):
            self._loop.call_soon_threadsafe(self._cancel)  # which nobody runs in a fork: it is the parent's

    async def _main(self) -> None:
        self._task = asyncio.current_task()
        try:
            if not self.ended.is_set():
                with self._deadline:
                    await self._try_until_answered()
        except Exception as error:
            self._fail(error)
        finally:
            self._end("stopped", "stopped")

    async def _try_until_answered(self) -> None:
        attempt = 0
        while (refusal := await self._try()) is not None:
            seconds = pause(attempt) if refusal.after is None else refusal.after
            if attempt >= self._max_retries or seconds > min(LONGEST_PAUSE, self._deadline.left()):
                raise refusal.error
            self.again = (str(refusal.error), monotonic() + seconds)
            self._deadline.enter("retry")
            await asyncio.sleep(seconds)
            attempt += 1

    async def _try(self) -> TryAgain | None:
        """Send the request once and read its answer; return why it may be sent again, if it may."""
        peer = self.peer
        try:
            self.sent = await peer.sent(self.request, self._deadline, streamed=self._streamed)
            content = json.dumps(self.sent, ensure_ascii=False).encode()
            await peer.http.exchange("POST", peer.completions, self._read, self._deadline, content)
        except TryAgain as again:
            return again
        return None

    async def _read(self, response: httpx.Response) -> None:
        self.peer.meet(response.headers)
        self._told = told(response.extensions)
        kind = response.headers.get("content-type", "")
        begins, rest = await _begun(pieces(response), self._deadline)
        events = begins.startswith(_FIELDS)
        if not begins.startswith((b"{", b"[")):
            events = events or (self._streamed and "json" not in kind)
        if events or "event-stream" in kind:
            await self._read_events(rest)
        else:
            body = await whole(rest, self._deadline)
            self._take(lambda: self.intake.whole(body))

    async def _read_events(self, came: AsyncIterator[bytes]) -> None:
        """Fold what comes; pieces that came together, one for each event, are taken as one block."""
        running, block = asyncio.get_running_loop(), bytearray()

        def take() -> None:
            data = bytes(block)
            block.clear()
            if data:
                self._deadline.came()
                self._take(lambda: self.intake.feed(data))

        try:
            async for piece in came:
                if not block:
                    running.call_soon(take)  # which is when there is nothing more to read for now
                block += piece
        finally:
            take()
        self._take(self.intake.end)

    def _take(self, step: Callable[[], None]) -> None:
        """Let the intake take something; end the run where that was the last, or an error."""
        try:
            with self.changed:
                if self.ended.is_set():
                    return
                step()
                if self._first is None and self.intake.events:
                    self._first = monotonic() - self._begun
                self.changed.notify_all()
        except Exception as error:
            self._fail(error)
            self._cancel()
            return
        if self.intake.fold.done and self._end("done", None):
            asyncio.get_running_loop().call_later(_GRACE, deadline.end, self._task)  # keeps no answer alive

    def _fail(self, error: Exception) -> None:
        """End with an error, unless the answer was already whole.

        An error that nobody expected, such as one of a transport's own, must not leave anybody waiting.
        """
        if self.intake.complete and not isinstance(error, ServerError):
            self._end("done", None)
            return
        ours = as_ours(error, self.peer.http.mask)
        self._end("failed", str(ours), ours)

    def _end(self, state: str, incomplete: str | None, error: OaiNbError | None = None) -> bool:
        """End the run, if it has not ended; tell whether this did it."""
        with self.changed:
            if self.ended.is_set():
                return False
            self._end_state, self.incomplete, self.error = state, incomplete, error
            self._total = monotonic() - self._begun
            self.ended.set()
            self.changed.notify_all()
        self.peer.running.discard(self)
        journal.keep(self)
        return True

    def _cancel(self) -> None:
        """Cancel the task, from a callback of the loop; a task that calls this ends by itself."""
        if asyncio.current_task() is not self._task:
            deadline.end(self._task)


def as_ours(error: Exception, mask: Mask) -> OaiNbError:
    """Return an error, or ours in place of one that nobody expected; masked, without what led to it."""
    if not isinstance(error, OaiNbError):
        frames = "".join(traceback.format_tb(error.__traceback__))  # without values, which may be keys
        _log.debug("unexpected %s\n%s", type(error).__name__, frames)
        why = excerpt(mask(str(error)))
        error = BrokenStreamError(f"the answer broke off: {type(error).__name__}: {why}")
    error.args = (mask(str(error)),)
    error.__cause__ = error.__context__ = error.__traceback__ = None  # they hold the request and its key
    return error


async def _begun(came: AsyncIterator[bytes], deadline: Deadline) -> tuple[bytes, AsyncIterator[bytes]]:
    """Return how a body begins, blanks and byte order mark left out, and the iterator from its start."""
    first = b""
    async for piece in came:
        deadline.came()
        first += piece
        if first.strip(_BLANK) or len(first) > _BLANKS:
            break

    async def all_of_it() -> AsyncIterator[bytes]:
        if first:
            yield first
        async for piece in came:
            yield piece

    return first.strip(_BLANK), all_of_it()

"""`CompletionStream`: a running request as it is seen from anywhere. It knows nothing of HTTP or displays."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from types import TracebackType

from oai_nb.completion import Completion
from oai_nb.decode import Chunk, decode
from oai_nb.errors import Interrupted, OaiNbError
from oai_nb.request import Request
from oai_nb.run import Run

SLICE = 0.1
"""Seconds that a thread waits at a time: on Windows nothing interrupts it within one."""


class CompletionStream:
    """A completion that is being made.

    Iterate for its chunks, as often as wanted and from any thread. Leaving a loop before its end (`break`,
    an error, an interrupt) stops the server, as `close` and the end of a ``with`` block do. Everything here
    may be called from any thread, at any time.
    """

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def request(self) -> Request:
        """Give what was asked."""
        return self._run.request

    @property
    def state(self) -> str:
        """Give connecting, waiting, retrying, streaming, done, stopped or failed."""
        return self._run.state

    @property
    def done(self) -> bool:
        """Tell whether it has ended, in whatever way."""
        return self._run.ended.is_set()

    @property
    def count(self) -> int:
        """Give the number of chunks so far."""
        return len(self._run.intake.events)

    @property
    def texts(self) -> dict[int, str]:
        """Give the text of each choice so far, by its index."""
        with self._run.changed:
            return self._run.intake.fold.texts

    @property
    def error(self) -> OaiNbError | None:
        """Give the error that ended it, with what had arrived as its `completion`; or None."""
        error = self._run.error
        if error is not None and error.completion is None:
            error.completion = self.completion
        return error

    @property
    def status(self) -> str:
        """Say in one line what is going on, or how it ended."""
        seconds = self._run.seconds
        if self.done:
            return self._run.incomplete or f"done in {seconds:.1f} s"
        reason, until = self._run.again
        return {
            "connecting": f"connecting to {self._run.peer.server.base_url}",
            "waiting": f"{self._run.peer.notice or 'waiting for the first token'}, {seconds:.1f} s",
            "retrying": f"{reason}; trying again in {max(0.0, until - monotonic()):.1f} s",
        }.get(self.state, f"{self.count} chunks, {seconds:.1f} s")

    @property
    def completion(self) -> Completion:
        """Give the answer so far; marked `incomplete` while it runs and when it was cut short."""
        return self._run.completion

    def __repr__(self) -> str:
        return f"<CompletionStream: {self.state}, {self.count} chunks>"

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it ends, at most `timeout` seconds; tell whether it has ended."""
        until = None if timeout is None else monotonic() + timeout
        while not self.done:
            left = SLICE if until is None else until - monotonic()
            if left <= 0:
                return False
            self._run.ended.wait(min(SLICE, left))
        return True

    def result(self) -> Completion:
        """Wait for the whole answer. Raises what ended it early, with its `completion`; or Interrupted."""
        try:
            while not self.wait(SLICE):
                self._run.peer.tell()
        except KeyboardInterrupt:
            raise self._interrupted() from None
        self._raise()
        return self.completion

    def __iter__(self) -> Iterator[Chunk]:
        """Yield the chunks from the first on, as they come. Raises what ended the stream early."""
        seen = 0
        try:
            while events := self._after(seen):
                seen += len(events)
                yield from map(decode, events)
        except KeyboardInterrupt:
            raise self._interrupted() from None
        finally:
            self.close()
        self._raise()

    def close(self, cause: str = "stopped") -> None:
        """Stop the server, in whatever phase it is; what has come is kept, incomplete because of `cause`.

        Returns at once; the connection is closed within milliseconds. Does nothing where it has ended.
        """
        self._run.stop(cause)

    def __enter__(self) -> CompletionStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        self.close("interrupted" if kind is not None and issubclass(kind, KeyboardInterrupt) else "stopped")

    def _after(self, seen: int) -> list[bytes]:
        """Wait for events beyond the first `seen`; return them, none where there will be no more."""
        events = self._run.intake.events
        with self._run.changed:
            while len(events) == seen and not self.done:
                self._run.changed.wait(SLICE)
                self._run.peer.tell()
            return events[seen:]

    def _raise(self) -> None:
        if self.error is not None:
            raise self.error.with_traceback(None)

    def _interrupted(self) -> Interrupted:
        self.close("interrupted")
        characters = sum(map(len, self.texts.values()))
        error = Interrupted(f"{characters} characters kept" if characters else "nothing had come yet")
        error.completion = self.completion
        return error

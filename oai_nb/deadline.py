"""Time limits: what a user sets, and the clock that ends a task when one of them runs out."""

from __future__ import annotations

import asyncio
import math
import numbers
from dataclasses import dataclass, fields
from types import TracebackType
from typing import Any, cast

from oai_nb.errors import ConfigurationError, TimeLimitError


@dataclass(frozen=True)
class Limits:
    """Seconds that each phase of a request may take; None means as long as it takes.

    `connect` until the request is sent, `first_token` until the first byte of the answer, `idle` between
    two pieces of it, `total` for everything, retries included. Raises ConfigurationError.
    """

    connect: float | None = 10
    first_token: float | None = 600
    idle: float | None = 120
    total: float | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            _check(item.name, getattr(self, item.name))


def _check(name: str, seconds: object) -> None:
    if seconds is None:
        return
    real = isinstance(seconds, numbers.Real) and not isinstance(seconds, bool)
    if not (real and 0 < float(seconds) < math.inf):  # type: ignore[arg-type]
        raise ConfigurationError(f"the time limit {name}={seconds!r} is no number of seconds above 0")


def as_limits(timeout: float | Limits | None) -> Limits:
    """Return the limits that a `timeout` means: a number is the seconds for the whole."""
    if isinstance(timeout, Limits):
        return timeout
    _check("timeout", timeout)
    return Limits(total=timeout)


_WORDS = {
    "connect": "connecting took longer than {:g} s",
    "first_token": "no answer came within {:g} s",
    "idle": "the server sent nothing for {:g} s",
    "total": "the answer took longer than {:g} s",
}
_CURES = {"total": "%config OaiNb.timeout = SECONDS or Client(timeout=SECONDS)"}


def end(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task, if there is one, and once: a second time would break into its closing of connections."""
    if task is not None and not task.cancelling():
        task.cancel()


class Deadline:
    """Cancel the task that entered it when a limit runs out, and raise TimeLimitError in its place.

    `phase` is where the request stands: ``connect``, ``first_token``, ``idle`` or, between two tries,
    ``retry``. It may be read from any thread.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.phase = "connect"
        self._breach: tuple[str, float] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Deadline:
        self._task, self._loop = cast(asyncio.Task[Any], asyncio.current_task()), asyncio.get_running_loop()
        self._start = self._loop.time()
        self.enter("connect")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._disarm()
        if self._breach is not None and kind is asyncio.CancelledError:
            self._task.uncancel()
            raise self.error() from None

    def enter(self, phase: str) -> None:
        """Begin a phase."""
        self.phase, self._since = phase, self._loop.time()
        self._arm()

    def came(self) -> None:
        """Note that a piece of the answer came: the idle time begins, or begins again."""
        if self.phase == "idle":
            self._since = self._loop.time()
        else:
            self.enter("idle")

    def left(self) -> float:
        """Return the seconds until `total` runs out."""
        total = self.limits.total
        return math.inf if total is None else self._start + total - self._loop.time()

    def error(self) -> TimeLimitError:
        """Return the error that says which limit ran out, and how to change it."""
        phase, seconds = self._breach or ("total", self.limits.total or 0.0)
        cure = _CURES.get(phase, f"Client(timeout=Limits({phase}=SECONDS))")
        message = f"{_WORDS[phase].format(seconds)}; to wait longer: {cure}"
        return TimeLimitError(message, phase=phase, seconds=seconds)

    def _arm(self) -> None:
        self._disarm()
        due, _, _ = self._next()
        if due < math.inf:
            self._timer = self._loop.call_at(due, self._look)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _next(self) -> tuple[float, str, float]:
        """Return which limit runs out next: when, its name and its seconds."""
        dues = [(math.inf, "", 0.0)]
        for phase, since in (("total", self._start), (self.phase, self._since)):
            seconds = getattr(self.limits, phase, None)
            if seconds is not None:
                dues.append((since + seconds, phase, float(seconds)))
        return min(dues)

    def _look(self) -> None:
        """End the task if a limit has run out; what came in the meantime only moved it."""
        due, phase, seconds = self._next()
        if self._loop.time() < due:
            self._arm()
        else:
            end(self._task)
            self._breach = (phase, seconds)

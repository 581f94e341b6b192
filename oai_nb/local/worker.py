"""The one thread in which the embedded model runs. Knows threads and processes; nothing of models.

Not a ThreadPoolExecutor: the interpreter waits for those at its exit, however long a download takes. Here it
waits for the step that is running, at most `PATIENCE` seconds, since a matrix product must not be torn down.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

NAME = "oai-nb-model"

PATIENCE = 3.0

P = ParamSpec("P")
T = TypeVar("T")
_Job = Callable[[], None]


class Worker:
    """A thread that runs calls one after another, first come, first served; it starts with the first."""

    def __init__(self) -> None:
        self._begin_anew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_anew)

    def submit(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call in the thread. Cancelling the future drops a call that has not begun."""
        future: Future[T] = Future()

        def job() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call(*args, **kwargs))
                except BaseException as error:
                    future.set_exception(error)

        self._start()
        self._jobs.put(job)
        return future

    def _begin_anew(self) -> None:
        """Forget the thread, which does not live in a forked child."""
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=_work, args=(self._jobs,), name=NAME, daemon=True)
                self._thread.start()
                atexit.register(self._stop)

    def _stop(self) -> None:
        """Let the thread end after what it is doing."""
        if self._thread is not None:
            waiting, self._jobs = self._jobs, SimpleQueue()
            while not waiting.empty():
                waiting.get()
            waiting.put(None)
            self._thread.join(PATIENCE)


def _work(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # or the last call's result lives until the next

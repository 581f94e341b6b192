"""The models that are loaded, once for all of a process, and who hears how far that is.

Knows threads and services; nothing of how a model is found, or of HTTP.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oai_nb.local import service
from oai_nb.local.fetch import Notify, running
from oai_nb.local.service import Service


class Models:
    """Services by their files; None is the embedded one. They are loaded in one thread, the model's."""

    def __init__(self) -> None:
        self._loaded: dict[Path | None, Service] = {}
        self._begin_anew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_anew)

    @contextmanager
    def waiting(self, notify: Notify) -> Iterator[None]:
        """Tell what a load says meanwhile, whoever began it: its last line at once, an empty one at its end.

        A load that nobody waits for any more is given up.
        """
        with self._lock:
            if self._line and notify not in self._waiting:
                notify(self._line)
            self._waiting.append(notify)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.remove(notify)
                if self._line and notify not in self._waiting:
                    notify("")

    def service(self, path: Path | None) -> Service:
        """Return a file's service, loaded if it is not yet, in the model's thread. Raises as `load` does."""
        if path not in self._loaded:
            try:
                self._loaded[path] = service.load(path, self._say, self._wanted)
            finally:
                self._say("")
        return self._loaded[path]

    def _say(self, line: str) -> None:
        with self._lock:
            self._line = line
            for notify in dict.fromkeys(self._waiting):
                notify(line)

    def _wanted(self) -> bool:
        return running() and bool(self._waiting)

    def _begin_anew(self) -> None:
        """Forget who waits: in a forked child nobody does."""
        self._lock = threading.Lock()
        self._waiting: list[Notify] = []
        self._line = ""

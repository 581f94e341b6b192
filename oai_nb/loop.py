"""The one background I/O loop: a daemon thread with an asyncio loop of its own, in which all HTTP happens.

Made when first needed, and made anew in a child after a fork. A notebook's own loop is never touched. This
module knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

THREAD = "oai-nb-io"

_lock = threading.RLock()
_loop: asyncio.AbstractEventLoop | None = None
_parents: list[asyncio.AbstractEventLoop | None] = []


def submit(coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Run a coroutine in the I/O loop; cancelling the future cancels it. Any thread may call."""
    return asyncio.run_coroutine_threadsafe(coroutine, running())


def running() -> asyncio.AbstractEventLoop:
    """Return the I/O loop, started if there is none yet in this process."""
    global _loop
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name=THREAD, daemon=True).start()
        return _loop


def _begin_anew() -> None:
    """Forget the parent's loop, whose thread does not live in the child.

    It is kept from the garbage collector: its selector and sockets are shared with the parent.
    """
    global _loop, _lock
    _parents.append(_loop)
    _loop, _lock = None, threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)

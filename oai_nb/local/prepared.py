"""One file of float32 matrices, written once and mapped by every kernel on the machine.

Knows names, shapes and bytes; nothing of models. The layout: 64 KiB of header (magic, length, JSON, zeros),
then the matrices one after another, each padded to 64 bytes. The header goes in last and the file gets its
name last, so an interrupted write leaves nothing that could be taken for a whole one.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

_MAGIC = b"OAINBF32"
_VERSION = 1
_HEADER = 65_536
_START = struct.Struct("<8sQ")
_ALIGNMENT = 64
_FAULTS = (OSError, ValueError, LookupError, TypeError, AttributeError, struct.error)
"""What reading may raise where a file is not as it was written."""


@dataclass(frozen=True)
class Source:
    """The file that the matrices were made from. `mtime` is in nanoseconds."""

    size: int
    mtime: int
    sha256: str


def write(path: Path, matrices: Iterable[tuple[str, Array]], source: Source) -> None:
    """Write the matrices, readable by all, under a name that appears when all is there. Raises OSError."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.seek(_HEADER)
            table = [_append(file, name, matrix) for name, matrix in matrices]
            header = {"version": _VERSION, "source": asdict(source), "size": file.tell(), "table": table}
            text = json.dumps(header).encode()
            if len(text) > _HEADER - _START.size:
                raise OSError(f"a header of {len(text)} bytes for {len(table)} matrices is too long")
            file.seek(0)
            file.write(_START.pack(_MAGIC, len(text)) + text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    finally:
        with suppress(FileNotFoundError):
            Path(temporary).unlink()


def _append(file: BinaryIO, name: str, matrix: Array) -> dict[str, Any]:
    offset = file.tell()
    data = np.zeros(-(-matrix.nbytes // _ALIGNMENT) * _ALIGNMENT // 4, np.float32)
    data[: matrix.size] = matrix.ravel()
    file.write(data.data)
    return {"name": name, "shape": matrix.shape, "offset": offset, "size": data.nbytes, "sum": _sum(data)}


def _sum(data: NDArray[Any]) -> int:
    """Return a checksum that any single change alters, at the speed of memory (SHA-256 takes 10x as long)."""
    return int(data.view(np.uint64).sum(dtype=np.uint64))


def read(path: Path) -> tuple[Source, dict[str, Array]] | None:
    """Map a written file, read-only; return None where it is absent, of another version, cut or damaged."""
    with suppress(*_FAULTS):
        header = _read_header(path)
        data = np.asarray(np.memmap(path, np.uint8, "r"))
        matrices = {entry["name"]: _matrix(data, entry) for entry in header["table"]}
        return Source(**header["source"]), matrices
    return None


def source(path: Path) -> Source | None:
    """Return what a written file was made from, by its header alone; or None, as `read` does."""
    with suppress(*_FAULTS):
        return Source(**_read_header(path)["source"])
    return None


def _read_header(path: Path) -> dict[str, Any]:
    """Raise one of `_FAULTS` where there is none that fits the file."""
    with path.open("rb") as file:
        magic, length = _START.unpack(file.read(_START.size))
        header: dict[str, Any] = json.loads(file.read(min(length, _HEADER))) if magic == _MAGIC else {}
    if header["version"] != _VERSION or path.stat().st_size != header["size"]:
        raise ValueError("of another version, or cut")
    return header


def _matrix(data: NDArray[np.uint8], entry: dict[str, Any]) -> Array:
    padded = data[entry["offset"] : entry["offset"] + entry["size"]]
    if _sum(padded) != entry["sum"]:
        raise ValueError(f"matrix {entry['name']} is damaged")
    count = int(np.prod(entry["shape"]))
    return padded.view(np.float32)[:count].reshape(entry["shape"])

"""Read a GGUF file: its metadata, and its tensors dequantised to float32.

Knows the file format (versions 2 and 3, little-endian) and nothing of models. The format:
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The file is memory-mapped; nothing is read
before it is asked for. Whatever is wrong with a file is a WeightsError.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oai_nb.errors import WeightsError

_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4",
    6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
_SIZE = struct.Struct("<Q")

_NAMES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1",
    10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 30: "BF16",
}  # fmt: skip


def _plain(blocks: NDArray[Any]) -> NDArray[np.float32]:
    return blocks.astype(np.float32)


def _q4_0(blocks: NDArray[Any]) -> NDArray[np.float32]:
    return (_nibbles(blocks["q"]) - np.float32(8)) * _column(blocks["d"])


def _q4_1(blocks: NDArray[Any]) -> NDArray[np.float32]:
    values = _nibbles(blocks["q"])
    values *= _column(blocks["d"])
    values += _column(blocks["m"])
    return values


def _q8_0(blocks: NDArray[Any]) -> NDArray[np.float32]:
    values: NDArray[np.float32] = np.multiply(blocks["q"], blocks["d"][:, None], dtype=np.float32)
    return values


def _nibbles(packed: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Unpack blocks of 16 bytes into 32 values: the low halves first, then the high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32)


def _column(scales: NDArray[np.float16]) -> NDArray[np.float32]:
    return scales.astype(np.float32)[:, None]


@dataclass(frozen=True)
class _Encoding:
    """How `values` consecutive numbers lie in one block, and how to get them out."""

    values: int
    block: np.dtype[Any]
    decode: Callable[[NDArray[Any]], NDArray[np.float32]]


_D, _M, _HALVES = ("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)
_ENCODINGS = {
    0: _Encoding(1, np.dtype("<f4"), _plain),
    1: _Encoding(1, np.dtype("<f2"), _plain),
    2: _Encoding(32, np.dtype([_D, _HALVES]), _q4_0),
    3: _Encoding(32, np.dtype([_D, _M, _HALVES]), _q4_1),
    8: _Encoding(32, np.dtype([_D, ("q", "i1", 32)]), _q8_0),
}


@dataclass(frozen=True)
class TensorInfo:
    """Where a tensor lies. `shape` runs from the slowest dimension to the fastest, as in NumPy."""

    name: str
    shape: tuple[int, ...]
    encoding: int
    offset: int  # bytes from the start of the file


class GGUF:
    """An open file: `metadata` (name to value, arrays as lists or NumPy arrays), `tensors`, `tensor(name)`.

    Use it in a `with` block, or close it. Raises WeightsError for what is no GGUF, damaged or cut short.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data = _map(path)
        try:
            self.metadata, self.tensors = _header(self._data)
        except (struct.error, LookupError, TypeError, ValueError, ArithmeticError, MemoryError) as error:
            self.close()
            raise WeightsError(f"{path} is damaged or cut short: {error}") from error
        except WeightsError as error:
            self.close()
            raise WeightsError(f"{path} {error}") from None

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Return one tensor as a new float32 array. Raises WeightsError where it is absent or unsupported."""
        info = self.tensors.get(name)
        if info is None:
            raise WeightsError(f"{self.path} has no tensor {name!r}")
        encoding = _ENCODINGS.get(info.encoding)
        if encoding is None:
            found = _NAMES.get(info.encoding, f"type {info.encoding}")
            known = ", ".join(_NAMES[kind] for kind in _ENCODINGS)
            raise WeightsError(f"{self.path}: tensor {name!r} is {found}, and only {known} are supported")
        count, rest = divmod(math.prod(info.shape), encoding.values)
        if rest or info.offset + count * encoding.block.itemsize > len(self._data):
            raise WeightsError(f"{self.path} is damaged or cut short: tensor {name!r} is not whole")
        blocks = np.frombuffer(self._data, encoding.block, count, info.offset)
        return encoding.decode(blocks).reshape(info.shape)

    def close(self) -> None:
        """Give the mapping back; arrays that were returned stay valid."""
        self._data.close()

    def __enter__(self) -> GGUF:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _map(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise WeightsError(f"{path} is empty") from error


def _header(data: mmap.mmap) -> tuple[dict[str, Any], dict[str, TensorInfo]]:
    reader = _Reader(data)
    if data[:4] != b"GGUF":
        raise WeightsError("is not a GGUF file")
    version, tensor_count, metadata_count = struct.unpack_from("<IQQ", data, 4)
    if version not in (2, 3):
        raise WeightsError(f"is GGUF version {version}, and only versions 2 and 3 are supported")
    reader.at = 24
    metadata = {reader.string(): reader.value(reader.number("<u4")) for _ in range(metadata_count)}
    found = [reader.tensor_info() for _ in range(tensor_count)]
    alignment = metadata.get("general.alignment", 32)
    start = math.ceil(reader.at / alignment) * alignment
    return metadata, {
        info.name: TensorInfo(info.name, info.shape, info.encoding, start + info.offset) for info in found
    }


class _Reader:
    """Take values off a buffer one after another; `at` is the position of the next."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def number(self, dtype: str) -> Any:
        return self.numbers(dtype, 1)[0].item()

    def numbers(self, dtype: str, count: int) -> NDArray[Any]:
        values = np.frombuffer(self.data, dtype, count, self.at).copy()
        self.at += values.nbytes
        return values

    def string(self) -> str:
        return self.strings(1)[0]

    def strings(self, count: int) -> list[str]:
        # Local names: this loop runs 100,000 times at every start, for 30 ms in all.
        data, at, length_at = self.data, self.at, _SIZE.unpack_from
        found = []
        for _ in range(count):
            start = at + 8
            at = start + length_at(data, at)[0]
            found.append(data[start:at].decode("utf-8", "replace"))
        if at > len(data):
            raise ValueError("a string runs past the end")
        self.at = at
        return found

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            return self.number(_SCALARS[kind])
        kind, count = self.number("<u4"), self.number("<u8")
        return self.strings(count) if kind == _STRING else self.numbers(_SCALARS[kind], count)

    def tensor_info(self) -> TensorInfo:
        name = self.string()
        shape = tuple(self.numbers("<u8", self.number("<u4")).tolist())
        return TensorInfo(name, shape[::-1], self.number("<u4"), self.number("<u8"))

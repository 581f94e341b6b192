"""Write GGUF files: what the tests need of the format, apart from our reader.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import struct

import numpy as np

U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
ALIGNMENT = 32


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(item):
    if isinstance(item, bool):
        return struct.pack("<I?", BOOL, item)
    if isinstance(item, int):
        return struct.pack("<II", U32, item)
    if isinstance(item, float):
        return struct.pack("<If", F32, item)
    if isinstance(item, str):
        return struct.pack("<I", STRING) + string(item)
    if isinstance(item, np.ndarray):
        return struct.pack("<IIQ", ARRAY, I32, len(item)) + item.astype("<i4").tobytes()
    return struct.pack("<IIQ", ARRAY, STRING, len(item)) + b"".join(map(string, item))


def write(path, metadata, tensors, version=3):
    """`tensors` maps names to (shape, type number, bytes or a function that makes them, size in bytes)."""
    head = [struct.pack("<4sIQQ", b"GGUF", version, len(tensors), len(metadata))]
    head += [string(name) + value(item) for name, item in metadata.items()]
    offset = 0
    for name, (shape, kind, _, size) in tensors.items():
        dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head.append(string(name) + dimensions + struct.pack("<IQ", kind, offset))
        offset += -(-size // ALIGNMENT) * ALIGNMENT
    with path.open("wb") as file:
        file.write(b"".join(head))
        for _, _, data, _ in tensors.values():
            file.write(b"\0" * (-file.tell() % ALIGNMENT))
            file.write(data() if callable(data) else data)
    return path

"""The reader against hand-made files, and against the real one."""

import struct

import numpy as np
import pytest
from local import gguf_writer

from oai_nb.errors import WeightsError
from oai_nb.local.gguf import GGUF

BLOCKS = 3


def half(number):
    return struct.pack("<e", number)


def made(tmp_path, kind, data, shape=(BLOCKS, 32)):
    tensors = {"first": ((5,), 0, bytes(20), 20), "x": (shape, kind, data, len(data))}
    return gguf_writer.write(tmp_path / "made.gguf", {"general.alignment": 32}, tensors)


def values(path):
    with GGUF(path) as file:
        return file.tensor("x")


# Each expectation is the format's own formula, one number at a time.


def test_f32(tmp_path):
    data = np.arange(96, dtype="<f4")
    assert values(made(tmp_path, 0, data.tobytes())).tolist() == data.reshape(BLOCKS, 32).tolist()


def test_f16(tmp_path):
    data = np.linspace(-4, 4, 96).astype("<f2")
    found = values(made(tmp_path, 1, data.tobytes()))
    assert found.dtype == np.float32
    assert found.ravel().tolist() == [float(x) for x in data]


def nibbles(packed):
    return [byte & 15 for byte in packed] + [byte >> 4 for byte in packed]


def blocks(size):
    generator = np.random.default_rng(2)
    return [generator.integers(0, 256, size, dtype=np.uint8).tobytes() for _ in range(BLOCKS)]


def test_q8_0(tmp_path):
    rows, scales = blocks(32), [0.5, -0.125, 2.0]
    data = b"".join(half(d) + q for d, q in zip(scales, rows, strict=True))
    expected = [[d * x for x in struct.unpack("32b", q)] for d, q in zip(scales, rows, strict=True)]
    assert values(made(tmp_path, 8, data)).tolist() == expected


def test_q4_0(tmp_path):
    rows, scales = blocks(16), [0.5, -0.125, 2.0]
    data = b"".join(half(d) + q for d, q in zip(scales, rows, strict=True))
    expected = [[d * (x - 8) for x in nibbles(q)] for d, q in zip(scales, rows, strict=True)]
    assert values(made(tmp_path, 2, data)).tolist() == expected


def test_q4_1(tmp_path):
    rows, scales = blocks(16), [(0.5, 1.0), (-0.125, 0.25), (2.0, -3.0)]
    data = b"".join(half(d) + half(m) + q for (d, m), q in zip(scales, rows, strict=True))
    expected = [[d * x + m for x in nibbles(q)] for (d, m), q in zip(scales, rows, strict=True)]
    assert values(made(tmp_path, 3, data)).tolist() == expected


@pytest.mark.parametrize(("kind", "name"), [(12, "Q4_K"), (14, "Q6_K"), (30, "BF16"), (99, "type 99")])
def test_other_encodings_are_named(tmp_path, kind, name):
    with pytest.raises(WeightsError, match=f"tensor 'x' is {name}, and only F32, F16, Q4_0, Q4_1, Q8_0"):
        values(made(tmp_path, kind, bytes(300)))


def test_metadata_of_every_kind(tmp_path):
    metadata = {
        "text": "ünï␣😀",
        "number": 7,
        "real": 0.5,
        "truth": True,
        "words": ["", "a b", "Ġthe"],
        "numbers": np.array([1, -2, 3]),
    }
    path = gguf_writer.write(tmp_path / "m.gguf", metadata, {})
    with GGUF(path) as file:
        found = file.metadata
    assert found.pop("numbers").tolist() == [1, -2, 3]
    assert found == {name: value for name, value in metadata.items() if name != "numbers"}


def test_version_2_is_read_and_others_are_refused(tmp_path):
    with GGUF(gguf_writer.write(tmp_path / "2.gguf", {"a": 1}, {}, version=2)) as file:
        assert file.metadata == {"a": 1}
    with pytest.raises(WeightsError, match="is GGUF version 1"):
        GGUF(gguf_writer.write(tmp_path / "1.gguf", {}, {}, version=1))


def test_what_is_no_gguf(tmp_path):
    path = tmp_path / "x.gguf"
    with pytest.raises(WeightsError, match="cannot be read: No such file"):
        GGUF(path)
    path.write_bytes(b"")
    with pytest.raises(WeightsError, match="is empty"):
        GGUF(path)
    path.write_bytes(b"<html>not found</html>" * 10)
    with pytest.raises(WeightsError, match="is not a GGUF file"):
        GGUF(path)


def test_a_file_cut_anywhere_is_noticed(tmp_path):
    metadata = {"words": ["one", "two", "three"], "numbers": np.arange(10)}
    path = gguf_writer.write(tmp_path / "whole.gguf", metadata, {"x": ((2, 32), 0, bytes(256), 256)})
    whole = path.read_bytes()
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(WeightsError):
            values(path)


def test_an_absent_tensor_is_named(tmp_path):
    path = gguf_writer.write(tmp_path / "m.gguf", {}, {})
    with GGUF(path) as file, pytest.raises(WeightsError, match="has no tensor 'x'"):
        file.tensor("x")


def test_the_real_file(gguf_path):
    with GGUF(gguf_path) as file:
        assert file.metadata["general.architecture"] == "llama"
        assert len(file.metadata["tokenizer.ggml.tokens"]) == 49_152
        assert len(file.tensors) == 272
        embedding = file.tensor("token_embd.weight")
    assert embedding.shape == (49_152, 576)
    assert embedding.dtype == np.float32
    assert 0.05 < embedding.std() < 0.5

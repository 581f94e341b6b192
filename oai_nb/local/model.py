"""The forward pass of a llama-like model in NumPy, with its cache of keys and values.

Knows matrices and token ids; knows nothing of text, sampling or files. Shapes are written [rows, width]:
a row is one position of a prompt being read, or one of the candidates that continue it.

    cache = model.cache(len(ids))
    for chunk in chunks(ids):
        hidden = model.read(chunk, cache)         # [len(chunk), width]
    branches = cache.fork(8)
    logits = model.logits(hidden[-1:])            # [1, vocabulary]
    logits = model.step(eight_ids, branches)      # [8, vocabulary]

All candidates of a prompt are at the same position, and they share the prompt's keys and values: 8
candidates cost 8 times what they add, not 8 times the prompt (46 kB a token).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from oai_nb.local import threads
from oai_nb.local.layout import Config

Array = NDArray[np.float32]

CHUNK = 128
"""Tokens of a prompt read at once: what bounds the attention's memory and how long a stop waits."""

BLOCK = 64
"""Tokens by which a candidate's part of the cache grows."""

_Attend = Callable[[int, Array, Array, Array], Array]
"""Layer, queries, keys and values of the rows, to what the rows have gathered; each [rows, heads, head]."""


def chunks(tokens: Sequence[int]) -> Iterator[Sequence[int]]:
    """Cut a prompt into what is read at once."""
    for start in range(0, len(tokens), CHUNK):
        yield tokens[start : start + CHUNK]


class Cache:
    """The keys and values of a prompt's `length` tokens read so far, with room for `capacity`."""

    def __init__(self, config: Config, capacity: int) -> None:
        self.config = config
        self.length = 0
        shape = (2, config.kv_heads, capacity, config.head)
        self.layers = [np.empty(shape, np.float32) for _ in range(config.layers)]

    def fork(self, rows: int) -> Branches:
        """Begin `rows` candidates, which share this cache."""
        return Branches(self, rows)


class Branches:
    """The keys and values of the candidates' own tokens: `length` of them for each of `rows`."""

    def __init__(self, cache: Cache, rows: int) -> None:
        self.cache = cache
        self.rows = rows
        self.length = 0
        shape = (2, cache.config.kv_heads, rows, 0, cache.config.head)
        self.layers = [np.empty(shape, np.float32) for _ in range(cache.config.layers)]

    @property
    def position(self) -> int:
        """Give the position, counted from the prompt's start, of the candidates' next token."""
        return self.cache.length + self.length

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all candidates but these (indices into the present rows)."""
        self.layers = [layer[:, :, rows] for layer in self.layers]
        self.rows = len(rows)

    def append(self, layer: int, keys: Array, values: Array) -> Array:
        """Store one position, keys and values [kv_heads, rows, head]; return all of the layer's so far."""
        stored = self.layers[layer]
        if stored.shape[3] == self.length:
            grown = np.empty((*stored.shape[:3], self.length + BLOCK, stored.shape[4]), np.float32)
            grown[:, :, :, : self.length] = stored
            self.layers[layer] = stored = grown
        stored[0, :, :, self.length] = keys
        stored[1, :, :, self.length] = values
        return stored[:, :, :, : self.length + 1]


class Model:
    """A model ready to run: its `config` and the matrices that `layout.fused` names."""

    def __init__(self, config: Config, arrays: Mapping[str, Array]) -> None:
        self.config = config
        self._embedding = arrays["embedding"]
        self._output = arrays.get("output", self._embedding)
        self._output_norm = arrays["output_norm"]
        names = ("qkv", "gathered", "gate_up", "down")
        self._layers = [tuple(arrays[f"{i}.{name}"] for name in names) for i in range(config.layers)]
        self._frequencies = config.rope_base ** (-np.arange(0, config.head, 2) / config.head)

    def cache(self, capacity: int) -> Cache:
        """Make the empty cache of a prompt of at most `capacity` tokens."""
        return Cache(self.config, capacity)

    def read(self, tokens: Sequence[int], cache: Cache) -> Array:
        """Read the next tokens of a prompt, at most `CHUNK`; return their hidden states [tokens, width]."""
        rows, start, end = len(tokens), cache.length, cache.length + len(tokens)
        unseen = np.triu(np.full((rows, rows), -np.inf, np.float32), 1)[:, None]

        def attend(layer: int, queries: Array, keys: Array, values: Array) -> Array:
            stored = cache.layers[layer]
            stored[0, :, start:end] = keys.transpose(1, 0, 2)
            stored[1, :, start:end] = values.transpose(1, 0, 2)
            scores = _grouped(queries, self.config) @ stored[0, :, :end].transpose(0, 2, 1)
            scores.reshape(self.config.kv_heads, rows, -1, end)[..., start:] += unseen
            return _ungrouped(_softmax(scores) @ stored[1, :, :end], self.config)

        hidden = self._forward(tokens, np.arange(start, end), attend)
        cache.length = end
        return hidden

    def step(self, tokens: Sequence[int], branches: Branches) -> Array:
        """Add one token to each candidate; return the logits of the next [rows, vocabulary]."""
        shared = branches.cache.length
        each = (self.config.kv_heads, branches.rows, self.config.group, -1)

        def attend(layer: int, queries: Array, keys: Array, values: Array) -> Array:
            common = branches.cache.layers[layer][:, :, :shared]
            own = branches.append(layer, keys.transpose(1, 0, 2), values.transpose(1, 0, 2))
            asked = _grouped(queries, self.config)
            together = asked @ common[0].transpose(0, 2, 1)
            apart = asked.reshape(each) @ own[0].transpose(0, 1, 3, 2)
            weights = _softmax(np.concatenate([together, apart.reshape(*together.shape[:2], -1)], axis=-1))
            gathered = weights[..., :shared] @ common[1]
            gathered += (weights[..., shared:].reshape(each) @ own[1]).reshape(gathered.shape)
            return _ungrouped(gathered, self.config)

        hidden = self._forward(tokens, np.array([branches.position]), attend)
        branches.length += 1
        return self.logits(hidden)

    def logits(self, hidden: Array) -> Array:
        """Return the logits [rows, vocabulary] of hidden states: 197 kB a row, each in one piece."""
        with threads.limit():
            normal = _normal(hidden, self.config.epsilon) * self._output_norm
            return np.ascontiguousarray(_product(normal, self._output))

    def _forward(self, tokens: Sequence[int], positions: NDArray[np.int64], attend: _Attend) -> Array:
        config, rows = self.config, len(tokens)
        angles = positions[:, None, None] * self._frequencies
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        split = (config.heads, config.heads + config.kv_heads)
        x: Array = self._embedding[np.asarray(tokens)]
        # exp(-gate) overflows to infinity far left of zero, where gate / infinity = 0 is right
        with threads.limit(), np.errstate(over="ignore"):
            for i, (qkv, gathered, gate_up, down) in enumerate(self._layers):
                mixed = _product(_normal(x, config.epsilon), qkv).reshape(rows, -1, config.head)
                turned = _rotate(mixed[:, : split[1]], cos, sin)
                found = attend(i, turned[:, : split[0]], turned[:, split[0] :], mixed[:, split[1] :])
                x += _product(found, gathered)
                gate, up = _halves(_product(_normal(x, config.epsilon), gate_up))
                x += _product(gate / (1 + np.exp(-gate)) * up, down)
        return x


def _normal(x: Array, epsilon: float) -> Array:
    """Scale each row to a root mean square of 1."""
    squares = np.square(x).sum(axis=-1, keepdims=True)
    scaled: Array = x / np.sqrt(squares / np.float32(x.shape[-1]) + np.float32(epsilon))
    return scaled


def _halves(x: Array) -> tuple[Array, Array]:
    """Cut along the last axis; `np.split` takes longer than what is done with the halves of one row."""
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]


def _rotate(x: Array, cos: Array, sin: Array) -> Array:
    """Turn each pair (first half, second half) by its position's angle: rotary embedding."""
    first, second = _halves(x)
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)


def _softmax(scores: Array) -> Array:
    """Turn scores into weights in place, along the last axis."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def _grouped(queries: Array, config: Config) -> Array:
    """Sort [rows, heads, head] by the keys they meet: [kv_heads, rows * group, head]."""
    split = queries.reshape(len(queries), config.kv_heads, config.group, config.head)
    return split.transpose(1, 0, 2, 3).reshape(config.kv_heads, -1, config.head)


def _ungrouped(gathered: Array, config: Config) -> Array:
    """Undo `_grouped`: [rows, heads * head]."""
    split = gathered.reshape(config.kv_heads, -1, config.group * config.head)
    return split.transpose(1, 0, 2).reshape(-1, config.heads * config.head)


_IN_CACHE = 2**21
"""Bytes of a matrix that stay in the processor's cache from one row to the next."""

_ROWS_FIRST = threads.architecture() in ("Haswell", "Zen")


def _product(x: Array, matrix: Array) -> Array:
    """Return x @ matrix.T in the fastest form for the number of rows; above 7 it may lie column by column.

    Measured with OpenBLAS: up to 7 rows, matrix-vector products over pieces that stay in the cache (2-3x
    faster than either form below at 2 to 4 rows); from 8 rows (W @ x.T).T is 1.5 times faster on AVX-512
    kernels (1.15 times from 64 rows) and 0.8 times on AVX2 ones (equal from 64 rows).
    """
    rows = len(x)
    if rows == 1 or (rows >= 8 and _ROWS_FIRST):
        direct: Array = x @ matrix.T
        return direct
    if rows >= 8:
        return (matrix @ x.T).T
    product = np.empty((rows, len(matrix)), np.float32)
    height = _IN_CACHE // (4 * matrix.shape[1])
    for top in range(0, len(matrix), height):
        piece = matrix[top : top + height]
        for row in range(rows):
            np.dot(piece, x[row], out=product[row, top : top + height])
    return product

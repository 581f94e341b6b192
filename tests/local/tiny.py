"""A model small enough to make a thousand of; with the real vocabulary, one that speaks (nonsense)."""

import numpy as np
from local import gguf_writer

VOCABULARY, WIDTH, FEED_FORWARD = 40, 32, 64
METADATA = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.context_length": 4096,
    "llama.embedding_length": WIDTH,
    "llama.feed_forward_length": FEED_FORWARD,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
}


def shapes(vocabulary):
    yield "token_embd.weight", (vocabulary, WIDTH)
    yield "output_norm.weight", (WIDTH,)
    for i in range(METADATA["llama.block_count"]):
        for name, shape in (
            ("attn_norm", (WIDTH,)),
            ("attn_q", (WIDTH, WIDTH)),
            ("attn_k", (WIDTH // 2, WIDTH)),
            ("attn_v", (WIDTH // 2, WIDTH)),
            ("attn_output", (WIDTH, WIDTH)),
            ("ffn_norm", (WIDTH,)),
            ("ffn_gate", (FEED_FORWARD, WIDTH)),
            ("ffn_up", (FEED_FORWARD, WIDTH)),
            ("ffn_down", (WIDTH, FEED_FORWARD)),
        ):
            yield f"blk.{i}.{name}.weight", shape


def write(path, seed=0, vocabulary=VOCABULARY):
    """Write a model of random float32 numbers."""
    return _write(path, METADATA, seed, vocabulary)


def write_speaking(path, real):
    """Write one with the tokenizer in the metadata of a real one."""
    tokenizer = {name: value for name, value in real.items() if name.startswith("tokenizer.")}
    return _write(path, METADATA | tokenizer, 0, len(real["tokenizer.ggml.tokens"]))


def _write(path, metadata, seed, vocabulary):
    generator = np.random.default_rng(seed)
    tensors = {}
    for name, shape in shapes(vocabulary):
        data = generator.normal(0, 0.3, shape).astype("<f4")
        tensors[name] = (shape, 0, data.tobytes(), data.nbytes)
    return gguf_writer.write(path, metadata, tensors)

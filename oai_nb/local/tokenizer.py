"""Turn text into token ids and back: byte-level BPE with SmolLM2's rules, read from a GGUF's metadata.

The same ids as llama.cpp. What to know:

- Which characters are letters or numerals is Python's to say (Unicode 14 in 3.11); llama.cpp's tables are
  Unicode 15.1. Characters that only one of them knows may fall into other tokens there.
- Special tokens such as ``<|im_start|>`` are recognised wherever their text stands, as servers do it.
- 21 byte values (04 06 13 14 16 1d c0 c1 f1 f2 f5-ff) have no token in SmolLM2's vocabulary. Like
  llama.cpp we leave them out: those control characters, and one byte of each character from U+40000 up.
- A lone surrogate is no character: it is read as U+FFFD.

Splitting takes time in proportion to the length of the text, merging n log n in the length of a word.
"""

from __future__ import annotations

import heapq
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from oai_nb.errors import WeightsError

_STANDS_FOR_ITSELF = (3, 4)
"""Token types, control and user-defined, whose text is no byte-level spelling."""

_END_TOKENS = ("<|endoftext|>", "<|im_end|>")

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_LONG_WORD = 64  # characters; longer ones are too rare and too large to remember


def _spelling() -> dict[int, int]:
    """Map each byte to the character that stands for it in the vocabulary (GPT-2's table)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return dict(zip(shown, shown, strict=True)) | {byte: 256 + i for i, byte in enumerate(hidden)}


_SPELLED = _spelling()
_UNSPELLED = {character: byte for byte, character in _SPELLED.items()}


class _Classes(dict[int, str]):
    """Map code points to the class that decides where words end, found out when first met.

    ``L`` letter, ``N`` numeral, ``S`` white space, ``O`` other. The space, the apostrophe and the
    letters of the contractions stand for themselves.
    """

    def __missing__(self, point: int) -> str:
        self[point] = found = self._class(chr(point))
        return found

    @staticmethod
    def _class(character: str) -> str:
        if character in " 'delmrstv":
            return character
        category = unicodedata.category(character)[0]
        if category in "LN":
            return category
        # Python counts the four information separators as white space; Unicode does not.
        return "S" if character.isspace() and character not in "\x1c\x1d\x1e\x1f" else "O"


_CLASSES = _Classes()

# GPT-2's pattern on classes, with every numeral a word of its own. White space before a word leaves its
# last character to that word (a space) or to itself (anything else), except before a numeral or the end.
_WORD = re.compile(r"'(?:s|t|re|ve|m|ll|d)|N| ?[Ldelmrstv]+| ?[O']+|[ S]+(?![^ SN])|[ S]")


def words(text: str) -> Iterator[str]:
    """Cut text into the pieces inside which tokens are merged. Joined they are the text."""
    for match in _WORD.finditer(text.translate(_CLASSES)):
        yield text[match.start() : match.end()]


class Tokenizer:
    """The vocabulary of one model. `size` is the number of token ids, `end_ids` the ids that end a text."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        _check(metadata)
        self._tokens: list[str] = metadata["tokenizer.ggml.tokens"]
        self._ids = {token: i for i, token in enumerate(self._tokens)}
        self._ranks = {pair: rank for rank, pair in enumerate(metadata["tokenizer.ggml.merges"])}
        types = metadata["tokenizer.ggml.token_type"]
        self._special = {self._tokens[i] for i, kind in enumerate(types) if kind in _STANDS_FOR_ITSELF}
        self._special_pattern = re.compile(f"({'|'.join(map(re.escape, self._special)) or '(?!)'})")
        self._remembered = lru_cache(maxsize=65_536)(self._merge)
        self.size = len(self._tokens)
        named = {self._ids[token] for token in _END_TOKENS if token in self._special}
        self.end_ids = frozenset(named | {int(metadata["tokenizer.ggml.eos_token_id"])})

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        ids: list[int] = []
        pieces = self._special_pattern.split(_LONE_SURROGATE.sub("\ufffd", text))
        for i, piece in enumerate(pieces):
            ids += [self._ids[piece]] if i % 2 else self._encode_plain(piece)
        return ids

    def piece(self, token: int) -> bytes:
        """Return the bytes of one token, which may be a part of a character."""
        text = self._tokens[token]
        if text in self._special:
            return text.encode()
        return text.translate(_UNSPELLED).encode("latin-1")

    def decode(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of a sequence of tokens."""
        return b"".join(map(self.piece, ids))

    def display(self, token: int) -> str:
        r"""Return the API's string for a token: its text, or ``bytes:\xf0\x9f`` for a part of a character."""
        piece = self.piece(token)
        try:
            return piece.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)

    def _encode_plain(self, text: str) -> Iterator[int]:
        for word in words(text):
            yield from self._remembered(word) if len(word) < _LONG_WORD else self._merge(word)

    def _merge(self, word: str) -> tuple[int, ...]:
        """Join the pair of the lowest rank, leftmost first, until no pair has one."""
        pieces = list(word.encode().decode("latin-1").translate(_SPELLED))
        after = [*range(1, len(pieces)), -1]
        before = [*range(-1, len(pieces) - 1)]
        queue: list[tuple[int, int]] = []

        def rank(left: int) -> int | None:
            right = after[left]
            return None if right < 0 else self._ranks.get(f"{pieces[left]} {pieces[right]}")

        def consider(left: int) -> None:
            found = rank(left)
            if found is not None:
                heapq.heappush(queue, (found, left))

        for left in range(len(pieces)):
            consider(left)
        while queue:
            found, left = heapq.heappop(queue)
            if rank(left) != found:
                continue  # one of the two has been joined to another since
            right = after[left]
            pieces[left], pieces[right] = pieces[left] + pieces[right], ""
            after[left] = after[right]
            before[after[right]] = left  # the last has no neighbour: it writes where nothing is read
            consider(left)
            if before[left] >= 0:
                consider(before[left])
        return tuple(self._ids[piece] for piece in pieces if piece in self._ids)


def _check(metadata: Mapping[str, Any]) -> None:
    kind, rules = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if (kind, rules) != ("gpt2", "smollm"):
        raise WeightsError(
            f"the model's tokenizer is {kind}/{rules}, and only gpt2/smollm is supported: "
            "serve this model with llama.cpp, Ollama or vLLM and connect to that"
        )

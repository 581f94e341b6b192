"""Turn text into token ids and back: byte-level BPE with SmolLM2's rules, read from a GGUF's metadata.

The same ids as llama.cpp, for every text. Three things to know:

- Special tokens such as ``<|im_start|>`` are recognised wherever their text stands, as servers do it.
- 21 byte values (04 06 13 14 16 1d c0 c1 f1 f2 f5-ff) have no token in SmolLM2's vocabulary. Like
  llama.cpp we leave them out: those control characters, and characters from U+40000 up lose them.
- A lone surrogate is no character: it is read as U+FFFD.

All steps take time in proportion to the length of the text (times its logarithm inside one word).
"""

from __future__ import annotations

import functools
import heapq
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from oai_nb.errors import WeightsError

_CONTROL, _USER_DEFINED = 3, 4  # token types whose text stands for itself

_SUPPORTED = "only byte-level BPE (gpt2) with the smollm pre-tokenizer is supported"

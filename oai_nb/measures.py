"""Numbers that say how sure or surprised a model was. Pure; nats unless the name says bits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

EXACT_TAIL = 1e-6
"""When less than this probability is unseen, an entropy counts as exact."""


def mean_logprob(logprobs: Iterable[float | None]) -> float | None:
    """Return the mean of the known logprobs in nats; None when there are none."""
    known = [value for value in logprobs if value is not None]
    return math.fsum(known) / len(known) if known else None


def perplexity(logprobs: Iterable[float | None]) -> float | None:
    """Return exp(-mean logprob): the number of equally likely tokens that would surprise as much."""
    mean = mean_logprob(logprobs)
    if mean is None:
        return None
    return math.inf if mean < -700 else math.exp(-mean)


def entropy_bits(logprobs: Sequence[float]) -> tuple[float, bool]:
    """Return the entropy in bits of a distribution of which `logprobs` are seen, and whether it is exact.

    What is unseen counts as one more token, which makes the value a lower bound: splitting that mass among
    several tokens can only add to it.
    """
    seen = [math.exp(value) for value in logprobs]
    rest = max(0.0, 1.0 - math.fsum(seen))
    bits = math.fsum(-p * math.log2(p) for p in [*seen, rest] if p > 0)
    return bits, rest < EXACT_TAIL

"""Entropy, perplexity and surprisal against values worked out by hand."""

import math

import pytest

from oai_nb.measures import entropy_bits, mean_logprob, perplexity

HALF = math.log(0.5)


def test_the_mean_skips_what_is_unknown():
    assert mean_logprob([None, -1.0, -3.0]) == -2.0
    assert mean_logprob([None]) is None and perplexity([]) is None


def test_perplexity_of_fair_coins_is_two():
    assert math.isclose(perplexity([HALF, HALF, None]), 2)
    assert perplexity([-math.inf]) == math.inf and perplexity([-9999.0]) == math.inf


def test_a_fair_coin_has_one_bit():
    bits, exact = entropy_bits([HALF, HALF])
    assert math.isclose(bits, 1) and exact


@pytest.mark.parametrize("seen", [[0.5], [0.5, 0.2], [0.97]])
def test_an_entropy_of_what_is_seen_is_a_lower_bound(seen):
    rest = 1 - sum(seen)
    bits, exact = entropy_bits([math.log(p) for p in seen])
    spread = [*seen, *[rest / 1000] * 1000]
    assert not exact and bits < -sum(p * math.log2(p) for p in spread)


def test_impossible_tokens_add_nothing():
    assert entropy_bits([0.0, -math.inf]) == (0.0, True)

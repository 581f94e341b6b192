"""The sampler's stages by hand-made numbers, and its draws against distributions computed here."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oai_nb import sampling
from oai_nb.sampling import Sampling

VOCABULARY = 49_152
Z = np.array([2.0, 1.0, 0.0, -1.0])


def probabilities(z):
    """Softmax in plain Python: the tests' own arithmetic."""
    weights = [math.exp(x) for x in z]
    total = sum(weights)
    return [weight / total for weight in weights]


def chi_square_limit(freedom):
    """The value that chance exceeds once in 10,000 (Wilson and Hilferty's approximation)."""
    part = 2 / (9 * freedom)
    return freedom * (1 - part + 3.719 * math.sqrt(part)) ** 3


def chi_square(counts, expected):
    """Pearson's sum over the cells with enough expected draws, the rest in one cell; and the freedom."""
    counts, expected = np.asarray(counts, float), np.asarray(expected, float)
    large = expected >= 10
    observed = np.append(counts[large], counts[~large].sum())
    wanted = np.append(expected[large], expected[~large].sum())
    filled = wanted > 0
    return float((((observed - wanted) ** 2)[filled] / wanted[filled]).sum()), int(filled.sum()) - 1


def assert_follows(counts, distribution):
    total = sum(counts)
    assert all(count == 0 for count, p in zip(counts, distribution, strict=True) if p == 0)
    statistic, freedom = chi_square(counts, np.asarray(distribution) * total)
    assert statistic < chi_square_limit(freedom)


def draws(settings, z, number, counts=None, seed=5):
    found = [settings.sample(z, counts or {}, (seed, 0, 0, step)) for step in range(number)]
    return np.bincount(found, minlength=len(z))


# Stages


def test_penalties_count_the_sampled_tokens_only():
    penalised = sampling.penalise(Z, {0: 3, 2: 1}, frequency=0.5, presence=0.25)
    assert penalised == pytest.approx([2.0 - 3 * 0.5 - 0.25, 1.0, 0.0 - 0.5 - 0.25, -1.0])


def test_negative_penalties_raise_and_stages_leave_their_input_alone():
    before = Z.copy()
    assert sampling.penalise(Z, {1: 2}, frequency=-1, presence=0)[1] == 3
    assert sampling.bias(Z, {3: 100, 0: -100}).tolist() == [-98, 1, 0, 99]
    sampling.temper(Z, 0.5)
    sampling.log_softmax(Z)
    assert (before == Z).all()


def test_temperature_divides_the_logits():
    assert sampling.softmax(sampling.temper(Z, 0.5)) == pytest.approx(probabilities(Z / 0.5))


def test_temperature_zero_takes_the_likeliest_and_of_equals_the_lowest_id():
    assert sampling.softmax(sampling.temper([1.0, 3.0, 3.0], 0)).tolist() == [0, 1, 0]
    assert Sampling(temperature=0).sample([1.0, 3.0, 3.0], {}, (1, 0, 0, 0)) == 1


@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-9])
def test_tiny_temperatures_are_the_likeliest_token_too(temperature):
    assert Sampling(temperature=temperature).distribution(Z, {}).tolist() == [1, 0, 0, 0]


def test_log_softmax_is_the_logarithm_of_the_probabilities():
    assert np.exp(sampling.log_softmax(Z)) == pytest.approx(probabilities(Z))
    assert sampling.log_softmax([0.0, -np.inf]).tolist() == [0, -np.inf]


def test_stages_take_batches():
    batch = np.stack([Z, Z[::-1]])
    for stage in (sampling.log_softmax, sampling.softmax, lambda z: sampling.temper(z, 0)):
        assert (stage(batch) == np.stack([stage(Z), stage(Z[::-1])])).all()
    assert sampling.bias(batch, {0: 1})[:, 0].tolist() == [3, 0]


@pytest.mark.parametrize(
    ("p", "top_p", "kept"),
    [
        ([0.1, 0.6, 0.3], 0.6, [1]),
        ([0.1, 0.6, 0.3], 0.61, [1, 2]),
        ([0.1, 0.6, 0.3], 0.9, [1, 2]),  # 0.6 + 0.3 is 0.8999999999999999 in binary
        ([0.1, 0.6, 0.3], 0.91, [0, 1, 2]),
        ([0.1, 0.6, 0.3], 0, [1]),
        ([0.25, 0.25, 0.25, 0.25], 0.5, [0, 1]),  # of equals the lower ids
        ([0.5, 0.5, 0.0], 1, [0, 1, 2]),
        ([1.0, 0.0, 0.0], 0.999, [0]),
    ],
)
def test_nucleus_is_the_smallest_set_that_reaches_the_mass(p, top_p, kept):
    assert np.flatnonzero(sampling.nucleus(p, top_p)).tolist() == kept


def slow_nucleus(p, top_p):
    """Sort everything and add up, as the API's sentence says it."""
    mass, kept = 0.0, []
    for token in sorted(range(len(p)), key=lambda i: (-p[i], i)):
        kept.append(token)
        mass += p[token]
        if mass >= top_p - sampling.MASS_TOLERANCE:
            break
    return sorted(kept)


@given(
    st.lists(st.floats(-30, 30), min_size=1, max_size=60),
    st.floats(0, 1, exclude_max=True),
    st.floats(0.05, 2),
)
def test_nucleus_equals_the_slow_one(z, top_p, temperature):
    p = sampling.softmax(sampling.temper(z, temperature))
    assert np.flatnonzero(sampling.nucleus(p, top_p)).tolist() == slow_nucleus(p.tolist(), top_p)


def test_nucleus_of_a_whole_vocabulary_equals_the_slow_one():
    z = np.random.default_rng(1).normal(0, 3, VOCABULARY)
    for top_p in (0.1, 0.5, 0.9, 0.99, 0.9999):
        p = sampling.softmax(z)
        assert np.flatnonzero(sampling.nucleus(p, top_p)).tolist() == slow_nucleus(p.tolist(), top_p)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=30), st.integers(0, 40))
def test_top_k_sorts_downwards_and_breaks_ties_by_the_lower_id(values, k):
    expected = sorted(range(len(values)), key=lambda i: (-values[i], i))[:k]
    assert sampling.top_k(np.array(values, float), k).tolist() == expected


def test_all_stages_in_their_order():
    settings = Sampling(2.0, 0.7, frequency_penalty=0.5, presence_penalty=0.25, logit_bias={3: 2})
    z = [2.0 - 2 * 0.5 - 0.25, 1.0, 0.0, -1.0 + 2]
    tempered = probabilities([x / 2 for x in z])
    kept = slow_nucleus(tempered, 0.7)
    assert len(kept) == 3
    expected = [p / sum(tempered[i] for i in kept) if i in kept else 0 for i, p in enumerate(tempered)]
    assert settings.distribution(Z, {0: 2}) == pytest.approx(expected)


# Dice


def test_the_dice_depend_on_their_place_alone():
    there = (3, 1, 2, 4)
    assert (sampling.dice(*there, size=100) == sampling.dice(*there, size=VOCABULARY)[:100]).all()
    rows = {sampling.dice(*place, size=4).tobytes() for place in neighbours()}
    assert len(rows) == len(neighbours())


def neighbours():
    base = (3, 1, 2, 4)
    return [base] + [tuple(x + (i == j) for i, x in enumerate(base)) for j in range(4)]


def test_the_dice_are_the_same_everywhere():
    # The recorded numbers of Philox4x64-10: a seed means the same on every machine and NumPy.
    assert sampling.dice(7, 0, 0, 0, size=3) == pytest.approx(RECORDED, abs=0)


RECORDED = [0.8720734548204873, 0.29536538151378366, 0.4200976785072422]


@pytest.mark.parametrize("seed", [-(2**63), -1, 0, 2**63 - 1])
def test_every_seed_of_the_api_is_taken(seed):
    numbers = sampling.dice(seed, 0, 0, 0, size=1000)
    assert ((numbers > 0) & (numbers < 1)).all()


def test_the_dice_are_uniform_over_the_ids_of_one_step():
    numbers = sampling.dice(1, 2, 3, 4, size=200_000)
    assert_follows(np.bincount((numbers * 256).astype(int), minlength=256), [1 / 256] * 256)


@pytest.mark.parametrize("axis", range(4), ids=["seed", "prompt_index", "k", "step"])
def test_the_dice_are_uniform_and_independent_from_place_to_place(axis):
    places = [tuple(i if j == axis else 5 for j in range(4)) for i in range(20_001)]
    for token in (0, 7):
        numbers = np.array([sampling.dice(*place, size=8)[token] for place in places])
        cells = (numbers * 16).astype(int)
        pairs = cells[:-1] * 16 + cells[1:]
        assert_follows(np.bincount(pairs, minlength=256), [1 / 256] * 256)


def test_neighbouring_ids_are_independent():
    cells = (sampling.dice(9, 0, 0, 0, size=100_001) * 16).astype(int)
    assert_follows(np.bincount(cells[:-1] * 16 + cells[1:], minlength=256), [1 / 256] * 256)


def test_gumbel_noise_has_gumbels_distribution():
    noise = sampling.gumbel(sampling.dice(11, 0, 0, 0, size=200_000))
    edges = np.linspace(-2, 6, 33)
    cumulated = np.exp(-np.exp(-edges))
    expected = np.diff(np.concatenate([[0], cumulated, [1]]))
    assert_follows(np.bincount(np.searchsorted(edges, noise), minlength=34), expected)


# Draws


@pytest.mark.parametrize(
    "settings",
    [
        Sampling(),
        Sampling(temperature=0.5),
        Sampling(temperature=2, top_p=0.8),
        Sampling(top_p=0.9, frequency_penalty=0.7, presence_penalty=-0.5, logit_bias={9: -3, 1: -100}),
    ],
    ids=["plain", "cold", "hot nucleus", "everything"],
)
def test_draws_follow_the_distribution(settings):
    z = np.random.default_rng(3).normal(0, 2, 24)
    counts = {0: 2, 5: 1, 17: 4}
    expected = reference(settings, z, counts)
    assert_follows(draws(settings, z, 20_000, counts), expected)


def reference(settings, z, counts):
    """The whole distribution once more, in plain Python, from the API's sentences."""
    z = [
        x
        - counts.get(i, 0) * settings.frequency_penalty
        - (i in counts) * settings.presence_penalty
        + settings.logit_bias.get(i, 0)
        for i, x in enumerate(z)
    ]
    p = probabilities([x / settings.temperature for x in z])
    kept = slow_nucleus(p, settings.top_p)
    mass = sum(p[i] for i in kept)
    return [x / mass if i in kept else 0 for i, x in enumerate(p)]


def test_draws_from_a_whole_vocabulary_follow_its_distribution():
    z = np.random.default_rng(4).normal(0, 3, VOCABULARY)
    assert_follows(draws(Sampling(), z, 3000), probabilities(z))


def test_the_draws_of_two_candidates_are_independent():
    z = [0.0, 0.5, 1.0]
    p = np.array(probabilities(z))
    pairs = [
        3 * Sampling().sample(z, {}, (1, 0, 0, step)) + Sampling().sample(z, {}, (1, 0, 1, step))
        for step in range(10_000)
    ]
    assert_follows(np.bincount(pairs, minlength=9), np.outer(p, p).ravel())


def test_rounding_does_not_move_a_draw():
    generator = np.random.default_rng(6)
    for step in range(500):
        z = generator.normal(0, 3, 1000)
        moved = z + generator.uniform(-6e-5, 6e-5, 1000)
        assert Sampling().sample(z, {}, (1, 0, 0, step)) == Sampling().sample(moved, {}, (1, 0, 0, step))

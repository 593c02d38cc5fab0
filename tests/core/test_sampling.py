from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortition.core import InputError
from sortition.core.sampling import draw_uniformly, draw_weighted, draw_with_replacement, take_largest

IDS = np.array([3, 10, 11, 40])


def test_uniform_inclusion_is_m_over_n():
    rng = np.random.default_rng(0)
    hits = np.zeros(41)
    for _ in range(4000):
        hits[draw_uniformly(IDS, 2, rng)] += 1
    assert hits[IDS] / 4000 == pytest.approx([0.5] * 4, abs=0.03)


def test_weighted_follows_successive_sampling():
    # P(a then b) = w_a/W · w_b/(W − w_a), by hand over all ordered pairs
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    expected = {frozenset((int(IDS[a]), int(IDS[b]))): 0.0 for a in range(4) for b in range(4) if a != b}
    for a, b in permutations(range(4), 2):
        expected[frozenset((int(IDS[a]), int(IDS[b])))] += weights[a] / 10 * weights[b] / (10 - weights[a])
    rng, seen = np.random.default_rng(1), dict.fromkeys(expected, 0)
    for _ in range(12000):
        seen[frozenset(draw_weighted(IDS, weights, 2, rng).tolist())] += 1
    for pair, probability in expected.items():
        assert seen[pair] / 12000 == pytest.approx(probability, abs=0.02)


def test_zero_weights_come_last_and_never_fail():
    rng = np.random.default_rng(0)
    chosen = draw_weighted(IDS, np.array([0.0, 1.0, 0.0, 0.0]), 3, rng)
    assert chosen[0] == 10
    assert len(set(chosen.tolist())) == 3
    assert draw_weighted(IDS, np.zeros(4), 2, rng).size == 2


def test_with_replacement_follows_the_weights():
    rng = np.random.default_rng(0)
    draws = draw_with_replacement(IDS, np.array([0.0, 1.0, 3.0, 0.0]), 8000, rng)
    assert set(draws.tolist()) == {10, 11}
    assert np.mean(draws == 11) == pytest.approx(0.75, abs=0.02)
    assert draw_with_replacement(IDS, np.zeros(4), 5, rng).size == 5


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(0, 35))
def test_top_is_a_stable_sort(values, k):
    ids = np.arange(len(values)) * 2 + 1
    by_hand = sorted(zip(values, ids.tolist(), strict=True), key=lambda pair: (-pair[0], pair[1]))
    assert take_largest(ids, np.array(values, float), k).tolist() == [i for _, i in by_hand[:k]]


def test_bad_weights():
    with pytest.raises(InputError, match="one per id"):
        draw_weighted(IDS, np.ones(3), 2, np.random.default_rng(0))
    with pytest.raises(InputError, match="finite and ≥ 0"):
        draw_weighted(IDS, np.array([1, 2, -1, 0.0]), 2, np.random.default_rng(0))

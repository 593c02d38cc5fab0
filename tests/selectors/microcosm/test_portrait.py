from __future__ import annotations

import numpy as np
import pytest

from sortition.core.mixtures import spread_of
from sortition.selectors.microcosm.portrait import Portrait, provisional_weights, unexplained_ratio


def test_mean_and_spread():
    mean, spread = spread_of(np.array([[0.0], [4.0]]), np.array([0.75, 0.25]))
    assert mean.tolist() == [1.0]
    assert spread == pytest.approx(0.75 * 1 + 0.25 * 9)


def test_provisional_weights_fill_up_to_one():
    assert provisional_weights(np.array([0.1, 0.2, -0.5, 0.1]), 2) == pytest.approx([0.45, 0.55, 0.35, 0.45])
    assert provisional_weights(np.array([3.0, 0.1]), 1).tolist() == [1.0, 0.1]


def test_ties_go_to_the_first_and_not_by_rounding():
    n, order = 50, np.random.default_rng(0).permutation(50)
    owed, flat = np.full(n, 0.1), np.zeros((n, 1))
    rough = owed * (1 + 1e-13 * order)
    clean, noisy = (Portrait(flat, one, owed, 3.0, np.zeros(1)).choose(5).tolist() for one in (owed, rough))
    assert clean == noisy == [0, 1, 2, 3, 4]


def test_swaps_mend_what_greed_spoilt():
    """Greed takes the client in the middle first, and cannot balance what is left; swaps find the balanced pair."""
    phi, n = np.array([[0.1], [2.0], [-2.0], [3.0]]), 4
    portrait = Portrait(phi, np.full(n, 0.25), np.full(n, 0.5), 0.01, np.zeros(1))
    assert sorted(portrait.choose(2).tolist()) == [1, 2]


def test_how_much_features_explain():
    rng = np.random.default_rng(0)
    phi, p = rng.normal(size=(2000, 3)), np.full(2000, 1 / 2000)
    updates = phi @ rng.normal(size=(3, 4))
    noise = rng.normal(size=updates.shape) * updates.std(axis=0)
    assert unexplained_ratio(phi, updates + 5.0, p) == pytest.approx(0.0, abs=1e-9)
    assert unexplained_ratio(phi, updates + noise, p) == pytest.approx(1.0, rel=0.1)
    assert unexplained_ratio(phi, updates + 2 * noise, p) == pytest.approx(4.0, rel=0.15)
    assert unexplained_ratio(phi, rng.normal(size=updates.shape), p) > 100
    assert unexplained_ratio(phi[:11], updates[:11], p[:11]) is None  # fewer than 2·3 + 6
    assert unexplained_ratio(phi[:12], updates[:12], p[:12]) is not None
    assert unexplained_ratio(phi, np.zeros_like(updates), p) is None

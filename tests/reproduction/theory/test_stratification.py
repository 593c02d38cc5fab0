from __future__ import annotations

import numpy as np
import pytest
from tests.reference import fedss_literal as literal

from sortition.reproduction.theory.stratification import bias_of_simple_sampling, dissimilarity, mse, mse_bound


def test_lemma_1_agrees_with_the_literal_formula():
    rng = np.random.default_rng(0)
    groups, models = rng.integers(0, 3, 20), rng.normal(size=20)
    available = np.flatnonzero(rng.random(20) < 0.5)
    expected = literal.bias_of_simple_sampling(groups.tolist(), models.tolist(), set(available.tolist()))
    assert bias_of_simple_sampling(groups, available, models) == pytest.approx(expected)
    proportional = [0, 1, 2, 3]  # A^k/A = N_k/N: no bias (Remark 1)
    assert bias_of_simple_sampling([0, 0, 1, 1], proportional, rng.normal(size=4)) == pytest.approx(0)


def test_lemma_3_is_the_mean_squared_error_of_all_samples():
    groups, models = [0, 0, 0, 0, 1, 1, 1], [1.0, 2.0, 4.0, 9.0, -1.0, 0.0, 5.0]
    seats = [2, 1]
    variances = [np.var(models[:4], ddof=1), np.var(models[4:], ddof=1)]
    assert mse([4, 3], seats, variances) == pytest.approx(literal.mse_by_enumeration(groups, models, seats))
    assert mse([4, 3], [4, 3], variances) == pytest.approx(0)  # everybody: no error
    assert mse_bound([4, 3], seats, variances, steps=5, rate=0.1) == pytest.approx(mse([4, 3], seats, variances))


def test_neyman_beats_proportional_where_spreads_differ():
    assert mse([50, 50], [6, 3], [4, 1]) < mse([50, 50], [5, 4], [4, 1])


def test_dissimilarity_by_hand():
    # two strata of two: {0, 2} and {10, 14}; variances 2 and 8, overall mean 6.5: (42.25+20.25+12.25+56.25)/3
    found = dissimilarity(np.array([[0.0], [2.0], [10.0], [14.0]]), np.array([5, 5, 9, 9]))
    assert found.inside.tolist() == [2, 8]
    assert found.total == pytest.approx(131 / 3)
    assert found.gain == pytest.approx(131 / 3 - 5)
    # eq. 22 with β = 2, μ = 1, EM = 4, T = 3, S = 2, N = 4: α₁ = 15, 8·2·16/(15 + 12) · (1/2 − 1/4) · gain
    assert found.precision(2, steps=4, rounds=3, beta=2, mu=1) == pytest.approx(256 / 27 / 4 * (131 / 3 - 5))


def test_gradient_noise_adds_its_mean_square():
    rng = np.random.default_rng(1)
    means, sigma, groups = rng.normal(size=(6, 3)), np.array([1, 2, 3, 1, 1, 2.0]), np.array([0, 0, 0, 1, 1, 1])
    exact = dissimilarity(means, groups, sigma)
    draws = [dissimilarity(means + rng.normal(size=(6, 3)) * sigma[:, None] / np.sqrt(3), groups) for _ in range(4000)]
    assert np.mean([d.inside for d in draws], axis=0) == pytest.approx(exact.inside, rel=0.05)
    assert np.mean([d.total for d in draws]) == pytest.approx(exact.total, rel=0.05)

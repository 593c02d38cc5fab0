from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from sortition.selectors._parts.label_privacy import gaussian_scale, noisy_counts


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-5), (8.0, 1e-6)])
def test_gaussian_scale_is_the_tight_one(epsilon, delta):
    # the exact privacy loss of N(0, σ²) at sensitivity 1, over all thresholds, is δ
    sigma = gaussian_scale(epsilon, delta)
    x = np.linspace(-10 * sigma, 10 * sigma + 1, 20001)
    lost = norm.sf(x, 1, sigma) - np.exp(epsilon) * norm.sf(x, 0, sigma)
    assert lost.max() == pytest.approx(delta, rel=1e-2)
    if epsilon < 1:  # the classic formula is an upper bound there
        assert sigma < np.sqrt(2 * np.log(1.25 / delta)) / epsilon


def test_laplace_noise_has_scale_one_over_epsilon():
    added = noisy_counts(np.full((400, 50), 1000.0), 0.25, "laplace", 1e-5, np.random.default_rng(0)) - 1000
    assert np.abs(added).mean() == pytest.approx(4.0, rel=0.03)  # E|Laplace(b)| = b


def test_gaussian_noise_has_the_calibrated_scale_and_counts_stay_counts():
    rng = np.random.default_rng(0)
    added = noisy_counts(np.full((400, 50), 1000.0), 1.0, "gaussian", 1e-5, rng) - 1000
    assert added.std() == pytest.approx(gaussian_scale(1.0, 1e-5), rel=0.03)
    assert noisy_counts(np.zeros((50, 10)), 0.1, "laplace", 1e-5, rng).min() == 0

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from tests.reference import fedcor_literal as literal

from sortition.selectors.fedcor.gaussian_process import Likelihood, ascend, fold_in

SIGMA = 0.1
seeds = st.integers(0, 10_000)


def problem(seed: int, n: int = 7, d: int = 3, samples: int = 4, seen: float = 0.6):
    """Embeddings, loss changes with gaps and discounts."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    changes = rng.normal(size=(samples, d)) @ X.T + SIGMA * rng.normal(size=(samples, n))
    changes[rng.random(changes.shape) > seen] = np.nan
    changes[:, 0] = 0.3  # nobody's sample is empty
    return X + 0.3 * rng.normal(size=X.shape), changes, 0.9 ** np.arange(samples)[::-1]


@given(seeds)
def test_likelihood_is_that_of_the_observed_clients(seed: int) -> None:
    X, changes, weights = problem(seed)
    expected = 0.0
    for y, w in zip(changes, weights, strict=True):
        at = ~np.isnan(y)
        Sigma = X[at] @ X[at].T + SIGMA**2 * np.eye(at.sum())
        expected += w * multivariate_normal(cov=Sigma).logpdf(y[at])
    assert Likelihood(changes, weights, SIGMA**2).value(X) == pytest.approx(expected, rel=1e-8)


@given(seeds, st.sampled_from([0.5, 1.0]))
def test_gradient_agrees_with_finite_differences(seed: int, seen: float) -> None:
    X, changes, weights = problem(seed, seen=seen)
    likelihood = Likelihood(changes, weights, SIGMA**2)
    gradient = likelihood.gradient(X)
    step = 1e-5
    for k, j in np.ndindex(*X.shape):
        up, down = X.copy(), X.copy()
        up[k, j] += step
        down[k, j] -= step
        slope = (likelihood.value(up) - likelihood.value(down)) / (2 * step)
        assert gradient[k, j] == pytest.approx(slope, rel=1e-3, abs=1e-3)


def test_a_client_that_nobody_observed_stays_where_it_was() -> None:
    X, changes, weights = problem(1)
    changes[:, 4] = np.nan
    moved = ascend(Likelihood(changes, weights, SIGMA**2), X, 0.01, 20)
    np.testing.assert_array_equal(moved[4], X[4])
    assert not np.isclose(moved[0], X[0]).any()


@given(seeds)
def test_adam_is_the_literal_one(seed: int) -> None:
    X, changes, weights = problem(seed)
    samples = [({k: y[k] for k in np.flatnonzero(~np.isnan(y))}) for y in changes]
    expected = literal.update(X, list(zip(weights, samples, strict=True)), SIGMA, 0.01, 10)
    np.testing.assert_allclose(ascend(Likelihood(changes, weights, SIGMA**2), X, 0.01, 10), expected, rtol=1e-7)


def test_a_fit_finds_who_belongs_together() -> None:
    # four kinds of ten clients; the losses of a kind change together, those of two kinds independently
    rng = np.random.default_rng(0)
    kind = np.arange(40) % 4
    changes = rng.normal(size=(12, 4))[:, kind] + 0.05 * rng.normal(size=(12, 40))
    X = ascend(Likelihood(changes, np.ones(12), 0.05**2), rng.normal(size=(40, 4)) / 2, 0.01, 1000)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    correlation = X @ X.T
    same = kind[:, None] == kind
    assert correlation[same].min() > 0.9
    assert np.abs(correlation[~same]).mean() < 0.5


# -- clients outside the fit -------------------------------------------------------------------------------------------


def test_folding_in_finds_the_true_embedding() -> None:
    rng = np.random.default_rng(0)
    true, latent = rng.normal(size=(50, 3)), rng.normal(size=(12, 3))
    changes = latent @ true.T
    changes[rng.random(changes.shape) < 0.3] = np.nan
    open_ = np.ones(50)
    found = fold_in(np.zeros((50, 3)), changes, latent, 1e-6, open_)
    assert np.abs(found - true).max() < 0.01
    alone = fold_in(np.zeros((50, 3)), changes[:1], latent[:1], 1e-6, open_)
    seen = ~np.isnan(changes[0])
    assert (alone[~seen] == 0).all()
    np.testing.assert_allclose(alone[seen] @ latent[0], changes[0, seen], rtol=1e-3)
    # by hand: x ~ N(1, 2), y = 4 at z = 1 with σ² = 2: half-way between 1 and 4
    np.testing.assert_allclose(
        fold_in(np.ones((1, 1)), np.full((1, 1), 4.0), np.ones((1, 1)), 2.0, np.array([2.0])), 2.5
    )


def test_folding_in_survives_losses_beside_which_the_noise_is_lost() -> None:
    latent = np.array([[1.0, 1.0], [2.0, 2.0]]) * 2.0**40  # their squares leave no digit of σ²
    found = fold_in(np.zeros((3, 2)), latent @ np.ones((2, 3)), latent, 1e-6, np.ones(3))
    np.testing.assert_allclose(found, 1.0)  # the shortest row that explains the changes

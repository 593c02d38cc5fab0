from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from tests.reference import fedcor_literal as literal

from sortition.selectors._parts.gaussian_process import Likelihood, ascend, fold_in, greedy

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


# -- the choice ------------------------------------------------------------------------------------------------------


def choice(seed: int, n: int = 12, d: int = 4):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return rng.normal(size=(n, d)), p / p.sum(), 0.9 ** rng.integers(0, 4, n), np.flatnonzero(rng.random(n) < 0.8)


@given(seeds, st.integers(1, 12))
def test_greedy_is_algorithm_1(seed: int, k: int) -> None:
    X, p, alpha, candidates = choice(seed)
    Sigma = X @ X.T + SIGMA**2 * np.eye(len(X))
    expected = literal.algorithm_1(np.zeros(len(X)), Sigma, alpha, p, candidates.tolist(), k)
    assert greedy(X, p, alpha, candidates, k, SIGMA)[0].tolist() == expected


@given(seeds)
def test_the_mean_changes_nothing(seed: int) -> None:
    X, p, alpha, candidates = choice(seed)
    Sigma = X @ X.T + SIGMA**2 * np.eye(len(X))
    mu = np.random.default_rng(seed).normal(size=len(X))
    a = literal.algorithm_1(mu, Sigma, alpha, p, candidates.tolist(), 5)
    assert greedy(X, p, alpha, candidates, 5, SIGMA)[0].tolist() == a


@given(seeds)
def test_two_picks_are_lemma_2(seed: int) -> None:
    X, p, alpha, candidates = choice(seed)
    Sigma = X @ X.T
    sd = np.sqrt(np.diag(Sigma))
    r = Sigma / np.outer(sd, sd)
    first = alpha * ((p * sd) @ r)  # eq. 12
    k1 = candidates[np.argmax(first[candidates])]
    rest = candidates[candidates != k1]
    reach = (p * sd) @ r
    second = alpha * (reach - r[k1] * reach[k1]) / np.sqrt(np.maximum(1 - r[k1] ** 2, 1e-12))  # eq. 13
    k2 = rest[np.argmax(second[rest])]
    ids, scores = greedy(X, p, alpha, candidates, 2, SIGMA, "none")
    assert ids.tolist() == [k1, k2]
    assert scores == pytest.approx([first[k1], second[k2]])


@given(seeds)
def test_noisy_observation_is_the_first_released_code(seed: int) -> None:
    X, p, alpha, candidates = choice(seed)
    Sigma, left, picks = X @ X.T, list(candidates), []
    while len(picks) < 3:
        others = [i for i in range(len(X)) if i not in picks]
        v = np.diag(Sigma)
        score = alpha * (p[others] @ Sigma[others]) * np.sqrt(np.maximum(v, 0)) / (v + SIGMA**2)
        k = max(left, key=lambda k: score[k])
        left.remove(k)
        picks.append(k)
        Sigma = Sigma - np.outer(Sigma[:, k], Sigma[k]) / (Sigma[k, k] + SIGMA**2)
    assert greedy(X, p, alpha, candidates, 3, SIGMA, "observation")[0].tolist() == picks


@pytest.mark.parametrize("noise", ["diagonal", "observation", "none"])
def test_independent_clients_are_picked_by_their_own_promise(noise: str) -> None:
    # Σ = diag(σ_k²): the score of k is α_k p_k σ_k, whoever was picked before
    spread = np.array([1.0, 3.0, 2.0, 0.5, 4.0])
    p, alpha = np.array([0.25, 0.1, 0.25, 0.35, 0.05]), np.array([1, 1, 0.9, 1, 0.5])
    ids, _ = greedy(np.diag(spread), p, alpha, np.arange(5), 5, 1e-3, noise)
    assert ids.tolist() == np.argsort(-alpha * p * spread).tolist()


@pytest.mark.parametrize("noise", ["diagonal", "observation", "none"])
def test_duplicates_wait_for_all_who_promise_something(noise: str) -> None:
    X = np.array([[2.0, 0, 0], [2.0, 0, 0], [0, 1.0, 0], [0, 0, 0.5], [0, 0, 0.5]])
    ids, scores = greedy(X, np.full(5, 0.2), np.ones(5), np.arange(5), 5, 1e-4, noise)
    assert ids[:3].tolist() == [0, 2, 3] or ids[:3].tolist() == [0, 3, 2]
    assert sorted(ids.tolist()) == [0, 1, 2, 3, 4]
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exhausted_gains_are_filled_by_share_and_spread(dtype: type) -> None:
    # rank 2: after two picks everything is predicted; the others come by α_k p_k √(Σ_kk + σ²)
    X = np.array([[1, 0], [0, 1], [1, 0], [0, 3], [2, 0], [0, 0]], dtype)
    p = np.array([0.1, 0.1, 0.3, 0.2, 0.2, 0.1])
    ids, scores = greedy(X, p, np.ones(6), np.arange(6), 6, 0.01, "none")
    # Σ_i p_i Σ_ik / σ_k: 0.8 along the first axis (0, 2, 4), 0.7 along the second; ties go to the lowest id
    assert ids[:2].tolist() == [0, 1]
    assert (scores[2:] == 0).all()
    # 3: 0.2·3, 4: 0.2·2, 2: 0.3·1, 5: 0.1·0.01
    assert ids[2:].tolist() == [3, 4, 2, 5]


@given(seeds, st.floats(0.1, 10))
def test_scale_changes_nothing(seed: int, scale: float) -> None:
    X, p, alpha, candidates = choice(seed)
    before = greedy(X, p, alpha, candidates, 4, SIGMA)[0].tolist()
    assert greedy(X, p, scale * alpha, candidates, 4, SIGMA)[0].tolist() == before
    assert greedy(scale * X, p, alpha, candidates, 4, scale * SIGMA)[0].tolist() == before


def test_a_pick_of_someone_with_a_negative_score_is_still_the_best_one() -> None:
    X = np.array([[5.0], [-1.0], [-2.0]])
    ids, scores = greedy(X, np.full(3, 1 / 3), np.array([1, 1, 0.5]), np.array([1, 2]), 1, 1e-6)
    assert ids.tolist() == [2]  # −(5 − 3)/3 each; half as bad where the factor is a half
    assert scores[0] == pytest.approx(-1 / 3, abs=1e-4)


def test_single_precision_chooses_as_well() -> None:
    rng = np.random.default_rng(3)
    X, p = rng.normal(size=(20_000, 8)), np.full(20_000, 1 / 20_000)
    wide = greedy(X, p, np.ones(20_000), np.arange(0, 20_000, 2), 20, 0.01)[1].sum()
    narrow = greedy(X.astype(np.float32), p, np.ones(20_000), np.arange(0, 20_000, 2), 20, 0.01)[1].sum()
    assert narrow == pytest.approx(wide, rel=1e-3)


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

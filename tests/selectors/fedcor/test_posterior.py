from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import fedcor_literal as literal

from sortition.selectors.fedcor.posterior import greedy_picks

SIGMA = 0.1
seeds = st.integers(0, 10_000)


def choice(seed: int, n: int = 12, d: int = 4):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    return rng.normal(size=(n, d)), p / p.sum(), 0.9 ** rng.integers(0, 4, n), np.flatnonzero(rng.random(n) < 0.8)


@given(seeds, st.integers(1, 12))
def test_greedy_is_algorithm_1(seed: int, k: int) -> None:
    X, p, alpha, candidates = choice(seed)
    Sigma = X @ X.T + SIGMA**2 * np.eye(len(X))
    expected = literal.algorithm_1(np.zeros(len(X)), Sigma, alpha, p, candidates.tolist(), k)
    assert greedy_picks(X, p, alpha, candidates, k, SIGMA)[0].tolist() == expected


@given(seeds)
def test_the_mean_changes_nothing(seed: int) -> None:
    X, p, alpha, candidates = choice(seed)
    Sigma = X @ X.T + SIGMA**2 * np.eye(len(X))
    mu = np.random.default_rng(seed).normal(size=len(X))
    a = literal.algorithm_1(mu, Sigma, alpha, p, candidates.tolist(), 5)
    assert greedy_picks(X, p, alpha, candidates, 5, SIGMA)[0].tolist() == a


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
    ids, scores = greedy_picks(X, p, alpha, candidates, 2, SIGMA, "none")
    assert ids.tolist() == [k1, k2]
    assert scores == pytest.approx([first[k1], second[k2]])


@given(seeds)
def test_noisy_observation_is_the_first_released_code(seed: int) -> None:
    X, p, alpha, candidates = choice(seed)
    Sigma, left, picks = X @ X.T, list(candidates), []
    while len(picks) < 3:
        v = np.diag(Sigma)
        score = alpha * (p @ Sigma) * np.sqrt(np.maximum(v, 0)) / (v + SIGMA**2)  # the sum runs over all, picked or not
        k = max(left, key=lambda k: score[k])
        left.remove(k)
        picks.append(k)
        Sigma = Sigma - np.outer(Sigma[:, k], Sigma[k]) / (Sigma[k, k] + SIGMA**2)
    assert greedy_picks(X, p, alpha, candidates, 3, SIGMA, "observation")[0].tolist() == picks


@pytest.mark.parametrize("noise", ["diagonal", "observation", "none"])
def test_independent_clients_are_picked_by_their_own_promise(noise: str) -> None:
    # Σ = diag(σ_k²): the score of k is α_k p_k σ_k, whoever was picked before
    spread = np.array([1.0, 3.0, 2.0, 0.5, 4.0])
    p, alpha = np.array([0.25, 0.1, 0.25, 0.35, 0.05]), np.array([1, 1, 0.9, 1, 0.5])
    ids, _ = greedy_picks(np.diag(spread), p, alpha, np.arange(5), 5, 1e-3, noise)
    assert ids.tolist() == np.argsort(-alpha * p * spread).tolist()


@pytest.mark.parametrize("noise", ["diagonal", "observation", "none"])
def test_duplicates_wait_for_all_who_promise_something(noise: str) -> None:
    X = np.array([[2.0, 0, 0], [2.0, 0, 0], [0, 1.0, 0], [0, 0, 0.5], [0, 0, 0.5]])
    ids, scores = greedy_picks(X, np.full(5, 0.2), np.ones(5), np.arange(5), 5, 1e-4, noise)
    assert ids[:3].tolist() == [0, 2, 3] or ids[:3].tolist() == [0, 3, 2]
    assert sorted(ids.tolist()) == [0, 1, 2, 3, 4]
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exhausted_gains_are_filled_by_share_and_spread(dtype: type) -> None:
    # rank 2: after two picks everything is predicted; the others come by α_k p_k √(Σ_kk + σ²)
    X = np.array([[1, 0], [0, 1], [1, 0], [0, 3], [2, 0], [0, 0]], dtype)
    p = np.array([0.1, 0.1, 0.3, 0.2, 0.2, 0.1])
    ids, scores = greedy_picks(X, p, np.ones(6), np.arange(6), 6, 0.01, "none")
    # Σ_i p_i Σ_ik / σ_k: 0.8 along the first axis (0, 2, 4), 0.7 along the second; ties go to the lowest id
    assert ids[:2].tolist() == [0, 1]
    assert (scores[2:] == 0).all()
    # 3: 0.2·3, 4: 0.2·2, 2: 0.3·1, 5: 0.1·0.01
    assert ids[2:].tolist() == [3, 4, 2, 5]


@given(seeds, st.floats(0.1, 10))
def test_scale_changes_nothing(seed: int, scale: float) -> None:
    X, p, alpha, candidates = choice(seed)
    before = greedy_picks(X, p, alpha, candidates, 4, SIGMA)[0].tolist()
    assert greedy_picks(X, p, scale * alpha, candidates, 4, SIGMA)[0].tolist() == before
    assert greedy_picks(scale * X, p, alpha, candidates, 4, scale * SIGMA)[0].tolist() == before


def test_a_pick_of_someone_with_a_negative_score_is_still_the_best_one() -> None:
    X = np.array([[5.0], [-1.0], [-2.0]])
    ids, scores = greedy_picks(X, np.full(3, 1 / 3), np.array([1, 1, 0.5]), np.array([1, 2]), 1, 1e-6)
    assert ids.tolist() == [2]  # −(5 − 3)/3 each; half as bad where the factor is a half
    assert scores[0] == pytest.approx(-1 / 3, abs=1e-4)


def test_single_precision_chooses_as_well() -> None:
    rng = np.random.default_rng(3)
    X, p = rng.normal(size=(20_000, 8)), np.full(20_000, 1 / 20_000)
    wide = greedy_picks(X, p, np.ones(20_000), np.arange(0, 20_000, 2), 20, 0.01)[1].sum()
    narrow = greedy_picks(X.astype(np.float32), p, np.ones(20_000), np.arange(0, 20_000, 2), 20, 0.01)[1].sum()
    assert narrow == pytest.approx(wide, rel=1e-3)


def test_clients_without_any_promise_are_picked_once_each() -> None:
    ids, scores = greedy_picks(np.zeros((6, 2)), np.full(6, 1 / 6), np.ones(6), np.arange(6), 4, 0.1, "none")
    assert ids.tolist() == [0, 1, 2, 3]
    assert not scores.any()

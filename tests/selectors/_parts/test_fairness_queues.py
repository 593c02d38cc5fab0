from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sortition.selectors._parts.fairness_queues import advance, pulls, reference_clients


def test_the_reference_is_the_similar_client_with_the_most_different_frequency():
    distance = np.array([[0, 1, 9.0], [1, 0, 9], [9, 9, 0]])
    assert reference_clients(distance, np.array([5.0, 1.0, 9.0]), 1.0).tolist() == [1, 0, 2]  # ≤ ε; else oneself
    assert reference_clients(distance, np.array([5.0, 5.0, 9.0]), 1.0).tolist() == [0, 0, 2]  # ties: the lowest
    assert reference_clients(distance, np.array([5.0, 1.0, 9.0]), 9.0).tolist() == [1, 2, 1]


def test_queues_by_hand():
    # client 0 was chosen, its reference 1 was not: Z_0 = 0 + 1 − 0 − 0.1; client 1 looks at 0: Q_1 = 0 + 1 − 0.1
    z, q = advance(np.zeros(2), np.zeros(2), np.array([True, False]), np.array([1, 0]), 0.1)
    assert z.tolist() == [0.9, 0.0]
    assert q.tolist() == [0.0, 0.9]


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_the_pull_is_the_exact_marginal_of_the_drift(seed, n):
    rng = np.random.default_rng(seed)
    z, q, k = rng.random(n) * 3, rng.random(n) * 3, rng.integers(n, size=n)

    def drift(x):  # Σ_i Z_i y_i + Q_i z_i, eqs. 20 and 23
        y, w = x - x[k] - 0.05, x[k] - x - 0.05
        assert np.allclose(y + w, -0.1)  # y_i + z_i = −2δ
        return float(z @ y + q @ w)

    x = rng.integers(0, 2, n).astype(float)
    for c in np.flatnonzero(x == 0):
        added = x.copy()
        added[c] = 1.0
        assert np.isclose(drift(added) - drift(x), pulls(z, q, k)[c])


@given(st.integers(0, 10**6))
def test_lemma_1_and_theorem_2_with_a_fixed_reference(seed):
    rng = np.random.default_rng(seed)
    n, T, delta, k = 6, 40, 0.1, np.array([1, 0, 3, 2, 5, 4])
    z, q, share = np.zeros(n), np.zeros(n), np.zeros(n)
    for _ in range(T):
        chosen = rng.random(n) < np.linspace(0.1, 0.9, n)
        ahead = chosen.astype(float) - chosen[k]
        before = z
        z, q = advance(z, q, chosen, k, delta)
        assert (z >= 0).all()
        assert (q >= 0).all()
        y = ahead - delta
        assert (z**2 - before**2 <= 2 * before * y + y**2 + 1e-12).all()  # Lemma 1
        share += chosen
    gap = (share - share[k]) / T
    assert (gap <= delta + z / T + 1e-12).all()  # Theorem 2 at finite T
    assert (-gap <= delta + q / T + 1e-12).all()

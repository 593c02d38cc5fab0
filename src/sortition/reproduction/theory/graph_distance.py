"""FedGS's theory: a cohort far apart on the graph spans more mixtures (Theorem 1); expected weights (eq. 23)."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.optimize import nnls

from sortition.core.arrays import Array, Floats


def mean_distance(shares: Array) -> float:
    """Return f(S) of eqs. 24 to 26: the mean ‖e_i − e_j‖² of ordered pairs, e_i = p_i/‖p_i‖; shares are (M, C)."""
    unit = shares / np.linalg.norm(shares, axis=1, keepdims=True)
    m = len(unit)
    return float((2 * m * m - 2 * np.sum(unit @ unit.T)) / (m * (m - 1)))


def cone_share(shares: Array, mixtures: Array) -> float:
    """Return the share of ``mixtures`` (n, C) that C clients of these label shares (C, C) make up by weights ≥ 0."""
    weights = np.linalg.solve(np.asarray(shares, np.float64).T, np.asarray(mixtures, np.float64).T)
    return float(np.mean(np.all(weights >= -1e-9, axis=0)))


def update_errors(shares: Array, population: Array, gradients: Array) -> tuple[float, float]:
    """Return how far a cohort's update is from the full one, relative to it: with the best weights ≥ 0, and with equal.

    A client's update is Σ_c p_kc g_c (eq. 30), the full one Σ_c p*_c g_c (eq. 28): ``shares`` is (M, C), ``population``
    (C,), and ``gradients`` (C, d) has one row for each type of data. The best weights sum to whatever is best, as in
    the proof (μ > 0).
    """
    updates = np.asarray(shares) @ gradients
    full_update = np.asarray(population) @ gradients
    length = float(np.linalg.norm(full_update))
    _, error_best_weights = nnls(updates.T, full_update)
    error_equal_weights = float(np.linalg.norm(updates.mean(axis=0) - full_update))
    return error_best_weights / length, error_equal_weights / length


def expected_weights(sizes: Array, budget: int) -> Floats:
    """Return eq. 23: n_k/n · γ_k under uniform sampling of ``budget`` clients, weighted by their data."""
    n = len(sizes)
    mean = np.mean(sizes)
    gamma = 1 / (1 + (n - budget) / (budget * (n - 1)) * (sizes - mean) / mean)
    return np.asarray(sizes / np.sum(sizes) * gamma)


def exact_weights(sizes: Array, budget: int) -> Floats:
    """Return the same expectation without the paper's approximation: the mean over all cohorts."""
    sizes = np.asarray(sizes, np.float64)
    cohorts = np.array(list(combinations(range(len(sizes)), budget)))
    shares = sizes[cohorts] / sizes[cohorts].sum(axis=1, keepdims=True)
    total = np.bincount(cohorts.ravel(), shares.ravel(), minlength=len(sizes))
    return np.asarray(total / len(cohorts))

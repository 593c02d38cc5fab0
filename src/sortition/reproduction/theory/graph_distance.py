"""FedGS's theory: a cohort far apart on the graph spans more mixtures (Theorem 1); expected weights (eq. 23)."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.optimize import nnls

from sortition.core.arrays import Array, Floats


def mean_distance(shares: Array) -> float:
    """f(S), eqs. 24 to 26: the mean of ‖e_i − e_j‖² over ordered pairs, e_i = p_i/‖p_i‖; ``shares`` is (M, C)."""
    unit = shares / np.linalg.norm(shares, axis=1, keepdims=True)
    m = len(unit)
    return float((2 * m * m - 2 * np.sum(unit @ unit.T)) / (m * (m - 1)))


def cone_share(shares: Array, mixtures: Array) -> float:
    """The share of ``mixtures`` (n, C) that C clients with these label shares (C, C) can make up by weights ≥ 0."""
    weights = np.linalg.solve(np.asarray(shares, np.float64).T, np.asarray(mixtures, np.float64).T)
    return float(np.mean(np.all(weights >= -1e-9, axis=0)))


def update_errors(shares: Array, population: Array, gradients: Array) -> tuple[float, float]:
    """How far a cohort's update is from the full one, over the length of that: with the best weights ≥ 0, and alike.

    A client's update is Σ_c p_kc g_c (eq. 30), the full one Σ_c p*_c g_c (eq. 28): ``shares`` is (M, C), ``population``
    (C,), and ``gradients`` (C, d) has one row for each type of data. The best weights sum to whatever is best, as in
    the proof (μ > 0).
    """
    updates, full = np.asarray(shares) @ gradients, np.asarray(population) @ gradients
    best = nnls(updates.T, full)[1]
    alike = float(np.linalg.norm(updates.mean(axis=0) - full))
    return best / float(np.linalg.norm(full)), alike / float(np.linalg.norm(full))


def expected_weights(sizes: Array, budget: int) -> Floats:
    """Eq. 23: n_k/n · γ_k under uniform sampling of ``budget`` clients, weighted by their data."""
    n, mean = len(sizes), np.mean(sizes)
    gamma = 1 / (1 + (n - budget) / (budget * (n - 1)) * (sizes - mean) / mean)
    return np.asarray(sizes / np.sum(sizes) * gamma)


def exact_weights(sizes: Array, budget: int) -> Floats:
    """The same expectation without the paper's approximation: the mean over all cohorts."""
    sizes = np.asarray(sizes, np.float64)
    cohorts = np.array(list(combinations(range(len(sizes)), budget)))
    shares = sizes[cohorts] / sizes[cohorts].sum(axis=1, keepdims=True)
    total = np.bincount(cohorts.ravel(), shares.ravel(), minlength=len(sizes))
    return np.asarray(total / len(cohorts))

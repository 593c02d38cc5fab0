"""Strata from vectors: Gaussian mixtures, as many components as the silhouette (eq. 23) likes best."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.ties import TOLERANCE, rounded

if TYPE_CHECKING:
    from sklearn.mixture import GaussianMixture

RESTARTS = 4
FLOOR = 1e-6  # of a variance: clients of one label have none


@dataclass(frozen=True)
class Strata:
    """Which stratum each row belongs to (n,), the strata's mean vectors (K, d), and the silhouette of the choice."""

    labels: Ids
    means: Array
    score: float


def label_shares(counts: Array) -> Floats:
    """p_n = D_n^l / D_n (n, L); who has no data is taken to be like the average."""
    totals = counts.sum(axis=1, keepdims=True).astype(np.float64)
    shares = counts / np.where(totals > 0, totals, 1.0)
    empty = totals[:, 0] <= 0
    if empty.any():
        shares[empty] = shares[~empty].mean(axis=0) if not empty.all() else 1.0 / counts.shape[1]
    return np.asarray(shares)


def stratify(vectors: Array, most: int, rng: np.random.Generator, *, sample: int = 2000) -> Strata:
    """Fit mixtures of 2 … ``most`` components on at most ``sample`` rows, keep the best silhouette, assign all rows.

    One stratum where vectors do not differ or there is room for one only (score 0).
    """
    from sklearn.metrics import pairwise_distances

    some = vectors if len(vectors) <= sample else vectors[np.sort(rng.choice(len(vectors), sample, replace=False))]
    rows = np.asarray(some, np.float64)
    distinct = len(np.unique(np.round(rows, 12), axis=0))
    # the silhouette needs at least two strata and one stratum with company
    most = min(most, distinct, len(rows) - 1)
    best: tuple[float, GaussianMixture | None] = (0.0, None)
    if most >= 2:
        distances = pairwise_distances(rows)
        for components in range(2, most + 1):
            mixture = _mixture(rows, components, int(rng.integers(2**31)))
            score = silhouette(distances, mixture.predict(rows))
            if best[1] is None or score > best[0] + TOLERANCE:  # of equal ones the fewest strata
                best = (score, mixture)
    if best[1] is None:
        return Strata(np.zeros(len(vectors), np.int64), rows.mean(axis=0, keepdims=True), 0.0)
    predicted = best[1].predict(np.asarray(vectors, np.float64))
    found, first, labels = np.unique(predicted, return_index=True, return_inverse=True)
    order = np.argsort(first)  # numbered by their lowest row: the mixture's own order depends on which start won
    return Strata(np.argsort(order)[labels], np.asarray(best[1].means_[found[order]]), best[0])


def given(values: Array, before: Array | None) -> Strata:
    """Strata that somebody else made, (n,) whole numbers; those met ``before`` (K, 1) keep their numbers."""
    found = np.unique(values)
    old = found[:0] if before is None else before[:, 0]
    means = np.concatenate([old, np.setdiff1d(found, old)])
    order = np.argsort(means)
    return Strata(order[np.searchsorted(means, values, sorter=order)], means[:, None], 0.0)


def silhouette(distances: Array, labels: Array) -> float:
    """Eq. 23 on a matrix of distances; −1 where there is one stratum or nobody has company."""
    from sklearn.metrics import silhouette_score

    found = len(np.unique(labels))
    if not 2 <= found < len(labels):
        return -1.0
    return float(silhouette_score(distances, labels, metric="precomputed"))


def nearest(vectors: Array, means: Array) -> Ids:
    """The stratum whose mean is nearest to each row."""
    square = (means**2).sum(axis=1) - 2.0 * vectors @ means.T
    return np.asarray(rounded(square, float(np.abs(square).max(initial=0.0))).argmin(axis=1), np.int64)


def _mixture(rows: Floats, components: int, seed: int) -> GaussianMixture:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    mixture = GaussianMixture(
        components, covariance_type="spherical", reg_covar=FLOOR, n_init=RESTARTS, max_iter=200, random_state=seed
    )
    with warnings.catch_warnings():  # a mixture that still moves after 200 steps is scored as it stands
        warnings.simplefilter("ignore", ConvergenceWarning)
        return mixture.fit(rows)

"""Strata from vectors: Gaussian mixtures, as many components as the silhouette (eq. 23) likes best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.ties import TOLERANCE, rounded
from sortition.selectors._parts.distances import pairwise
from sortition.selectors.fedss.mixture import Mixture, fitted

RESTARTS = 4
FLOOR = 1e-6  # of a variance: clients of one label have none


@dataclass(frozen=True)
class Strata:
    """Which stratum each row belongs to (n,), the strata's mean vectors (K, d), and the silhouette of the choice."""

    labels: Ids
    means: Array
    score: float


def stratify(vectors: Array, most: int, rng: np.random.Generator, *, sample: int = 2000) -> Strata:
    """Fit mixtures of 2 … ``most`` components on at most ``sample`` rows, keep the best silhouette, assign all rows.

    One stratum where vectors do not differ or there is room for one only (score 0).
    """
    some = vectors if len(vectors) <= sample else vectors[np.sort(rng.choice(len(vectors), sample, replace=False))]
    rows = np.asarray(some, np.float64)
    distinct = len(np.unique(np.round(rows, 12), axis=0))
    # the silhouette needs at least two strata and one stratum with company
    most = min(most, distinct, len(rows) - 1)
    best: tuple[float, Mixture | None] = (0.0, None)
    if most >= 2:
        distances = pairwise(rows)
        for components in range(2, most + 1):
            mixture = fitted(rows, components, RESTARTS, FLOOR, int(rng.integers(2**31)))
            score = silhouette(distances, mixture.labels(rows))
            if best[1] is None or score > best[0] + TOLERANCE:  # of equal ones the fewest strata
                best = (score, mixture)
    if best[1] is None:
        return Strata(np.zeros(len(vectors), np.int64), rows.mean(axis=0, keepdims=True), 0.0)
    labels = best[1].labels(vectors)
    found = np.flatnonzero(np.bincount(labels))
    # numbered by their lowest row: the mixture's own order depends on which start won
    found = found[np.argsort([np.argmax(labels == k) for k in found])]
    number = np.empty(len(best[1].means), np.int64)
    number[found] = np.arange(found.size)
    return Strata(number[labels], best[1].means[found], best[0])


def given(values: Array, before: Array | None) -> Strata:
    """Strata that somebody else made, (n,) whole numbers; those met ``before`` (K, 1) keep their numbers."""
    found = np.unique(values)
    old = found[:0] if before is None else before[:, 0]
    means = np.concatenate([old, np.setdiff1d(found, old)])
    order = np.argsort(means)
    return Strata(order[np.searchsorted(means, values, sorter=order)], means[:, None], 0.0)


def silhouette(distances: Array, labels: Array) -> float:
    """Eq. 23 on a matrix of distances; −1 where there is one stratum or nobody has company."""
    found, own = np.unique(labels, return_inverse=True)
    if not 2 <= found.size < own.size:
        return -1.0
    member = np.eye(found.size)[own]
    counts, sums, rows = member.sum(axis=0), distances @ member, np.arange(own.size)
    inside = sums[rows, own] / np.maximum(counts[own] - 1, 1)
    sums /= counts
    sums[rows, own] = np.inf
    outside = sums.min(axis=1)
    larger = np.maximum(inside, outside)
    alone = (counts[own] == 1) | (larger == 0)
    return float(np.where(alone, 0.0, (outside - inside) / np.where(alone, 1.0, larger)).mean())


def nearest(vectors: Array, means: Array) -> Ids:
    """The stratum whose mean is nearest to each row."""
    square = (means**2).sum(axis=1) - 2.0 * vectors @ means.T
    return np.asarray(rounded(square, float(np.abs(square).max(initial=0.0))).argmin(axis=1), np.int64)

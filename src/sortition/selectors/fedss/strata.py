"""Strata from vectors: Gaussian mixtures, as many components as the silhouette (eq. 23) likes best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.ties import TIE_TOLERANCE
from sortition.selectors._parts.centres import count_distinct, sample_rows
from sortition.selectors._parts.distances import pairwise_distances
from sortition.selectors.fedss.mixture import Mixture, fit_mixture

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

    There is one stratum, of score 0, where vectors do not differ or ``most`` is 1.
    """
    rows = np.asarray(sample_rows(vectors, sample, rng), np.float64)
    # the silhouette needs at least two strata and one stratum with company
    largest_number = min(most, count_distinct(rows), len(rows) - 1)
    if largest_number < 2:
        return Strata(np.zeros(len(vectors), np.int64), rows.mean(axis=0, keepdims=True), 0.0)
    distances = pairwise_distances(rows)
    mixtures = [
        fit_mixture(rows, components, restarts=RESTARTS, floor=FLOOR, seed=int(rng.integers(2**31)))
        for components in range(2, largest_number + 1)
    ]
    scores = [silhouette(distances, mixture.labels(rows)) for mixture in mixtures]
    best = 0
    for position, score in enumerate(scores):
        if score > scores[best] + TIE_TOLERANCE:  # of equal ones the fewest strata
            best = position
    return _number_by_lowest_row(mixtures[best], vectors, scores[best])


def _number_by_lowest_row(mixture: Mixture, vectors: Array, score: float) -> Strata:
    """Assign all rows, and number the strata by their lowest row: the mixture's order depends on which start won."""
    labels = mixture.labels(vectors)
    inhabited = np.flatnonzero(np.bincount(labels))
    lowest_row = [np.argmax(labels == k) for k in inhabited]
    inhabited = inhabited[np.argsort(lowest_row)]
    number = np.empty(len(mixture.means), np.int64)
    number[inhabited] = np.arange(inhabited.size)
    return Strata(number[labels], mixture.means[inhabited], score)


def strata_of_groups(values: Array, known: Array | None) -> Strata:
    """Return strata of given groups, (n,) whole numbers; ``known`` groups (K, 1) keep their numbers."""
    groups = np.unique(values)
    known_groups = groups[:0] if known is None else known[:, 0]
    means = np.concatenate([known_groups, np.setdiff1d(groups, known_groups)])
    order = np.argsort(means)
    labels = order[np.searchsorted(means, values, sorter=order)]
    return Strata(labels, means[:, None], 0.0)


def silhouette(distances: Array, labels: Array) -> float:
    """Return the mean silhouette (eq. 23) from distances; −1 if there is one stratum, or each has one member."""
    strata, stratum = np.unique(labels, return_inverse=True)
    if not 2 <= strata.size < stratum.size:
        return -1.0
    rows = np.arange(stratum.size)
    member = np.eye(strata.size)[stratum]
    counts = member.sum(axis=0)
    sums = distances @ member
    inside = sums[rows, stratum] / np.maximum(counts[stratum] - 1, 1)
    means = sums / counts
    means[rows, stratum] = np.inf
    outside = means.min(axis=1)
    larger = np.maximum(inside, outside)
    scores_zero = (counts[stratum] == 1) | (larger == 0)
    score = (outside - inside) / np.where(scores_zero, 1.0, larger)
    return float(np.where(scores_zero, 0.0, score).mean())

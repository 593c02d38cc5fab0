"""Clusters of vectors by k-means, as many as the Davies–Bouldin index likes best, numbered by the clients' ids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Array, Floats, Ids

RESTARTS = 4


@dataclass(frozen=True)
class Clusters:
    """Which cluster each row belongs to (n,), the centres (k, d), and the index of the choice (0 for one cluster)."""

    labels: Ids
    centres: Floats
    index: float


def cluster(vectors: Floats, k: int | None, most: int, rng: np.random.Generator, sample: int) -> Clusters:
    """``k`` clusters, or the number from 2 to ``most`` with the lowest index, fitted on at most ``sample`` rows.

    One cluster where the rows do not differ. The index needs fewer clusters than rows.
    """
    rows = vectors if len(vectors) <= sample else vectors[np.sort(rng.choice(len(vectors), sample, replace=False))]
    distinct = len(np.unique(np.round(rows, 12), axis=0))
    seed = int(rng.integers(2**31))
    counts = range(2, min(most, distinct, len(rows) - 1) + 1) if k is None else [min(k, distinct)]
    fits = {count: _centres(rows, count, seed) for count in counts if count >= 2}
    if not fits:
        return Clusters(np.zeros(len(vectors), np.int64), rows.mean(axis=0, keepdims=True), 0.0)
    indices = {count: _index(rows, centres) for count, centres in fits.items()}
    best = min(indices, key=lambda count: (indices[count], count))
    labels, centres = _numbered(nearest(vectors, fits[best]), fits[best])
    return Clusters(labels, centres, indices[best])


def nearest(vectors: Floats, centres: Floats) -> Ids:
    """The cluster whose centre is nearest to each row; ties, to nine digits, go to the lower number."""
    squares = (centres**2).sum(axis=1) - 2.0 * vectors @ centres.T
    return np.asarray(np.round(squares, 9).argmin(axis=1), np.int64)


def _centres(rows: Floats, k: int, seed: int) -> Floats:
    from sklearn.cluster import KMeans

    return np.asarray(KMeans(k, n_init=RESTARTS, max_iter=300, random_state=seed).fit(rows).cluster_centers_)


def _index(rows: Floats, centres: Floats) -> float:
    """The Davies–Bouldin index, to nine digits, so that it does not depend on the order of a sum."""
    from sklearn.metrics import davies_bouldin_score

    labels = nearest(rows, centres)
    found = len(np.unique(labels))
    return round(float(davies_bouldin_score(rows, labels)), 9) if 2 <= found < len(rows) else float("inf")


def _numbered(labels: Ids, centres: Floats) -> tuple[Ids, Floats]:
    """The same clusters, numbered in the order of their lowest client; a cluster without clients comes last."""
    first = np.full(len(centres), len(labels))
    np.minimum.at(first, labels, np.arange(len(labels)))
    order = np.argsort(first, kind="stable")
    number: Array = np.empty(len(centres), np.int64)
    number[order] = np.arange(len(centres))
    return number[labels], centres[order]

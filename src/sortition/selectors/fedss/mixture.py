"""Mixtures of spherical Gaussians by expectation–maximisation, started by k-means.

These are the steps, constants and random draws of scikit-learn's ``GaussianMixture(covariance_type="spherical")`` with
its ``KMeans``, and without ties they find the same components. Ties go by ``core.ties``: where clients hold few
examples many rows are equally near to two centres, and scikit-learn's answer depends on the processor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.ties import first_largest, first_smallest, rounded

STEPS, GAIN = 200, 1e-3  # of expectation–maximisation: at most so many, until the mean log-likelihood gains less
MOVES, SHIFT = 300, 1e-4  # of k-means: at most so many, until centres move less (squared, of the mean variance)
CHUNK = 2**14  # rows whose likelihoods stay in the cache


@dataclass(frozen=True)
class Mixture:
    """Weights (K,), means (K, d) and variances (K,) of the components."""

    weights: Floats
    means: Floats
    variances: Floats

    @classmethod
    def estimated(cls, rows: Floats, resp: Floats, floor: float) -> Mixture:
        """The most likely one, given how much each row (n, d) belongs to each component (n, K)."""
        count = resp.sum(axis=0) + 10 * np.finfo(np.float64).eps
        means = (resp.T @ rows) / count[:, None]
        square = (resp.T @ _squares(rows)) / count
        variances = (square - _squares(means)) / rows.shape[1] + floor
        return cls(count / count.sum(), means, variances)

    def log_densities(self, rows: Floats) -> Floats:
        """(n, K): log of weight times density."""
        width = rows.shape[1]
        squares = rows @ (-2.0 * self.means.T)
        squares += _squares(rows)[:, None] + _squares(self.means)
        squares *= -0.5 / self.variances
        squares += np.log(self.weights) - 0.5 * width * np.log(2 * np.pi * self.variances)
        return squares

    def labels(self, rows: Array) -> Ids:
        """(n,) the likeliest component of each row."""
        found = np.empty(len(rows), np.int64)
        for start in range(0, len(rows), CHUNK):
            log = self.log_densities(np.asarray(rows[start : start + CHUNK], np.float64))
            found[start : start + CHUNK] = rounded(log, float(np.abs(log).max())).argmax(axis=1)
        return found


def fitted(rows: Floats, components: int, restarts: int, floor: float, seed: int) -> Mixture:
    """The likeliest of some mixtures, each from a start of its own; variances have a ``floor``."""
    rng = np.random.RandomState(seed)
    climbs = [_climb(rows, np.eye(components)[k_means(rows, components, rng)], floor) for _ in range(restarts)]
    return climbs[first_largest(np.array([reached for _, reached in climbs]))][0]


def _climb(rows: Floats, resp: Floats, floor: float) -> tuple[Mixture, float]:
    """Expectation–maximisation from these memberships, and the mean log-likelihood that was reached."""
    mixture, before, mean = Mixture.estimated(rows, resp, floor), -np.inf, -np.inf
    for _ in range(STEPS):
        log = mixture.log_densities(rows)
        top = log.max(axis=1, keepdims=True)
        resp = np.exp(log - top)
        total = resp.sum(axis=1, keepdims=True)
        mean = float((top + np.log(total)).mean())
        mixture = Mixture.estimated(rows, resp / total, floor)
        if abs(mean - before) < GAIN:
            break
        before = mean
    return mixture, mean


def k_means(rows: Floats, k: int, rng: np.random.RandomState) -> Ids:
    """(n,) clusters by Lloyd's algorithm, from greedy k-means++ centres (Arthur and Vassilvitskii 2007)."""
    centred = rows - rows.mean(axis=0)
    squares = _squares(centred)
    centres = centred[_spread_starts(centred, squares, k, rng)]
    labels, enough = np.full(len(rows), -1), SHIFT * float(rows.var(axis=0).mean())
    for _ in range(MOVES):
        before, labels = labels, _closest(centred, centres)
        if np.array_equal(labels, before):
            return labels
        moved = _centres(centred, labels, centres)
        shift = float(((moved - centres) ** 2).sum())
        centres = moved
        if shift <= enough:
            break
    return _closest(centred, centres)


def _spread_starts(rows: Floats, squares: Floats, k: int, rng: np.random.RandomState) -> list[int]:
    """k rows, each the best of some drawn with chances ∝ the squared distance to those before it."""
    tries = 2 + int(np.log(k))
    starts = [int(rng.choice(len(rows), p=np.full(len(rows), 1 / len(rows))))]
    apart = _squared_distances(rows[starts], rows, squares)[0]
    while len(starts) < k:
        drawn = np.searchsorted(np.cumsum(apart), rng.uniform(size=tries) * apart.sum())
        drawn = np.minimum(drawn, len(rows) - 1)
        nearer = np.minimum(apart, _squared_distances(rows[drawn], rows, squares))
        best = first_smallest(nearer.sum(axis=1))
        starts.append(int(drawn[best]))
        apart = nearer[best]
    return starts


def _centres(rows: Floats, labels: Ids, before: Floats) -> Floats:
    """Means of the clusters (k, d); an empty one takes the row that was farthest from its centre."""
    k = len(before)
    member = np.eye(k)[labels]
    sums, counts = member.T @ rows, member.sum(axis=0)
    empty = np.flatnonzero(counts == 0)
    if empty.size:
        far = np.argsort(-((rows - before[labels]) ** 2).sum(axis=1), kind="stable")[: empty.size]
        for cluster, row in zip(empty, far, strict=True):
            sums[labels[row]] -= rows[row]
            counts[labels[row]] -= 1
            sums[cluster], counts[cluster] = rows[row], 1
    return np.asarray(np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], before))


def _closest(rows: Floats, centres: Floats) -> Ids:
    """(n,) the centre nearest to each row."""
    apart = _squares(centres) - 2.0 * (rows @ centres.T)
    return np.asarray(rounded(apart, float(np.abs(apart).max())).argmin(axis=1))


def _squared_distances(some: Floats, rows: Floats, squares: Floats) -> Floats:
    """(m, n) of some rows to all."""
    return np.asarray(np.maximum(_squares(some)[:, None] - 2.0 * (some @ rows.T) + squares, 0.0))


def _squares(rows: Floats) -> Floats:
    """(n,) squared lengths."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))

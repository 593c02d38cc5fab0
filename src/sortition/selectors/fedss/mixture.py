"""Mixtures of spherical Gaussians by expectation–maximisation, started by k-means.

These are the steps, constants and random draws of scikit-learn's ``GaussianMixture(covariance_type="spherical")`` with
its ``KMeans``, and without ties they find the same components. Ties go by ``core.ties``: where clients hold few
examples many rows are equally near to two centres, and scikit-learn's answer depends on the processor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.ties import first_largest, first_smallest, round_to_tie_grid
from sortition.selectors._parts.centres import nearest_centre
from sortition.selectors._parts.distances import squared_lengths

EM_STEPS = 200  # at most
EM_GAIN = 1e-3  # expectation–maximisation ends where the mean log-likelihood gains less
KMEANS_STEPS = 300  # at most
KMEANS_SHIFT = 1e-4  # k-means ends where centres move less (squared, of the mean variance)
CHUNK = 2**14  # rows whose likelihoods stay in the cache


@dataclass(frozen=True)
class Mixture:
    """Weights (K,), means (K, d) and variances (K,) of the components."""

    weights: Floats
    means: Floats
    variances: Floats

    @classmethod
    def estimate(cls, rows: Floats, responsibilities: Floats, floor: float) -> Mixture:
        """Return the likeliest mixture, given how much each row (n, d) belongs to each component (n, K)."""
        count = responsibilities.sum(axis=0) + 10 * np.finfo(np.float64).eps
        means = (responsibilities.T @ rows) / count[:, None]
        mean_square = (responsibilities.T @ squared_lengths(rows)) / count
        variances = (mean_square - squared_lengths(means)) / rows.shape[1] + floor
        return cls(count / count.sum(), means, variances)

    def log_densities(self, rows: Floats) -> Floats:
        """Return the log of weight times density of each row, (n, K)."""
        d = rows.shape[1]
        log = rows @ (-2.0 * self.means.T)
        log += squared_lengths(rows)[:, None] + squared_lengths(self.means)
        log *= -0.5 / self.variances
        log += np.log(self.weights) - 0.5 * d * np.log(2 * np.pi * self.variances)
        return log

    def labels(self, rows: Array) -> Ids:
        """Return the likeliest component of each row (n,)."""
        labels = np.empty(len(rows), np.int64)
        for start in range(0, len(rows), CHUNK):
            log = self.log_densities(np.asarray(rows[start : start + CHUNK], np.float64))
            labels[start : start + CHUNK] = round_to_tie_grid(log, float(np.abs(log).max())).argmax(axis=1)
        return labels


def fit_mixture(rows: Floats, components: int, restarts: int, floor: float, seed: int) -> Mixture:
    """Fit ``restarts`` mixtures, each from a random start, and return the likeliest; variances have a ``floor``."""
    rng = np.random.RandomState(seed)
    mixtures = []
    likelihoods = []
    for _ in range(restarts):
        responsibilities = np.eye(components)[k_means(rows, components, rng)]
        mixture, likelihood = _maximise_likelihood(rows, responsibilities, floor)
        mixtures.append(mixture)
        likelihoods.append(likelihood)
    return mixtures[first_largest(np.array(likelihoods))]


def _maximise_likelihood(rows: Floats, responsibilities: Floats, floor: float) -> tuple[Mixture, float]:
    """Run expectation–maximisation from these memberships; return the mixture and its mean log-likelihood."""
    mixture = Mixture.estimate(rows, responsibilities, floor)
    likelihood = -np.inf
    for _ in range(EM_STEPS):
        log = mixture.log_densities(rows)
        largest = log.max(axis=1, keepdims=True)
        density = np.exp(log - largest)
        total = density.sum(axis=1, keepdims=True)
        previous = likelihood
        likelihood = float((largest + np.log(total)).mean())
        mixture = Mixture.estimate(rows, density / total, floor)
        if abs(likelihood - previous) < EM_GAIN:
            break
    return mixture, likelihood


def k_means(rows: Floats, k: int, rng: np.random.RandomState) -> Ids:
    """Return clusters (n,) by Lloyd's algorithm, from greedy k-means++ centres (Arthur and Vassilvitskii 2007)."""
    centred = rows - rows.mean(axis=0)
    centres = centred[_draw_starts(centred, squared_lengths(centred), k, rng)]
    smallest_shift = KMEANS_SHIFT * float(rows.var(axis=0).mean())
    labels = np.full(len(rows), -1)
    for _ in range(KMEANS_STEPS):
        previous_labels = labels
        labels = nearest_centre(centred, centres)
        if np.array_equal(labels, previous_labels):
            return labels
        previous_centres = centres
        centres = _centres(centred, labels, previous_centres)
        if float(((centres - previous_centres) ** 2).sum()) <= smallest_shift:
            break
    return nearest_centre(centred, centres)


def _draw_starts(rows: Floats, squares: Floats, k: int, rng: np.random.RandomState) -> list[int]:
    """Return k rows, each the best of some drawn with chances ∝ the squared distance to those before it."""
    n_tries = 2 + int(np.log(k))
    starts = [int(rng.choice(len(rows), p=np.full(len(rows), 1 / len(rows))))]
    nearest = _squared_distances(rows[starts], rows, squares)[0]  # squared, of each row to the nearest start
    while len(starts) < k:
        candidates = np.searchsorted(np.cumsum(nearest), rng.uniform(size=n_tries) * nearest.sum())
        candidates = np.minimum(candidates, len(rows) - 1)
        nearest_with = np.minimum(nearest, _squared_distances(rows[candidates], rows, squares))
        best = first_smallest(nearest_with.sum(axis=1))
        starts.append(int(candidates[best]))
        nearest = nearest_with[best]
    return starts


def _centres(rows: Floats, labels: Ids, previous: Floats) -> Floats:
    """Return the means of the clusters (k, d); an empty one takes the row that was farthest from its centre."""
    member = np.eye(len(previous))[labels]
    sums = member.T @ rows
    counts = member.sum(axis=0)
    empty = np.flatnonzero(counts == 0)
    if empty.size:
        distance = ((rows - previous[labels]) ** 2).sum(axis=1)
        farthest = np.argsort(-distance, kind="stable")[: empty.size]
        for cluster, row in zip(empty, farthest, strict=True):
            sums[labels[row]] -= rows[row]
            counts[labels[row]] -= 1
            sums[cluster] = rows[row]
            counts[cluster] = 1
    means = sums / np.maximum(counts, 1)[:, None]
    return np.asarray(np.where(counts[:, None] > 0, means, previous))


def _squared_distances(starts: Floats, rows: Floats, squares: Floats) -> Floats:
    """Return squared distances (m, n) of some rows to all; ``squares`` are the squared lengths of all."""
    return np.asarray(np.maximum(squared_lengths(starts)[:, None] - 2.0 * (starts @ rows.T) + squares, 0.0))

"""FedSS's Proposition 2: with one label a client the strata are the labels, and stratifying pays beyond a threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core import stream
from sortition.core.arrays import Array, Floats
from sortition.reproduction.theory.stratification import Dissimilarity
from sortition.selectors._parts.distances import pairwise_distances
from sortition.selectors.fedss.mixture import fit_mixture
from sortition.selectors.fedss.strata import FLOOR, RESTARTS, silhouette, stratify


@dataclass(frozen=True)
class Classification:
    """How clients of one label each are classified.

    Attributes:
        strata: number of strata found.
        right: whether the strata are the labels.
        score: the silhouette of the choice (eq. 23).
        next_best: the largest silhouette of any other number of strata; −1 where no other was tried.
    """

    strata: int
    right: bool
    score: float
    next_best: float


def classify(labels: int, clients: int, *, most: int, seed: int = 0) -> Classification:
    """Classify ``clients`` with one of so many ``labels`` each (Assumption 6), trying K° = 2 … ``most`` strata."""
    rng = stream(seed, "identical labels")
    label_of_client = np.concatenate([np.arange(labels), rng.integers(labels, size=clients - labels)])
    vectors = np.eye(labels)[label_of_client]
    strata = stratify(vectors, most, stream(seed, "strata"))
    distances = pairwise_distances(vectors)
    other_scores = []
    for n_components in range(2, min(most, labels) + 1):
        if n_components != labels:
            mixture = fit_mixture(vectors, n_components, restarts=RESTARTS, floor=FLOOR, seed=seed)
            other_scores.append(silhouette(distances, mixture.labels(vectors)))
    agrees = pairs_together(strata.labels) == pairs_together(label_of_client)
    return Classification(
        strata=len(strata.means),
        right=bool(agrees.all()),
        score=strata.score,
        next_best=max(other_scores, default=-1.0),
    )


def pairs_together(groups: Array) -> Array:
    """Return which two clients are in one group (N, N)."""
    groups = np.asarray(groups)
    return np.asarray(groups[:, None] == groups[None, :])


def gain_threshold(spread: Dissimilarity) -> float:
    """Return Σ_k (1 − N_k/N) H_k²: stratifying pays where Σ_k N_k ‖h̄_k − h̄‖² is larger.

    Since (N − 1) H² = Σ_k (N_k − 1) H_k² + Σ_k N_k ‖h̄_k − h̄‖², H² − Σ_k N_k H_k²/N > 0 says just that. The
    proposition claims that there is such a threshold; this is it.
    """
    share = spread.members / spread.members.sum()
    return float(((1 - share) * spread.inside).sum())


def between_groups(gradients: Array, groups: Array) -> float:
    """Return Σ_k N_k ‖h̄_k − h̄‖² of one gradient per client (N, d)."""
    rows: Floats = np.asarray(gradients, np.float64)
    groups = np.asarray(groups)
    mean = rows.mean(axis=0)
    total = 0.0
    for k in np.unique(groups):
        members = rows[groups == k]
        squared_distance = ((members.mean(axis=0) - mean) ** 2).sum()
        total += len(members) * squared_distance
    return float(total)

"""FedGS's 3DG: from similarities to edges to shortest-path distances (eq. 10 to 12 and the one between them).

Nodes are *kinds* of clients: clients with the same feature row have the same similarity to everybody, so one node
serves them all, and the diagonal of a table holds what lies between two clients of that kind. Where every client is a
kind of its own the tables are the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import floyd_warshall

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.ties import rounded

SMALLEST = 1e-300  # an edge of length zero would be no edge to scipy
RELEASED, PAPER = "released", "paper"
EPSILON = {RELEASED: 0.01, PAPER: 0.1}
SIGMA2 = {RELEASED: 0.1, PAPER: 0.01}


def unit(rows: Array) -> Floats:
    """Rows scaled to length 1; a row of zeros, which is like nobody, stays."""
    rows = np.asarray(rows, np.float64)
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.asarray(rows / np.where(length > 0, length, 1.0)[:, None])


def cosines(products: Floats) -> Floats:
    """Cosines from a table of inner products (n, n), NaN where one is unknown."""
    length = np.sqrt(np.maximum(np.diag(products), 0.0))
    scale = np.outer(length, length)
    return np.asarray(np.where(scale > 0, products / np.where(scale > 0, scale, 1.0), 0.0 * products))


def extremes(similarity: Floats, members: Ids, edges: str, *, clip: bool) -> tuple[float, float]:
    """What similarity becomes V = 0 and what V = 1, of kinds (C, C) with ``members`` (C,) clients each.

    The paper clips cosines at 0 (eq. 11, 12: ``clip``) and scales inner products by their extremes over all pairs. The
    released code scales both, over a table whose diagonal is 0.
    """
    if edges == PAPER and clip:
        return 0.0, 1.0
    counts = ~np.eye(len(similarity), dtype=bool)
    counts |= np.diag(members > 1) if edges == RELEASED else True
    held = similarity[counts & np.isfinite(similarity)]
    zero = np.zeros(1 if edges == RELEASED else 0)
    held = np.concatenate([held, zero])
    return float(held.min(initial=np.inf)), float(held.max(initial=-np.inf))


def normalised(similarity: Floats, low: float, high: float) -> Floats:
    """V in [0, 1]; 1 where all similarities are equal, NaN where one is unknown."""
    if not high > low:
        return np.where(np.isfinite(similarity), 1.0, np.nan)
    return rounded(np.clip((similarity - low) / (high - low), 0.0, 1.0), 1.0)  # so that V = ε is an edge or is none


def lengths(V: Floats, edges: str, epsilon: float, sigma2: float) -> Floats:
    """R of the paper, +∞ where there is no edge: exp(−V/σ²) if V ≥ ε, or as released exp(−V²/σ²) if V > ε."""
    with np.errstate(invalid="ignore"):  # an unknown similarity is no edge
        joined = np.greater_equal(V, epsilon) if edges == PAPER else np.greater(V, epsilon)
    power = np.where(joined, V if edges == PAPER else V * V, 0.0)
    return np.where(joined, np.maximum(np.exp(-power / sigma2), SMALLEST), np.inf)


def path_distances(R: Floats, members: Ids) -> Floats:
    """H: all shortest paths, scaled to [0, 1], 1 between clients that no path joins (after the released code).

    Two clients of one kind are joined by their own edge or through their nearest neighbour.
    """
    between = R.copy()
    np.fill_diagonal(between, 0.0)
    # masked, since in a plain array scipy takes an edge shorter than 1e-8, usual with σ² = 0.01, for none
    H = np.asarray(floyd_warshall(np.ma.masked_invalid(between), directed=False))
    np.fill_diagonal(between, np.inf)
    inside = np.minimum(np.diag(R), 2 * between.min(axis=1, initial=np.inf))
    np.fill_diagonal(H, np.where(members > 1, inside, 0.0))
    largest = float(H[np.isfinite(H)].max(initial=0.0)) or 1.0
    return np.where(np.isfinite(H), H / largest, 1.0)


@dataclass(frozen=True)
class Edges:
    """One way from feature rows to distances; ``epsilon`` and ``sigma2`` None for the values of ``kind``."""

    cosine: bool
    kind: str
    epsilon: float | None = None
    sigma2: float | None = None

    def placed(self, rows: Array) -> Floats:
        """Rows whose inner products are the similarities."""
        return unit(rows) if self.cosine else np.asarray(rows, np.float64)

    def extremes(self, similarity: Floats, members: Ids) -> tuple[float, float]:
        """The similarities of V = 0 and V = 1."""
        return extremes(similarity, members, self.kind, clip=self.cosine)

    def lengths(self, similarity: Array, low: float, high: float) -> Array:
        """R, with these similarities as V = 0 and V = 1."""
        epsilon = EPSILON[self.kind] if self.epsilon is None else self.epsilon
        sigma2 = SIGMA2[self.kind] if self.sigma2 is None else self.sigma2
        return lengths(normalised(similarity, low, high), self.kind, epsilon, sigma2)

    def distances(self, similarity: Floats, members: Ids) -> Floats:
        """H of kinds (C, C)."""
        return path_distances(self.lengths(similarity, *self.extremes(similarity, members)), members)

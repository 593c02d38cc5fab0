"""FedGS's 3DG: from similarities to edges to shortest-path distances (eq. 10 to 12 and the one between them).

Nodes are *kinds* of clients: clients with the same feature row have the same similarity to everybody, so one node
serves them all, and the diagonal of a table holds what lies between two clients of that kind. Where every client is a
kind of its own the tables are the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.sparse.csgraph import floyd_warshall

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.ties import round_to_tie_grid

EdgeRule = Literal["released", "paper"]
SHORTEST_EDGE = 1e-300  # an edge of length zero would be no edge to scipy
EPSILON = {"released": 0.01, "paper": 0.1}
SIGMA2 = {"released": 0.1, "paper": 0.01}


def scale_to_unit(rows: Array) -> Floats:
    """Return rows scaled to length 1; a row of zeros, which is like nobody, stays."""
    rows = np.asarray(rows, np.float64)
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return np.asarray(rows / np.where(length > 0, length, 1.0)[:, None])


def cosines(products: Floats) -> Floats:
    """Return cosines from a table of inner products (n, n), NaN where one is unknown."""
    length = np.sqrt(np.maximum(np.diag(products), 0.0))
    scale = np.outer(length, length)
    cosine = products / np.where(scale > 0, scale, 1.0)
    return np.asarray(np.where(scale > 0, cosine, 0.0 * products))


def extremes(similarity: Floats, members: Ids, edges: EdgeRule, *, clip: bool) -> tuple[float, float]:
    """Return what similarity becomes V = 0 and what V = 1, of kinds (C, C) with ``members`` (C,) clients each.

    The paper clips cosines at 0 (eq. 11, 12: ``clip``) and scales inner products by their extremes over all pairs. The
    released code scales both, over a table whose diagonal is 0.
    """
    if edges == "paper" and clip:
        return 0.0, 1.0
    if edges == "paper":
        values = similarity[np.isfinite(similarity)]
        return float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))
    is_pair = ~np.eye(len(similarity), dtype=bool) | np.diag(members > 1)
    values = np.append(similarity[is_pair & np.isfinite(similarity)], 0.0)
    return float(values.min()), float(values.max())


def normalise(similarity: Floats, low: float, high: float) -> Floats:
    """Return V in [0, 1]; 1 where all similarities are equal, NaN where one is unknown."""
    if not high > low:
        return np.where(np.isfinite(similarity), 1.0, np.nan)
    V = np.clip((similarity - low) / (high - low), 0.0, 1.0)
    return round_to_tie_grid(V, 1.0)  # so that V = ε is an edge on every machine, or on none


def lengths(V: Floats, edges: EdgeRule, epsilon: float, sigma2: float) -> Floats:
    """Return R, +∞ where there is no edge: exp(−V/σ²) if V ≥ ε, or as released exp(−V²/σ²) if V > ε."""
    with np.errstate(invalid="ignore"):  # an unknown similarity is no edge
        if edges == "paper":
            joined = np.greater_equal(V, epsilon)
            exponent = V
        else:
            joined = np.greater(V, epsilon)
            exponent = V * V
    R = np.exp(-np.where(joined, exponent, 0.0) / sigma2)
    return np.where(joined, np.maximum(R, SHORTEST_EDGE), np.inf)


def path_distances(R: Floats, members: Ids) -> Floats:
    """Return H: all shortest paths, scaled to [0, 1], 1 between clients that no path joins (after the released code).

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
    """How feature rows become distances.

    Attributes:
        cosine: whether similarities are cosines; else they are inner products.
        kind: "released" or "paper".
        epsilon: ε; None for the value of ``kind``.
        sigma2: σ²; None for the value of ``kind``.
    """

    cosine: bool
    kind: EdgeRule
    epsilon: float | None = None
    sigma2: float | None = None

    def place_rows(self, rows: Array) -> Floats:
        """Return rows whose inner products are the similarities."""
        if self.cosine:
            return scale_to_unit(rows)
        return np.asarray(rows, np.float64)

    def extremes(self, similarity: Floats, members: Ids) -> tuple[float, float]:
        """Return the similarities of V = 0 and V = 1."""
        return extremes(similarity, members, self.kind, clip=self.cosine)

    def lengths(self, similarity: Array, low: float, high: float) -> Array:
        """Return R, with these similarities as V = 0 and V = 1."""
        epsilon = EPSILON[self.kind] if self.epsilon is None else self.epsilon
        sigma2 = SIGMA2[self.kind] if self.sigma2 is None else self.sigma2
        return lengths(normalise(similarity, low, high), self.kind, epsilon, sigma2)

    def distances(self, similarity: Floats, members: Ids) -> Floats:
        """Return H of kinds (C, C)."""
        low, high = self.extremes(similarity, members)
        return path_distances(self.lengths(similarity, low, high), members)

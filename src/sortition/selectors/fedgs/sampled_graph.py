"""FedGS's graph of very many clients: distances of sampled nodes, among which everybody finds a place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.selectors.fedgs import landmarks
from sortition.selectors.fedgs.exact_products import gridded, products
from sortition.selectors.fedgs.graph import Edges

SCALED = 2000  # nodes whose similarities say what V = 0 and V = 1 are


@dataclass(frozen=True)
class SampledGraph:
    """Rows of the nodes (G, d), their distances to landmarks (G, L), and the graph's frame (4,).

    The frame holds the similarities of V = 0 and 1, H's scale, and how many clients were met when it was drawn.
    """

    edges: Edges
    nodes: Array
    table: Array
    frame: Array

    @classmethod
    def drawn(cls, edges: Edges, rows: Array, met: int, rng: np.random.Generator) -> SampledGraph:
        """A new graph whose nodes have these rows (G, d), sampled among so many clients that were met."""
        chosen = gridded(rows)
        some = chosen[:SCALED]
        low, high = edges.extremes(products(some, some), np.ones(len(some), np.int64))
        table, largest = landmarks.survey(chosen, lambda similarity: edges.lengths(similarity, low, high), rng)
        return cls(edges, chosen, table, np.array([low, high, largest, met]))

    def holds(self, met: int) -> bool:
        """Whether fewer than twice as many clients as it was drawn of have been met."""
        return bool(met < 2 * self.frame[3])

    def places(self, rows: Array) -> tuple[Array, Ids]:
        """How remote clients with these rows are, at most 1, and the landmark each is nearest to."""
        return landmarks.remoteness(gridded(rows), self.nodes, self.table, self.length)

    def distances(self, rows: Array) -> Floats:
        """H of clients with these rows (n, n); 1 where no path leads."""
        rows = gridded(rows)
        found = landmarks.apart(rows, landmarks.reach(rows, self.nodes, self.table, self.length), self.length)
        return np.asarray(np.round(np.where(np.isfinite(found), found, 1.0), 5), np.float64)  # the digits that are sure

    def length(self, similarity: Array) -> Array:
        """R in units of the largest distance."""
        low, high, unit, _ = self.frame
        return np.asarray(self.edges.lengths(similarity, low, high) / unit)

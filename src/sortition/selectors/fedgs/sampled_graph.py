"""FedGS's graph of very many clients: distances of sampled nodes, among which everybody finds a place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.selectors.fedgs import landmarks
from sortition.selectors.fedgs.exact_products import products, round_rows
from sortition.selectors.fedgs.graph import Edges

SCALING_NODES = 2000  # nodes whose similarities say what V = 0 and V = 1 are


@dataclass(frozen=True)
class SampledGraph:
    """A graph whose paths lead through sampled nodes.

    Attributes:
        edges: from similarities to lengths.
        nodes: (G, d) gridded rows of the nodes.
        table: (G, L) their distances to landmarks.
        frame: (4,) the similarities of V = 0 and 1, H's scale, and how many clients were known when it was built.
    """

    edges: Edges
    nodes: Array
    table: Array
    frame: Array

    @classmethod
    def of_nodes(cls, edges: Edges, rows: Array, n_known: int, rng: np.random.Generator) -> SampledGraph:
        """Build a new graph of nodes with these rows (G, d), which were sampled among ``n_known`` known clients."""
        nodes = round_rows(rows)
        scaling = nodes[:SCALING_NODES]
        low, high = edges.extremes(products(scaling, scaling), np.ones(len(scaling), np.int64))
        table, largest = landmarks.survey(nodes, lambda similarity: edges.lengths(similarity, low, high), rng)
        return cls(edges, nodes, table, np.array([low, high, largest, n_known]))

    def is_large_enough(self, n_known: int) -> bool:
        """Tell whether fewer than twice as many clients are known as when it was built."""
        return bool(n_known < 2 * self.frame[3])

    def locate(self, rows: Array) -> tuple[Array, Ids]:
        """Return how remote clients with these rows are, at most 1, and the landmark each is nearest to."""
        return landmarks.remoteness(round_rows(rows), self.nodes, self.table, self.length)

    def distances(self, rows: Array) -> Floats:
        """Return H of clients with these rows (n, n); 1 where no path leads."""
        rows = round_rows(rows)
        ways = landmarks.distances_to_landmarks(rows, self.nodes, self.table, self.length)
        H = landmarks.path_lengths(rows, ways, self.length)
        H = np.where(np.isfinite(H), H, 1.0)
        return np.asarray(np.round(H, 5), np.float64)  # the digits that are sure

    def length(self, similarity: Array) -> Array:
        """Return R in units of the largest distance."""
        low, high, largest, _ = self.frame
        return np.asarray(self.edges.lengths(similarity, low, high) / largest)

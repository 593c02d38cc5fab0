"""Shortest paths among too many clients for all pairs: ways lead through sampled *nodes*, and are known at *landmarks*.

A table (G, L) holds how far every node is from each landmark. It comes from the direct edges by relaxing: over the
edges to a node's most similar ones, over some to random nodes (which find the bridges between groups), and over the
landmarks. Any client then stands behind the nodes that it is most similar to, and two clients are as far apart as
their own edge, or as the way over the best landmark. Everything is an upper bound of the true distance. Edges are a
function ``length`` of similarity (an inner product of gridded rows) that only falls, so the most similar are the
nearest.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.ties import round_to_tie_grid
from sortition.selectors._parts.distances import squared_lengths
from sortition.selectors.fedgs.exact_products import products
from sortition.selectors.fedgs.similar_rows import find_most_similar, find_nearest

Length = Callable[[Array], Array]
LANDMARKS = 256
NEIGHBOURS = 16  # most similar nodes over which a node's ways are relaxed
BRIDGES = 16  # random nodes over which they are relaxed in each sweep
SWEEPS = 3
HANDLES = 8  # nodes through which a client that is none is reached
REMOTEST = 200  # nodes among which the largest distance is sought
DETOURS = 128  # of the clients compared, the nearest ones through whom a way may lead
BLOCK = 32  # rows whose ways to the rows before them are known
SAME_PLACE = 1e-6  # of their squared lengths: rows nearer than this are one place


def survey(nodes: Array, length: Length, rng: np.random.Generator) -> tuple[Array, float]:
    """Return the ways (G, L) from nodes (G, d) to landmarks drawn among them, and the largest distance that was found.

    The ways are divided by the largest distance, with which H is scaled, and ∞ where there is none. The largest is
    sought among the most remote nodes.
    """
    G = len(nodes)
    wide = nodes.astype(np.float64)
    landmarks = np.sort(rng.permutation(G)[:LANDMARKS])
    direct = lengths_between(nodes, nodes[landmarks], length)
    direct[landmarks, np.arange(landmarks.size)] = 0
    neighbours, similarity = find_most_similar(nodes, nodes, min(NEIGHBOURS + 1, G))  # + 1: oneself
    neighbour_edges = np.asarray(length(similarity), np.float32)
    table = direct.copy()
    for _ in range(SWEEPS):
        bridges = rng.integers(G, size=(G, BRIDGES))
        bridge_edges = np.asarray(length(np.einsum("id,ijd->ij", wide, wide[bridges])), np.float32)
        _relax(table, neighbours, neighbour_edges, table)
        _relax(table, bridges, bridge_edges, table)
        shorten(table, direct, table[landmarks])
    mean = np.where(np.isfinite(table), table, 0).mean(axis=1, dtype=np.float64)
    remotest = np.argsort(-round_to_tie_grid(mean), kind="stable")[:REMOTEST]
    distances = path_lengths(nodes[remotest], table[remotest], length)
    largest = float(distances[np.isfinite(distances)].max(initial=0.0)) or 1.0
    return table / np.float32(largest), largest


def _relax(ways: Array, through: Ids, edge: Array, onward: Array) -> None:
    """Replace ways (n, L) by those through other nodes (n, k) where they are shorter: edge (n, k), then onward."""
    for step in range(through.shape[1]):
        np.minimum(ways, edge[:, step, None] + onward[through[:, step]], out=ways)


def distances_to_landmarks(rows: Array, nodes: Array, table: Array, length: Length, k: int = HANDLES) -> Array:
    """Return how far clients with these rows (n, d) are from the landmarks (n, L), each through its k nearest nodes."""
    handles, similarity = find_most_similar(rows, nodes, min(k, len(nodes)))
    ways = np.full((len(rows), table.shape[1]), np.inf, np.float32)
    edges = _edge_lengths(rows, nodes, positions=handles, similarity=similarity, length=length)
    _relax(ways, handles, edges, table)
    return ways


def path_lengths(rows: Array, ways: Array, length: Length) -> Array:
    """Return distances (n, n) of clients by their own edges and over landmarks.

    ``ways`` (n, L) are what :func:`distances_to_landmarks` returns.

    A way may lead through one of the nearest others first, so that a client is not remote only because no node is near.
    """
    distances = lengths_between(rows, rows, length)
    ways = distances_to_landmarks(rows, rows, ways, length, k=DETOURS)
    ways_back = np.ascontiguousarray(ways.T)
    for start in range(0, len(ways), BLOCK):  # there as far as back: half of the pairs
        block = distances[start : start + BLOCK, start:]
        shorten(block, ways[start : start + BLOCK], ways_back[:, start:])
        distances[start:, start : start + BLOCK] = block.T
    np.fill_diagonal(distances, 0)
    return distances


def remoteness(rows: Array, nodes: Array, table: Array, length: Length) -> tuple[Array, Ids]:
    """Return each row's mean distance to the landmarks, at most 1, and its nearest landmark, by its nearest node."""
    mean = np.minimum(table, 1).mean(axis=1, dtype=np.float64)
    home = table.argmin(axis=1)
    node, similarity = find_nearest(rows, nodes)
    edges = _edge_lengths(rows, nodes, positions=node[:, None], similarity=similarity[:, None], length=length)
    return np.minimum(edges[:, 0] + mean[node], 1), home[node]


def shortlist(score: Array, home: Ids, size: int, rng: np.random.Generator) -> Ids:
    """Return positions of the best by score: half of them of all, half spread evenly over homes; ties at random."""
    if score.size <= size:
        return np.arange(score.size)
    shuffled = rng.permutation(score.size)
    ranked = shuffled[np.argsort(-round_to_tie_grid(score, float(np.abs(score).max()))[shuffled], kind="stable")]
    best = ranked[: size // 2]
    remaining = ranked[size // 2 :]
    by_home = np.argsort(home[remaining].astype(np.int16), kind="stable")  # few homes: one pass
    homes = home[remaining][by_home]
    rank_in_home = np.arange(homes.size) - np.searchsorted(homes, homes)
    in_turns = np.argsort(rank_in_home, kind="stable")[: size - size // 2]
    spread = remaining[by_home[in_turns]]
    return np.sort(np.concatenate([best, spread]))


def shorten(ways: Array, outward: Array, onward: Array) -> None:
    """Replace ways (n, m) by those over one of k stops where they are shorter: outward (n, k), then onward (k, m).

    A stop whose shortest sum is no shorter than the longest way of a row changes nothing there, and most are such.
    """
    is_useful = outward + onward.min(axis=1) < ways.max(axis=1, keepdims=True)
    for ways_row, outward_row, is_useful_row in zip(ways, outward, is_useful, strict=True):
        stops = is_useful_row.nonzero()[0]
        if stops.size:
            np.minimum(ways_row, (outward_row[stops, None] + onward[stops]).min(axis=0), out=ways_row)


def lengths_between(rows: Array, others: Array, length: Length) -> Array:
    """Return the lengths (n, m) of the edges between rows (n, d) and others (m, d)."""
    return np.asarray(length(products(rows, others)), np.float32)


def _edge_lengths(rows: Array, nodes: Array, *, positions: Ids, similarity: Array, length: Length) -> Array:
    """Return lengths (n, k) of the edges to these nodes, 0 to a node with the same row: it is at the same place."""
    total = squared_lengths(rows)[:, None] + squared_lengths(nodes)[positions]
    is_same = total - 2 * similarity <= SAME_PLACE * total
    return np.asarray(np.where(is_same, 0, length(similarity)), np.float32)

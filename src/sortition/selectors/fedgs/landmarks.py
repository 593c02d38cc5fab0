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
from sortition.core.ties import rounded
from sortition.selectors.fedgs.exact_products import products
from sortition.selectors.fedgs.similar_rows import most_similar, nearest

Length = Callable[[Array], Array]
LANDMARKS, NEAR, DRAWN, SWEEPS = 256, 16, 16, 3
HANDLES = 8  # nodes through which a client that is none is reached
REMOTEST = 200  # nodes among which the largest distance is sought
OTHERS = 128  # of those compared, the nearest ones through whom a way may lead
BLOCK = 32  # rows whose ways to the rows before them are known
EQUAL = 1e-6  # of their squared lengths: rows nearer than this are one place


def survey(nodes: Array, length: Length, rng: np.random.Generator) -> tuple[Array, float]:
    """(G, L) ways from the nodes (G, d) to landmarks drawn among them, ∞ where none, over the largest distance found.

    The largest (also given) is sought among the most remote nodes; it is what H is scaled with.
    """
    at, wide = np.sort(rng.permutation(len(nodes))[:LANDMARKS]), nodes.astype(np.float64)
    direct = edges(nodes, nodes[at], length)
    direct[at, np.arange(at.size)] = 0
    near, similar = most_similar(nodes, nodes, min(NEAR + 1, len(nodes)))  # + 1: oneself
    beside, table = np.asarray(length(similar), np.float32), direct.copy()
    for _ in range(SWEEPS):
        drawn = rng.integers(len(nodes), size=(len(nodes), DRAWN))
        bridges = np.asarray(length(np.einsum("id,ijd->ij", wide, wide[drawn])), np.float32)
        for ways, cost in ((near, beside), (drawn, bridges)):
            for step in range(ways.shape[1]):
                np.minimum(table, cost[:, step, None] + table[ways[:, step]], out=table)
        shorten(table, direct, table[at])
    mean = np.where(np.isfinite(table), table, 0).mean(axis=1, dtype=np.float64)
    far = np.argsort(-rounded(mean), kind="stable")[:REMOTEST]
    found = apart(nodes[far], table[far], length)
    largest = float(found[np.isfinite(found)].max(initial=0.0)) or 1.0
    return table / np.float32(largest), largest


def reach(rows: Array, nodes: Array, table: Array, length: Length, k: int = HANDLES) -> Array:
    """(n, L): how far clients with these rows (n, d) are from the landmarks, each through its nearest nodes."""
    near, similar = most_similar(rows, nodes, min(k, len(nodes)))
    cost, out = (
        _edge_lengths(rows, nodes, near, similar, length),
        np.full((len(rows), table.shape[1]), np.inf, np.float32),
    )
    for step in range(near.shape[1]):
        np.minimum(out, cost[:, step, None] + table[near[:, step]], out=out)
    return out


def apart(rows: Array, ways: Array, length: Length) -> Array:
    """(n, n) distances of clients by their own edges and over landmarks; ``ways`` (n, L) as :func:`reach` gives.

    A way may lead through one of the nearest others first: who looks remote only because no node is near is found out.
    """
    out, ways = edges(rows, rows, length), reach(rows, rows, ways, length, OTHERS)
    back = np.ascontiguousarray(ways.T)
    for start in range(0, len(ways), BLOCK):  # there as far as back: half of the pairs
        block = out[start : start + BLOCK, start:]
        shorten(block, ways[start : start + BLOCK], back[:, start:])
        out[start:, start : start + BLOCK] = block.T
    np.fill_diagonal(out, 0)
    return out


def remoteness(rows: Array, nodes: Array, table: Array, length: Length) -> tuple[Array, Ids]:
    """Of each row the mean distance to the landmarks, at most 1, and its nearest one; both through its nearest node."""
    mean, home = np.minimum(table, 1).mean(axis=1, dtype=np.float64), table.argmin(axis=1)
    near, similar = nearest(rows, nodes)
    edge = _edge_lengths(rows, nodes, near[:, None], similar[:, None], length)[:, 0]
    return np.minimum(edge + mean[near], 1), home[near]


def shortlist(score: Array, home: Ids, at_most: int, rng: np.random.Generator) -> Ids:
    """Positions of the best by score: half of them of all, half spread evenly over homes; ties are drawn at random."""
    if score.size <= at_most:
        return np.arange(score.size)
    shuffled = rng.permutation(score.size)
    ranked = shuffled[np.argsort(-rounded(score, float(np.abs(score).max()))[shuffled], kind="stable")]
    rest = ranked[at_most // 2 :]
    order = np.argsort(home[rest].astype(np.int16), kind="stable")  # few homes: one pass
    own = home[rest][order]
    turn = np.arange(own.size) - np.searchsorted(own, own)  # the how-manieth of its home
    spread = rest[order[np.argsort(turn, kind="stable")[: at_most - at_most // 2]]]
    return np.sort(np.concatenate([ranked[: at_most // 2], spread]))


def shorten(ways: Array, left: Array, right: Array) -> None:
    """Replace ways (n, m) by min over k of left[:, k] + right[k] where that is shorter.

    A k whose shortest sum is no shorter than the longest way of a row changes nothing there, and most are such.
    """
    useful = left + right.min(axis=1) < ways.max(axis=1, keepdims=True)
    for way, mine, some in zip(ways, left, useful, strict=True):
        if (at := some.nonzero()[0]).size:
            np.minimum(way, (mine[at, None] + right[at]).min(axis=0), out=way)


def edges(left: Array, right: Array, length: Length) -> Array:
    """(n, m) lengths of the edges between rows."""
    return np.asarray(length(products(left, right)), np.float32)


def _edge_lengths(rows: Array, nodes: Array, near: Ids, similar: Array, length: Length) -> Array:
    """(n, k) lengths of the edges to these nodes, 0 to a node with the same row: it is at the same place."""
    own, theirs = (np.einsum("ij,ij->i", table, table, dtype=np.float64) for table in (rows, nodes))
    total = own[:, None] + theirs[near]
    return np.asarray(np.where(total - 2 * similar <= EQUAL * total, 0, length(similar)), np.float32)

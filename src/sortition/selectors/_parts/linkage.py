"""Distances between clients' updates, the tree that they make, and two ways to cut it into groups.

Shared by HiCS-FL and clustered sampling. Both papers' released codes give the rows of the distance matrix to Ward's
method as if they were points; so does ``linkage="ward"``. ``"average"`` links the distances themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.cluster import hierarchy
from scipy.spatial.distance import cdist, pdist, squareform

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.sampling import draw_uniformly
from sortition.core.ties import grid_step, round_to_tie_grid

Gap = Literal["angle", "l1", "l2"]
Linkage = Literal["ward", "average"]
Cut = Callable[[Array, Ids], Ids]  # (tree, positions of its leaves) → group 0, 1, … of each leaf
ROUNDING_OF_WARD = 1e-10  # of the largest squared length of all rows: a smaller squared distance is a rounding error
LINK_BITS = 26  # of a distance that is linked: a root of a difference of squares has fewer sure digits than a sum
SAMPLE = 1000  # clients that are clustered where there are too many for an exact tree
BLOCK = 1024  # rows that are assigned at once: their tables stay in the cache


def directions(rows: Array) -> Array:
    """Turn rows (n, d) into unit rows (n, d + 1); a zero row points into a dimension of its own.

    So zero updates are alike (angle 0) and at π/2 from all others, where the angle is not defined.
    """
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    zero = norms == 0
    units = np.empty((len(rows), rows.shape[1] + 1), rows.dtype)
    np.divide(rows, np.where(zero, 1, norms)[:, None], out=units[:, :-1])
    units[:, -1] = zero
    return units


def gaps_between(a: Array, b: Array, gap: Gap = "angle") -> Array:
    """Return (n, m) distances of rows (n, d) and (m, d): angles of :func:`directions`, or L1 or L2 distances."""
    if gap == "l1":
        return np.asarray(cdist(a, b, "cityblock"))
    if gap == "l2":
        return np.asarray(cdist(a, b, "euclidean"))
    cosine = np.clip(round_to_tie_grid(a @ b.T, 1.0), -1, 1)  # equal rows are at distance 0, whatever the rounding
    return np.asarray(np.arccos(cosine, out=cosine))


def mutual_gaps(points: Array, gap: Gap = "angle") -> Array:
    """Return the (n, n) distances of rows (n, d) from each other; a row is at distance 0 from itself.

    L1 and L2 distances take d operations a pair. They are computed once for each pair of clients that have trained;
    all others have the same row of zeros, which is computed with once.
    """
    if gap == "angle":
        gaps = gaps_between(points, points, gap)
        np.fill_diagonal(gaps, 0)
        return gaps
    is_moved = points.any(axis=1)
    distinct = np.concatenate([points[is_moved], np.zeros((1, points.shape[1]), points.dtype)])
    distinct_gaps = squareform(pdist(distinct, "cityblock" if gap == "l1" else "euclidean"))
    row_of_point = np.where(is_moved, np.cumsum(is_moved) - 1, len(distinct) - 1)
    return np.asarray(distinct_gaps[np.ix_(row_of_point, row_of_point)])


def build_tree(gaps: Array, linkage: Linkage = "ward") -> Array:
    """Return the (n − 1, 4) linkage matrix of n clients from their (n, n) distances."""
    n = len(gaps)
    if n < 2:
        return np.empty((0, 4))
    if linkage == "average":
        return np.asarray(hierarchy.linkage(squareform(_round_to_grid((gaps + gaps.T) / 2), checks=False), "average"))
    # Ward on rows as points needs their Euclidean distances: one Gram matrix, ten times faster than pdist
    rows = gaps - gaps.mean(axis=0)
    square = np.einsum("ij,ij->i", rows, rows)
    squared = square[:, None] + square - 2 * (rows @ rows.T)
    squared[squared < ROUNDING_OF_WARD * square.max(initial=0)] = 0  # cancellation, where rows are equal
    np.fill_diagonal(squared, 0)
    return np.asarray(hierarchy.linkage(squareform(_round_to_grid(np.sqrt(squared)), checks=False), "ward"))


def _round_to_grid(gaps: Floats) -> Floats:
    """Cut the last bits of distances, which differ between processors: equal ones stay equal, and link in order."""
    step = grid_step(float(gaps.max(initial=0.0)), LINK_BITS)
    return np.asarray(np.rint(gaps / step) * step)


def cut_to_count(links: Array, count: int) -> Ids:
    """Return ``count`` groups, or n if there are fewer clients: the last count − 1 merges are undone, ties or not."""
    n = len(links) + 1
    if count >= n:
        return np.arange(n)
    ranked = links.copy()
    ranked[:, 2] = np.arange(1, n)
    return np.asarray(hierarchy.fcluster(ranked, n - count, "distance") - 1, np.int64)


def cut_to_mass(links: Array, mass: Array, capacity: float) -> Ids:
    """Return the largest subtrees whose members' mass is at most ``capacity``; a heavier client stays alone."""
    n = len(links) + 1
    if n == 1:
        return np.zeros(1, np.int64)
    subtree_mass = np.asarray(mass, np.float64).tolist()  # plain numbers: a merge needs those of the merges before it
    for first, second in links[:, :2].astype(np.int64).tolist():
        subtree_mass.append(subtree_mass[first] + subtree_mass[second])
    links_by_mass = links.copy()
    links_by_mass[:, 2] = subtree_mass[n:]
    return np.asarray(hierarchy.fcluster(links_by_mass, capacity, "distance") - 1, np.int64)


def tree_groups(
    rows: Array,
    cut: Cut,
    limit: int,
    rng: np.random.Generator,
    *,
    among: Ids,
    offset: Floats | None = None,
    gap: Gap = "angle",
    linkage: Linkage = "ward",
) -> Ids:
    """Return the group of each of n clients by the distance gap(u, k) + |offset_u − offset_k|; no group is empty.

    Up to ``limit`` clients the whole tree is built. Beyond, the tree of a random sample is cut, and everybody joins the
    group whose mean row (and mean offset) is nearest: O(n) time and memory.

    Args:
        rows: (N, d) updates of all clients.
        cut: cuts the tree into groups.
        limit: clients up to which all are leaves of the tree.
        rng: draws the sample.
        among: (n,) ids of the clients to be grouped.
        offset: (n,) numbers of these clients; default: equal.
        gap: what is between two updates.
        linkage: how the tree is built.
    """
    n = among.size
    if n <= limit:
        leaves = np.arange(n)
    else:
        has_update = np.asarray(rows.any(axis=1))[among]
        leaves = _sample_leaves(has_update, min(SAMPLE, limit), rng)
    points = rows[among[leaves]]
    if gap == "angle":
        points = directions(points)
    gaps = mutual_gaps(points, gap)
    if offset is not None:
        gaps += np.abs(offset[leaves, None] - offset[leaves])
    groups = cut(build_tree(gaps, linkage), leaves)
    if n <= limit:
        return groups
    group_sizes = np.bincount(groups)
    centres = np.zeros((group_sizes.size, points.shape[1]))
    np.add.at(centres, groups, points)
    centres /= group_sizes[:, None]
    if gap == "angle":
        centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-300)
    centre_offset = None
    if offset is not None:
        centre_offset = np.bincount(groups, offset[leaves]) / group_sizes
    nearest = _nearest_centres(rows, among, centres, offset=offset, centre_offset=centre_offset, gap=gap)
    is_joined = np.bincount(nearest) > 0  # where groups have the same centre, everybody joins the first of them
    return (np.cumsum(is_joined) - 1)[nearest]


def _sample_leaves(has_update: Array, size: int, rng: np.random.Generator) -> Ids:
    """Draw random leaves; rows that are not zero come first, since clients without an update are all alike."""
    updated = np.flatnonzero(has_update)
    not_updated = np.flatnonzero(~has_update)
    n_updated = min(updated.size, size - min(not_updated.size, 1))
    drawn_updated = draw_uniformly(updated, n_updated, rng)
    drawn_others = draw_uniformly(not_updated, size - n_updated, rng)
    return np.sort(np.concatenate([drawn_updated, drawn_others]))


def _nearest_centres(
    rows: Array, ids: Ids, centres: Floats, *, offset: Floats | None, centre_offset: Floats | None, gap: Gap
) -> Ids:
    """Return the nearest centre of each of these clients, a block at a time; the first of equally near ones."""
    nearest = np.empty(ids.size, np.int64)
    for start in range(0, ids.size, BLOCK):
        block = slice(start, start + BLOCK)
        points = rows[ids[block]].astype(np.float64)
        if gap == "angle":
            points = directions(points)
        if gap == "angle" and (offset is None or centre_offset is None):
            cosines = round_to_tie_grid(points @ centres.T, 1.0)
            nearest[block] = cosines.argmax(axis=1)  # the smallest angle
            continue
        gaps = gaps_between(points, centres, gap)
        if offset is not None and centre_offset is not None:
            gaps += np.abs(np.subtract.outer(offset[block], centre_offset))
        nearest[block] = round_to_tie_grid(gaps, float(gaps.max())).argmin(axis=1)
    return nearest

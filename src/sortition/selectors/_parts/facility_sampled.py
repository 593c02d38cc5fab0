"""Facility location among too many clients for all pairs: O(N·k) work on one short row per client.

A bounded sample of clients is to be covered, a bounded sample of candidates is searched greedily, and then every one of
the k chosen is exchanged for the best that a pass over *all* candidates finds near the middle of those it stands for,
twice. The passes are what makes this better than solving a subsample: medoids come from the whole pool.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.sparse import csr_array

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.sampling import leading
from sortition.core.signals import buckets_and_signs
from sortition.core.ties import first_smallest, rounded
from sortition.selectors._parts.distances import between
from sortition.selectors._parts.facility import greedy_cover, nearest_of

PASSES = 2  # over all candidates
BLOCK = 16_384  # rows of one matrix product: k × BLOCK numbers at a time


def shortened(vectors: Array, width: int) -> Array:
    """Rows of at most ``width`` numbers: longer ones are sketched, which keeps distances up to about √(2/width)."""
    flat = vectors.reshape(len(vectors), -1)
    if flat.shape[1] <= width:
        return flat
    return np.asarray((folding(flat.shape[1], width) @ np.asarray(flat, np.float64).T).T)


@lru_cache(maxsize=4)
def folding(length: int, width: int) -> csr_array:
    """(width, length), one ±1 in every column: ``core.signals.fold`` of many rows at once."""
    buckets, signs = buckets_and_signs(length, width, 0)
    return csr_array((signs, (buckets, np.arange(length))), shape=(width, length))


def stored(rows: Array, ids: Ids, vectors: Array, width: int) -> Array:
    """The table of all clients' rows with these ones replaced; the first ones fix its width."""
    if not ids.size:
        return rows
    short = shortened(vectors, rows.shape[1] or width)
    if not rows.shape[1]:
        rows = np.zeros((len(rows), short.shape[1]), rows.dtype)
    rows[ids] = short
    return rows


def sampled_cover(
    rows: Array, pool: Ids, candidates: Ids, references: Ids, k: int, mass: Floats, price: Floats | None = None
) -> Ids:
    """Ids of k clients of ``pool`` that lie near to the references.

    Args:
        rows: (N, width) one row a client.
        pool: everybody who may be chosen.
        candidates: a sample of the pool, searched greedily.
        references: those to be covered, with ``mass`` (references,) each.
        k: how many.
        mass: how much each reference counts.
        price: (N,) what choosing a client adds.
    """
    if price is not None and pool.size > k:  # the random sample must not miss those whose price is lowest
        candidates = np.union1d(candidates, leading(pool, -price[pool], k))
    price = np.zeros(len(rows)) if price is None else price
    clients = np.asarray(rows[references], np.float64)
    table = between(rows[candidates], clients)
    chosen = candidates[greedy_cover(table, k, price=price[candidates], mass=mass)]
    for _ in range(PASSES):
        chosen = exchanged(rows, pool, chosen, clients, mass, price)
    return chosen


def exchanged(rows: Array, pool: Ids, chosen: Ids, clients: Floats, mass: Floats, price: Floats) -> Ids:
    """Each of the chosen, or whoever of the pool serves those that it stands for better."""
    chosen, nearest = chosen.copy(), nearest_of(between(rows[chosen], clients))
    weight = np.bincount(nearest, weights=mass, minlength=chosen.size).astype(np.float64)
    held = weight > 0
    middles = np.zeros((chosen.size, clients.shape[1]))
    np.add.at(middles, nearest, clients * mass[:, None])
    middles[held] /= weight[held, None]
    near = nearest_to_middles(rows, pool, middles, weight, price)
    taken = set(chosen.tolist())
    for cluster in np.flatnonzero(held):
        mine = nearest == cluster
        options = np.array([chosen[cluster], *(c for c in near[:, cluster].tolist() if c not in taken)])
        cost = between(rows[options], clients[mine]) @ mass[mine] + price[options]
        taken.discard(int(chosen[cluster]))
        chosen[cluster] = options[first_smallest(cost, float(np.abs(cost).max()))]
        taken.add(int(chosen[cluster]))
    return chosen


def nearest_to_middles(rows: Array, pool: Ids, middles: Floats, weight: Floats, price: Floats) -> Ids:
    """For every middle the best client of each block of the pool by weight · distance + price, (blocks, k)."""
    size = int(min(BLOCK, max(pool.size // 16, 1)))
    best = []
    for start in range(0, pool.size, size):
        ids = pool[start : start + size]
        cost = weight[:, None] * between(middles, rows[ids]) + price[ids]
        best.append(ids[np.argmin(rounded(cost, float(np.abs(cost).max())), axis=1)])
    return np.stack(best)

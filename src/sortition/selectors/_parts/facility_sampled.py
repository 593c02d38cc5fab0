"""Facility location among too many clients for all pairs: O(N·k) work on one short row per client.

A bounded sample of clients is to be covered, a bounded sample of candidates is searched greedily, and then every one of
the k chosen is exchanged for the best that a pass over *all* candidates finds near the middle of those it stands for,
twice. The passes are what makes this better than solving a subsample: medoids come from the whole pool.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from sortition.core.arrays import Array, Floats, Ids, fix_width
from sortition.core.sampling import take_largest_unsorted
from sortition.core.signals import buckets_and_signs
from sortition.core.ties import first_smallest, round_to_tie_grid
from sortition.selectors._parts.distances import distances_between, enlarge_table
from sortition.selectors._parts.facility import greedy_cover, nearest_chosen

SHORT_WIDTH = 64  # numbers that are kept of a client's vector where there are too many clients for all pairs
CLIENTS_PER_PLACE = 10  # clients that are drawn for each place of a cohort, at least
EXCHANGE_PASSES = 2  # over all candidates
BLOCK = 16_384  # rows of one matrix product: k × BLOCK numbers at a time


def sample_size(sample: int, budget: int) -> int:
    """Return how many clients are covered, and how many are candidates first: ``sample``, or more for many places."""
    return max(sample, CLIENTS_PER_PLACE * budget)


def shorten_rows(vectors: Array, width: int) -> Array:
    """Return rows of at most ``width`` numbers; longer ones are sketched, which keeps distances to about √(2/width)."""
    flat = vectors.reshape(len(vectors), -1)
    if flat.shape[1] <= width:
        return flat
    return np.asarray((folding_matrix(flat.shape[1], width) @ np.asarray(flat, np.float64).T).T)


@lru_cache(maxsize=4)
def folding_matrix(length: int, width: int) -> csr_array:
    """Return (width, length) with one ±1 in every column: ``core.signals.fold`` of many rows at once."""
    buckets, signs = buckets_and_signs(length, width, 0)
    return csr_array((signs, (buckets, np.arange(length))), shape=(width, length))


def store_rows(rows: Array, ids: Ids, vectors: Array, width: int) -> Array:
    """Write these clients' short rows into the table, and return it: another one, if these are the first rows."""
    if not ids.size:
        return rows
    short = shorten_rows(vectors, rows.shape[1] or width)
    rows = fix_width(rows, short.shape[1])
    rows[ids] = short
    return rows


class VectorMemory(Protocol):
    """What a method remembers that covers all clients by one vector each, such as an update or a gradient.

    Attributes:
        n_clients: N.
        rows: (N, width) the clients' vectors, or sketches of them.
        distance: (N, N) distances between all pairs; None where there are too many clients.
    """

    n_clients: int
    rows: Array
    distance: Floats | None


def make_room(state: VectorMemory, exact_up_to: int, unknown: float) -> bool:
    """Make room for clients that joined, and tell whether the distances of all pairs are kept.

    Up to ``exact_up_to`` clients they are, with ``unknown`` for pairs with a newcomer; beyond, vectors are shortened.
    """
    if state.n_clients <= exact_up_to:
        state.distance = enlarge_table(state.distance, state.n_clients, unknown)
        return True
    state.distance = None
    if state.rows.shape[1] > SHORT_WIDTH:
        state.rows = shorten_rows(state.rows, SHORT_WIDTH).astype(np.float32)
    return False


def sampled_cover(
    rows: Array, pool: Ids, candidates: Ids, references: Ids, k: int, mass: Floats, price: Floats | None = None
) -> Ids:
    """Return ids of k clients of ``pool`` that lie near to the references.

    Args:
        rows: (N, width) one row a client.
        pool: everybody who may be chosen.
        candidates: a sample of the pool, of which k are chosen greedily; then clients of the whole pool replace them.
        references: the clients to be covered.
        k: how many.
        mass: (references,) how much each reference counts.
        price: (N,) what choosing a client adds; default 0.
    """
    if price is None:
        price = np.zeros(len(rows))
    elif pool.size > k:  # the random sample must not miss those whose price is lowest
        candidates = np.union1d(candidates, take_largest_unsorted(pool, -price[pool], k))
    clients = np.asarray(rows[references], np.float64)
    table = distances_between(rows[candidates], clients)
    chosen = candidates[greedy_cover(table, k, price=price[candidates], mass=mass)]
    for _ in range(EXCHANGE_PASSES):
        chosen = exchange_chosen(rows, pool, chosen, clients=clients, mass=mass, price=price)
    return chosen


def exchange_chosen(rows: Array, pool: Ids, chosen: Ids, *, clients: Floats, mass: Floats, price: Floats) -> Ids:
    """Replace each of the chosen by the client of the pool that is nearest to the clients it stands for."""
    chosen = chosen.copy()
    nearest = nearest_chosen(distances_between(rows[chosen], clients))
    weight = np.bincount(nearest, weights=mass, minlength=chosen.size).astype(np.float64)
    serves = weight > 0
    middles = np.zeros((chosen.size, clients.shape[1]))
    np.add.at(middles, nearest, clients * mass[:, None])
    middles[serves] /= weight[serves, None]
    finalists = nearest_to_middles(rows, pool, middles=middles, weight=weight, price=price)
    members = set(chosen.tolist())
    for cluster in np.flatnonzero(serves):
        served = nearest == cluster
        challengers = [client for client in finalists[:, cluster].tolist() if client not in members]
        options = np.array([chosen[cluster], *challengers])
        cost = distances_between(rows[options], clients[served]) @ mass[served] + price[options]
        members.discard(int(chosen[cluster]))
        chosen[cluster] = options[first_smallest(cost, float(np.abs(cost).max()))]
        members.add(int(chosen[cluster]))
    return chosen


def nearest_to_middles(rows: Array, pool: Ids, *, middles: Floats, weight: Floats, price: Floats) -> Ids:
    """Return for every middle the best client of each block of the pool by weight · distance + price, (blocks, k)."""
    size = int(min(BLOCK, max(pool.size // 16, 1)))
    best = []
    for start in range(0, pool.size, size):
        ids = pool[start : start + size]
        cost = weight[:, None] * distances_between(middles, rows[ids]) + price[ids]
        best.append(ids[np.argmin(round_to_tie_grid(cost, float(np.abs(cost).max())), axis=1)])
    return np.stack(best)

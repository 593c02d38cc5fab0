"""Clustered sampling's m distributions over clients, as m bins of equal capacity filled with the clients' mass.

Client i brings the whole number m·n_i, a bin holds n = Σ n_i: so Σ_i r_ki = 1 and Σ_k r_ki = m p_i hold exactly, which
is the condition for an unbiased average (Fraboni et al. 2021, Proposition 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Array, Floats, Ids

LARGEST = 2.0**62  # of 64-bit integers, with room for rounding


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """What lies in the bins: ``mass[e]`` of client ``client[e]`` (a position) in bin ``bin[e]``, sorted by bin."""

    bin: Ids
    client: Ids
    mass: Ids
    capacity: int

    def draw(self, rng: np.random.Generator) -> Ids:
        """One position from each bin, in proportion to mass."""
        bounds = np.cumsum(self.mass)
        count = int(bounds[-1]) // self.capacity
        marks = np.arange(count) * self.capacity + rng.integers(self.capacity, size=count)
        return self.client[np.searchsorted(bounds, marks, side="right")]

    def table(self, n: int) -> Floats:
        """(m, n) r_ki, for reading and small cases."""
        out = np.zeros((int(self.mass.sum()) // self.capacity, n))
        np.add.at(out, (self.bin, self.client), self.mass / self.capacity)
        return out


def whole(sizes: Array, m: int = 1) -> Ids:
    """Sizes as whole numbers of which m times the total is one too; all zeros become ones.

    Fractions, and totals too large for that, are scaled and rounded at 2^-40 of the total.
    """
    sizes = np.asarray(sizes)
    if not sizes.any():
        return np.ones(sizes.size, np.int64)
    total = float(sizes.sum(dtype=np.float64))
    fractions = sizes.dtype.kind == "f" and (sizes != np.rint(sizes)).any()
    if fractions or m * total >= LARGEST:
        sizes = np.rint(sizes * (2.0**40 / total))
    return sizes.astype(np.int64)


def fill_bins(clients: Ids, mass: Ids, room: Ids) -> tuple[Ids, Ids, Ids]:
    """Fill bins of the given room with clients one after the other, cut where a bin ends: (bin, client, mass)."""
    ends_of_clients, ends_of_bins = np.cumsum(mass), np.cumsum(room)
    ends = np.sort(np.concatenate([ends_of_clients, ends_of_bins]), kind="stable")  # two sorted runs: merged in O(n)
    ends = ends[(np.diff(ends, prepend=0) > 0) & (ends <= min(ends_of_clients[-1], ends_of_bins[-1]))]
    bins = np.searchsorted(ends_of_bins, ends)
    return bins, clients[np.searchsorted(ends_of_clients, ends)], np.diff(ends, prepend=0)


def by_size(sizes: Ids, m: int) -> Bins:
    """Algorithm 1: clients in descending order of size are poured into m bins."""
    order = np.argsort(-sizes, kind="stable")
    capacity = int(sizes.sum())
    return Bins(*fill_bins(order, m * sizes[order], np.full(m, capacity)), capacity)


def loose(sizes: Ids, m: int) -> Ids:
    """The mass that is left of each client when it has got ⌊m p_i⌋ bins of its own."""
    return np.asarray((m * sizes) % int(sizes.sum()))


def by_groups(sizes: Ids, m: int, groups: Ids, rng: np.random.Generator) -> Bins:
    """Algorithm 2: the heaviest groups open a bin each; members of the others fill what room is left.

    Whatever fills a bin alone does so first: a client with m p_i ≥ 1 (the released code has no such step and is biased
    there), then a group heavier than a bin, as there are where groups were assigned and not cut.
    """
    capacity = int(sizes.sum())
    own = np.repeat(np.arange(sizes.size), (m * sizes) // capacity)
    parts = [(np.arange(own.size), own, np.full(own.size, capacity))]
    left, opened = loose(sizes, m), own.size
    weight = np.bincount(groups, left).astype(np.int64)
    for group in np.flatnonzero(weight > capacity):
        inside = rng.permutation(np.flatnonzero(groups == group))
        bins, who, pieces = fill_bins(inside, left[inside], np.full(weight[group] // capacity, capacity))
        parts.append((opened + bins, who, pieces))
        left -= np.bincount(who, pieces, minlength=left.size).astype(np.int64)
        opened += int(weight[group] // capacity)
    if opened < m:
        parts += _shared_bins(left, groups, capacity, opened, m, rng)
    bins, clients, mass = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(bins, kind="stable")
    return Bins(bins[order], clients[order], mass[order], capacity)


def _shared_bins(
    left: Ids, groups: Ids, capacity: int, opened: int, m: int, rng: np.random.Generator
) -> list[tuple[Ids, Ids, Ids]]:
    """Bins ``opened`` to m − 1: one of the heaviest groups in each, then the other groups, the lightest first."""
    weight = np.bincount(groups, left).astype(np.int64)
    first = np.zeros(weight.size, np.int64)
    first[groups[::-1]] = np.arange(groups.size)[::-1]  # the lowest member, which breaks ties
    ascending = np.lexsort((first, weight))
    seeds = ascending[weight.size - (m - opened) :]
    bin_of = np.full(weight.size, -1)
    bin_of[seeds] = np.arange(opened, m)
    seeding = np.flatnonzero((bin_of[groups] >= 0) & (left > 0))
    filling = np.flatnonzero((bin_of[groups] < 0) & (left > 0))
    parts = [(bin_of[groups[seeding]], seeding, left[seeding])]
    if filling.size:
        rank = np.argsort(ascending)[groups[filling]]
        filling = filling[np.lexsort((rng.random(filling.size), rank))]  # shuffled inside a group
        bins, who, pieces = fill_bins(filling, left[filling], capacity - weight[seeds])
        parts.append((opened + bins, who, pieces))
    return parts

"""Clustered sampling's m distributions over clients, as m bins of equal capacity filled with the clients' mass.

Client i brings the whole number m·n_i, a bin holds n = Σ n_i: so Σ_i r_ki = 1 and Σ_k r_ki = m p_i hold exactly, which
is the condition for an unbiased average (Fraboni et al. 2021, Proposition 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Array, Floats, Ids

LARGEST_INTEGER = 2.0**62  # of 64-bit integers, with room for rounding


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Pieces of clients in bins: ``mass[e]`` of client ``client[e]`` (a position) lies in bin ``bin[e]``."""

    bin: Ids
    client: Ids
    mass: Ids


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """What lies in the bins: ``mass[e]`` of client ``client[e]`` (a position) in bin ``bin[e]``, sorted by bin."""

    bin: Ids
    client: Ids
    mass: Ids
    capacity: int

    def draw(self, rng: np.random.Generator) -> Ids:
        """Draw one position from each bin, in proportion to mass."""
        ends = np.cumsum(self.mass)
        n_bins = int(ends[-1]) // self.capacity
        marks = np.arange(n_bins) * self.capacity + rng.integers(self.capacity, size=n_bins)
        return self.client[np.searchsorted(ends, marks, side="right")]

    def table(self, n: int) -> Floats:
        """Return r_ki (m, n), for reading and small cases."""
        n_bins = int(self.mass.sum()) // self.capacity
        r = np.zeros((n_bins, n))
        np.add.at(r, (self.bin, self.client), self.mass / self.capacity)
        return r


def as_whole_sizes(sizes: Array, m: int = 1) -> Ids:
    """Return sizes as whole numbers, so that sums over m bins are exact; where all are 0, they become 1.

    Fractions, and sizes so large that m times their total overflows, are scaled to a total of about 2^40 and rounded.
    """
    sizes = np.asarray(sizes)
    if not sizes.any():
        return np.ones(sizes.size, np.int64)
    total = float(sizes.sum(dtype=np.float64))
    has_fractions = sizes.dtype.kind == "f" and (sizes != np.rint(sizes)).any()
    if has_fractions or m * total >= LARGEST_INTEGER:
        sizes = np.rint(sizes * (2.0**40 / total))
    return sizes.astype(np.int64)


def fill_bins(clients: Ids, mass: Ids, room: Ids) -> Pieces:
    """Fill bins of the given room with clients one after the other; a client is cut where a bin ends."""
    ends_of_clients = np.cumsum(mass)
    ends_of_bins = np.cumsum(room)
    ends = np.sort(np.concatenate([ends_of_clients, ends_of_bins]), kind="stable")  # two sorted runs: merged in O(n)
    filled = min(ends_of_clients[-1], ends_of_bins[-1])
    ends = ends[(np.diff(ends, prepend=0) > 0) & (ends <= filled)]
    return Pieces(
        bin=np.searchsorted(ends_of_bins, ends),
        client=clients[np.searchsorted(ends_of_clients, ends)],
        mass=np.diff(ends, prepend=0),
    )


def fill_bins_by_size(sizes: Ids, m: int) -> Bins:
    """Fill m bins with clients in descending order of size (Algorithm 1)."""
    order = np.argsort(-sizes, kind="stable")
    capacity = int(sizes.sum())
    pieces = fill_bins(order, m * sizes[order], np.full(m, capacity))
    return Bins(pieces.bin, pieces.client, pieces.mass, capacity)


def remaining_mass(sizes: Ids, m: int) -> Ids:
    """Return the mass that remains of each client when it has got ⌊m p_i⌋ bins of its own."""
    return np.asarray((m * sizes) % int(sizes.sum()))


def fill_bins_by_groups(sizes: Ids, m: int, groups: Ids, rng: np.random.Generator) -> Bins:
    """Open a bin for each of the heaviest groups; members of the others fill the room that remains (Algorithm 2).

    Whatever fills a bin alone does so first: a client with m p_i ≥ 1 (the released code has no such step and is biased
    there), then a group heavier than a bin, as there are where groups were assigned and not cut.
    """
    capacity = int(sizes.sum())
    owners = np.repeat(np.arange(sizes.size), (m * sizes) // capacity)
    all_pieces = [Pieces(np.arange(owners.size), owners, np.full(owners.size, capacity))]
    n_opened = owners.size
    mass = remaining_mass(sizes, m)
    group_mass = np.bincount(groups, mass).astype(np.int64)
    for group in np.flatnonzero(group_mass > capacity):
        members = rng.permutation(np.flatnonzero(groups == group))
        n_full = int(group_mass[group] // capacity)
        pieces = fill_bins(members, mass[members], np.full(n_full, capacity))
        all_pieces.append(Pieces(n_opened + pieces.bin, pieces.client, pieces.mass))
        mass -= np.bincount(pieces.client, pieces.mass, minlength=mass.size).astype(np.int64)
        n_opened += n_full
    if n_opened < m:
        shared_bins = range(n_opened, m)
        all_pieces += _fill_shared_bins(mass, groups, capacity=capacity, bins=shared_bins, rng=rng)
    bins = np.concatenate([pieces.bin for pieces in all_pieces])
    clients = np.concatenate([pieces.client for pieces in all_pieces])
    masses = np.concatenate([pieces.mass for pieces in all_pieces])
    order = np.argsort(bins, kind="stable")
    return Bins(bins[order], clients[order], masses[order], capacity)


def _fill_shared_bins(mass: Ids, groups: Ids, *, capacity: int, bins: range, rng: np.random.Generator) -> list[Pieces]:
    """Fill these bins: each with one of the heaviest groups, then with the other groups, the lightest first."""
    group_mass = np.bincount(groups, mass).astype(np.int64)
    lowest_member = np.zeros(group_mass.size, np.int64)
    lowest_member[groups[::-1]] = np.arange(groups.size)[::-1]  # which breaks ties
    ascending = np.lexsort((lowest_member, group_mass))
    heaviest = ascending[group_mass.size - len(bins) :]
    bin_of_group = np.full(group_mass.size, -1)
    bin_of_group[heaviest] = np.arange(bins.start, bins.stop)
    opens_bin = bin_of_group[groups] >= 0
    openers = np.flatnonzero(opens_bin & (mass > 0))
    fillers = np.flatnonzero(~opens_bin & (mass > 0))
    all_pieces = [Pieces(bin_of_group[groups[openers]], openers, mass[openers])]
    if fillers.size:
        rank = np.argsort(ascending)[groups[fillers]]
        fillers = fillers[np.lexsort((rng.random(fillers.size), rank))]  # shuffled inside a group
        pieces = fill_bins(fillers, mass[fillers], capacity - group_mass[heaviest])
        all_pieces.append(Pieces(bins.start + pieces.bin, pieces.client, pieces.mass))
    return all_pieces

"""The best set of a given size by single gains and pairwise distances: p-dispersion with a diagonal (Pisinger 1999).

    max  Σ_{i∈S} gain_i + weight · Σ_{i<j∈S} distance[kind_i, kind_j]      over |S| = places

Candidates of one kind are interchangeable but for their gains, so a set is a number of members per kind, each kind
giving its best first. Where every candidate is a kind of its own, this is the plain problem; where a million fall into
a few hundred kinds, it costs no more than those.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.ties import grid_step

ENUMERATED = 3_000  # sets that are tried one by one
CELLS = 1_000_000  # (start, member, kind) triples looked at in one step; fewer starts where there are more
FINEST = 2.0**-51  # of the largest sum: on a coarser grid sums are exact, so that a tie is a tie on every machine


@dataclass(frozen=True)
class Solution:
    """Positions of the chosen among the candidates, the objective, and how it was found."""

    members: Ids
    value: float
    solver: str  # "all", "exact", "search" or "time limit"


def disperse(
    kind: Ids,
    gain: Floats,
    distance: Floats,
    weight: float,
    places: int,
    rng: np.random.Generator,
    *,
    starts: int = 32,
    time_limit: float = 5.0,
) -> Solution:
    """Return the best set that was found; ties are broken at random.

    Args:
        kind: (n,) the kind of each candidate, a row of ``distance``; −1 is the last row.
        gain: (n,) of each candidate.
        distance: (C, C) between kinds.
        weight: of distances.
        places: how many are chosen.
        rng: breaks ties and draws starts.
        starts: of the search.
        time_limit: of the search, in seconds.
    """
    present = np.flatnonzero(np.bincount(kind + 1)) - 1
    kind = np.searchsorted(present, kind)
    shuffled = rng.permutation(present.size)  # so that among equal kinds, and below among equal members, chance decides
    kind = np.argsort(shuffled)[kind]
    pair = weight * distance[np.ix_(present[shuffled], present[shuffled])]
    step = grid_step_of(pair, gain, min(places, kind.size))
    pair = round_to_step(pair, step)
    gain = round_to_step(gain, step)
    if places >= kind.size:
        members = np.arange(kind.size)
        solver = "all"
    elif math.comb(kind.size, places) <= ENUMERATED:
        members = _enumerate_sets(kind, gain, pair, places)
        solver = "exact"
    else:
        search = Search(pair, places, step, time.monotonic() + time_limit)
        members = _search_sets(search, kind, gain, starts=starts, rng=rng)
        solver = "time limit" if search.late else "search"
    return Solution(members, _objective(members, kind, gain, pair), solver)


def grid_step_of(pair: Floats, gain: Floats, places: int) -> float:
    """Return the grid's step: about 2⁻³² of the largest distance's weight, or the finest on which sums are exact."""
    largest_pair = float(np.abs(pair).max(initial=0.0))
    largest_gain = float(np.abs(gain).max(initial=0.0))
    if largest_pair <= 0:
        return grid_step(largest_gain)
    largest_sum = places * (largest_gain + places * largest_pair)
    return max(grid_step(largest_pair), grid_step(FINEST * largest_sum, 0))


def round_to_step(values: Floats, step: float) -> Floats:
    """Round values to multiples of the step."""
    return np.asarray(np.rint(values / step) * step)


def _objective(members: Ids, kind: Ids, gain: Floats, pair: Floats) -> float:
    kinds = kind[members]
    block = pair[np.ix_(kinds, kinds)]
    return float(gain[members].sum() + (block.sum() - np.trace(block)) / 2)


@lru_cache(maxsize=8)
def _all_sets(n: int, places: int) -> Ids:
    count = math.comb(n, places)
    flat = np.fromiter(chain.from_iterable(combinations(range(n), places)), np.int64, count * places)
    return flat.reshape(count, places)


def _enumerate_sets(kind: Ids, gain: Floats, pair: Floats, places: int) -> Ids:
    """Return the best of all sets, tried one by one."""
    sets = _all_sets(kind.size, places)
    between = pair[np.ix_(kind, kind)]
    value = gain[sets].sum(axis=1)
    for i, j in combinations(range(places), 2):
        value += between[sets[:, i], sets[:, j]]
    return np.asarray(sets[np.argmax(value)])


def _search_sets(search: Search, kind: Ids, gain: Floats, *, starts: int, rng: np.random.Generator) -> Ids:
    """Return the best set that the search finds: how many of each kind, and of these the best."""
    n_kinds = len(search.pair)
    narrow = kind
    if n_kinds < 2**15:
        narrow = kind.astype(np.int16)  # which numpy sorts in one pass
    order = np.lexsort((rng.random(kind.size), -gain, narrow))  # by kind, best first
    kind = kind[order]
    first = np.searchsorted(kind, np.arange(n_kinds))
    rank = np.arange(kind.size) - first[kind]
    n_starts = max(2, min(starts, CELLS // (search.places * n_kinds)))
    best = _best_gains(gain[order], kind, rank, n_kinds=n_kinds, places=search.places)
    counts = search.run(best, n_starts, rng)
    return np.sort(order[rank < counts[kind]])


def _best_gains(gain: Floats, kind: Ids, rank: Ids, *, n_kinds: int, places: int) -> Floats:
    """Return the gains of each kind's members (C, K + 1), best first; −∞ where there is none."""
    width = min(places, int(rank.max()) + 1)
    table = np.full((n_kinds, width + 1), -np.inf)
    is_within = rank < width
    table[kind[is_within], rank[is_within]] = gain[is_within]
    return table


class Search:
    """Greedy starts and best-improvement swaps, all R starts side by side, with maintained row sums.

    ``counts`` (R, C) are the members of each kind, ``reach`` (R, C) is Σ_{l∈S} pair[c, l], ``slots`` (R, M) the kinds
    of the members, and ``best`` (C, K + 1) the gains of each kind's members, best first.

    Attributes:
        late: whether the deadline ended the swaps.
    """

    def __init__(self, pair: Floats, places: int, step: float, deadline: float) -> None:
        self.pair = pair
        self.places = places
        self.step = step
        self.deadline = deadline
        self.late = False

    def run(self, best: Floats, starts: int, rng: np.random.Generator) -> Ids:
        """Return how many of each kind the best set has, shape (C,)."""
        counts, reach, slots = self._greedy(best, starts, rng)
        self._swap(best, counts, reach, slots)
        return np.asarray(counts[np.argmax(self._values(best, counts, reach))])

    def _values(self, best: Floats, counts: Ids, reach: Floats) -> Floats:
        """Return the objective of each start's set (R,)."""
        gains = np.where(np.isfinite(best), best, 0.0)
        sums = np.cumsum(np.pad(gains, ((0, 0), (1, 0))), axis=1)
        single = sums[np.arange(len(best)), counts].sum(axis=1)
        return np.asarray(single + ((reach - np.diag(self.pair)) * counts).sum(axis=1) / 2)

    def _greedy(self, best: Floats, starts: int, rng: np.random.Generator) -> tuple[Ids, Floats, Ids]:
        """Build the plain greedy set, the set of best gains, and greedy sets that begin with 1, 2, … random members."""
        n_kinds = len(best)
        row = np.arange(starts)
        counts = np.zeros((starts, n_kinds), np.int64)
        reach = np.zeros((starts, n_kinds))
        slots = np.empty((starts, self.places), np.int64)
        distance_factor = np.ones((starts, 1))
        distance_factor[1] = 0.0  # the second start looks at gains alone
        n_random = np.maximum(row - 1, 0) % (self.places + 1)
        for place in range(self.places):
            next_gain = best[np.arange(n_kinds), counts]
            score = next_gain + distance_factor * reach
            random = np.flatnonzero(place < n_random)
            if random.size:
                lot = rng.random((random.size, n_kinds))
                score[random] = np.where(np.isfinite(next_gain[random]), lot, -np.inf)
            pick = np.argmax(score, axis=1)
            slots[:, place] = pick
            counts[row, pick] += 1
            reach += self.pair[pick]
        return counts, reach, slots

    def _swap(self, best: Floats, counts: Ids, reach: Floats, slots: Ids) -> None:
        """Exchange one member while that gains: Δ = (in_j + r_j − p_ij) − (out_i + r_i − p_ii)."""
        active = np.arange(len(counts))
        kinds = np.arange(len(best))
        diagonal = np.diag(self.pair)
        while active.size:
            if time.monotonic() > self.deadline:
                self.late = True
                return
            row = np.arange(active.size)[:, None]
            members = slots[active]
            active_counts = counts[active]
            sums = reach[active]
            leaving = best[members, active_counts[row, members] - 1] + sums[row, members] - diagonal[members]
            delta = (best[kinds, active_counts] + sums)[:, None, :] - self.pair[members]
            delta -= leaving[:, :, None]
            flat = delta.reshape(active.size, -1)
            largest = np.argmax(flat, axis=1)
            improves = flat[row[:, 0], largest] > self.step / 2
            active = active[improves]
            place, joining = np.divmod(largest[improves], kinds.size)
            self._exchange(counts, reach, slots, active=active, place=place, joining=joining)

    def _exchange(self, counts: Ids, reach: Floats, slots: Ids, *, active: Ids, place: Array, joining: Array) -> None:
        """Exchange the member at a place of each active start for one of another kind."""
        leaving = slots[active, place]
        counts[active, leaving] -= 1
        counts[active, joining] += 1
        slots[active, place] = joining
        reach[active] += self.pair[joining] - self.pair[leaving]

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
from sortition.core.ties import grid

ENUMERATED = 3_000  # sets that are tried one by one
CELLS = 1_000_000  # (start, member, kind) triples looked at in one step; fewer starts where there are more
FINEST = 2.0**-51  # of the largest sum: on a coarser grid sums are exact, so that a tie is a tie on every machine


@dataclass(frozen=True)
class Solution:
    """Positions of the chosen among the candidates, the objective, and how it was found."""

    members: Ids
    value: float
    how: str  # "all", "exact", "search" or "time limit"


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
    """The best set found, ties at random. ``kind`` (n,) indexes the rows of ``distance`` (C, C); ``gain`` is (n,)."""
    present = np.flatnonzero(np.bincount(kind + 1)) - 1  # −1, the last row of distances, is a kind as well
    kind = np.searchsorted(present, kind)
    shuffled = rng.permutation(present.size)  # so that among equal kinds, and below among equal members, chance decides
    kind = np.argsort(shuffled)[kind]
    pair = weight * distance[np.ix_(present[shuffled], present[shuffled])]
    step = step_of(pair, gain, min(places, kind.size))
    pair, gain = on_grid(pair, step), on_grid(gain, step)
    if places >= kind.size:
        everyone = np.arange(kind.size)
        return Solution(everyone, _objective(everyone, kind, gain, pair), "all")
    if math.comb(kind.size, places) <= ENUMERATED:
        members = _enumerate(kind, gain, pair, places)
        return Solution(members, _objective(members, kind, gain, pair), "exact")
    narrow = kind.astype(np.int16) if present.size < 2**15 else kind  # which numpy sorts in one pass
    order = np.lexsort((rng.random(kind.size), -gain, narrow))  # by kind, best first
    first = np.searchsorted(kind[order], np.arange(present.size))
    best = _best(gain[order], kind[order], first, places)
    search = Search(best, pair, places, step, time.monotonic() + time_limit)
    taken = search.run(_starts(starts, places, present.size), rng)
    within = np.arange(kind.size) - first[kind[order]]
    members = np.sort(order[within < taken[kind[order]]])
    return Solution(members, _objective(members, kind, gain, pair), "time limit" if search.late else "search")


def step_of(pair: Floats, gain: Floats, places: int) -> float:
    """The grid's step: about 2⁻³² of the largest distance's weight, or the finest one on which all sums are exact."""
    far, near = float(np.abs(pair).max(initial=0.0)), float(np.abs(gain).max(initial=0.0))
    return max(grid(far), grid(FINEST * places * (near + places * far), 0)) if far > 0 else grid(near)


def on_grid(values: Floats, step: float) -> Floats:
    """Values rounded to multiples of the step."""
    return np.asarray(np.rint(values / step) * step)


def _objective(members: Ids, kind: Ids, gain: Floats, pair: Floats) -> float:
    own = kind[members]
    block = pair[np.ix_(own, own)]
    return float(gain[members].sum() + (block.sum() - np.trace(block)) / 2)


def _starts(starts: int, places: int, kinds: int) -> int:
    return max(2, min(starts, CELLS // (places * kinds)))


def _best(gain: Floats, kind: Ids, first: Ids, places: int) -> Floats:
    """(C, K + 1): the gains of each kind's members, best first; −∞ where there is none."""
    within = np.arange(kind.size) - first[kind]
    width = min(places, int(within.max()) + 1)
    table = np.full((first.size, width + 1), -np.inf)
    kept = within < width
    table[kind[kept], within[kept]] = gain[kept]
    return table


@lru_cache(maxsize=8)
def _sets(n: int, places: int) -> Ids:
    count = math.comb(n, places)
    flat = np.fromiter(chain.from_iterable(combinations(range(n), places)), np.int64, count * places)
    return flat.reshape(count, places)


def _enumerate(kind: Ids, gain: Floats, pair: Floats, places: int) -> Ids:
    sets = _sets(kind.size, places)
    between = pair[np.ix_(kind, kind)]
    value = gain[sets].sum(axis=1)
    for i, j in combinations(range(places), 2):
        value += between[sets[:, i], sets[:, j]]
    return np.asarray(sets[np.argmax(value)])


class Search:
    """Greedy starts and best-improvement swaps, all starts side by side, with maintained row sums.

    ``taken`` (R, C) counts the members of each kind, ``reach`` (R, C) is Σ_{l∈S} pair[c, l], ``slots`` (R, M) the kinds
    of the members.
    """

    def __init__(self, best: Floats, pair: Floats, places: int, step: float, deadline: float) -> None:
        self.best, self.pair, self.places, self.step, self.deadline = best, pair, places, step, deadline
        self.late = False

    def run(self, starts: int, rng: np.random.Generator) -> Ids:
        """How many of each kind the best set has, shape (C,)."""
        taken, reach, slots = self._greedy(starts, rng)
        self._swap(taken, reach, slots)
        return np.asarray(taken[np.argmax(self._values(taken, reach))])

    def _values(self, taken: Ids, reach: Floats) -> Floats:
        sums = np.cumsum(np.pad(np.where(np.isfinite(self.best), self.best, 0.0), ((0, 0), (1, 0))), axis=1)
        single = sums[np.arange(len(self.best)), taken].sum(axis=1)
        return np.asarray(single + ((reach - np.diag(self.pair)) * taken).sum(axis=1) / 2)

    def _greedy(self, starts: int, rng: np.random.Generator) -> tuple[Ids, Floats, Ids]:
        """The plain greedy set, the set of best gains, and greedy sets that begin with 1, 2, … random members."""
        kinds, row = len(self.best), np.arange(starts)
        taken, reach = np.zeros((starts, kinds), np.int64), np.zeros((starts, kinds))
        slots = np.empty((starts, self.places), np.int64)
        heeds = np.ones((starts, 1))
        heeds[1] = 0.0
        by_lot = np.maximum(row - 1, 0) % (self.places + 1)
        for place in range(self.places):
            free = self.best[np.arange(kinds), taken]
            score = free + heeds * reach
            random = np.flatnonzero(place < by_lot)
            if random.size:
                score[random] = np.where(np.isfinite(free[random]), rng.random((random.size, kinds)), -np.inf)
            pick = np.argmax(score, axis=1)
            slots[:, place] = pick
            taken[row, pick] += 1
            reach += self.pair[pick]
        return taken, reach, slots

    def _swap(self, taken: Ids, reach: Floats, slots: Ids) -> None:
        """One member out, one in, while that gains: Δ = (in_j + r_j − p_ij) − (out_i + r_i − p_ii)."""
        active = np.arange(len(taken))
        kinds = np.arange(len(self.best))
        own = np.diag(self.pair)
        while active.size:
            if time.monotonic() > self.deadline:
                self.late = True
                return
            members, have, sums = slots[active], taken[active], reach[active]
            row = np.arange(active.size)[:, None]
            leaving = self.best[members, have[row, members] - 1] + sums[row, members] - own[members]
            delta = (self.best[kinds, have] + sums)[:, None, :] - self.pair[members]
            delta -= leaving[:, :, None]
            flat = delta.reshape(active.size, -1)
            at = np.argmax(flat, axis=1)
            gains = flat[row[:, 0], at] > self.step / 2
            active, at = active[gains], at[gains]
            self._exchange(taken, reach, slots, active, *np.divmod(at, kinds.size))

    def _exchange(self, taken: Ids, reach: Floats, slots: Ids, active: Ids, place: Array, into: Array) -> None:
        out = slots[active, place]
        taken[active, out] -= 1
        taken[active, into] += 1
        slots[active, place] = into
        reach[active] += self.pair[into] - self.pair[out]

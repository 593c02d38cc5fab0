"""Facility location: choose k candidates so that everybody has one nearby (Cornuejols, Fisher and Nemhauser 1977).

Minimises Σ_i mass_i · min_{j∈S} d_ij + Σ_{j∈S} price_j. The drop from an imagined candidate that is as far from
everybody as the farthest real one (v0 of LongFed's eq. 25) is submodular, so greedy choice is within 1 − 1/e of the
best where prices are zero, and a candidate's saving never grows: lazy evaluation chooses as if it looked at all.
"""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.ties import grid, rounded

BATCH = 128  # candidates re-evaluated at once: one numpy call costs as much as a hundred short sums


def greedy_cover(distance: Floats, k: int, *, price: Floats | None = None, mass: Floats | None = None) -> Ids:
    """Positions of k candidates in the order of choice; ties go to the lowest position.

    Args:
        distance: (candidates, clients to be covered).
        k: how many; at most all.
        price: (candidates,) what choosing each adds to the sum, whoever else is chosen.
        mass: (clients,) how much each client's distance counts; default 1.
    """
    table = distance if mass is None else distance * mass
    price = np.zeros(len(table)) if price is None else price
    served = table.max(axis=0, initial=0.0)
    # two clients that are nearest to each other save the same, whatever the last bits are
    grain = grid(float(served.sum() + np.abs(price).max(initial=0.0)))
    bound = np.rint((marginal(table, served) + price) / grain)  # what c adds; later evaluations can only be larger
    chosen = np.empty(min(k, len(table)), np.int64)
    for step in range(chosen.size):
        fresh = np.full(len(table), step == 0)
        while not fresh[best := int(np.argmin(bound))] and np.isfinite(bound[best]):
            stale = np.argpartition(bound, BATCH)[:BATCH] if bound.size > BATCH else np.arange(bound.size)
            stale = np.append(stale[np.isfinite(bound[stale])], best)  # of many that tie it may not be among those
            bound[stale] = np.rint((marginal(table[stale], served) + price[stale]) / grain)
            fresh[stale] = True
        chosen[step], bound[best] = best, np.inf
        np.minimum(served, table[best], out=served)
    return chosen


def stochastic_cover(distance: Floats, k: int, sample: int, rng: np.random.Generator) -> Ids:
    """The same, each step looking at a random ``sample`` of the remaining candidates (Mirzasoleiman et al. 2015)."""
    served = distance.max(axis=0, initial=0.0)
    left, grain = np.arange(len(distance)), grid(float(served.sum()))
    chosen = np.empty(min(k, left.size), np.int64)
    for step in range(chosen.size):
        look = np.sort(rng.choice(left, size=min(max(sample, 1), left.size), replace=False))
        chosen[step] = look[np.argmin(np.rint(marginal(distance[look], served) / grain))]
        left = left[left != chosen[step]]
        np.minimum(served, distance[chosen[step]], out=served)
    return chosen


def marginal(rows: Array, served: Floats) -> Floats:
    """Σ_i min(served_i, d_ic) − served_i for each candidate row: never positive."""
    return np.asarray(np.minimum(rows, served).sum(axis=1) - served.sum())


def represented_mass(distance: Floats, mass: Floats | None = None) -> Floats:
    """How much mass each of the chosen stands for: C_j are those nearest to j (LongFed's a_j = |C_j|).

    ``distance`` is (chosen, clients); a client that is equally near to two counts for the first.
    """
    return np.bincount(nearest_of(distance), weights=mass, minlength=len(distance)).astype(np.float64)


def nearest_of(distance: Floats) -> Ids:
    """The row of the chosen client that is nearest to each client, the first one of equals; (chosen, clients)."""
    return np.asarray(np.argmin(rounded(distance, float(distance.max(initial=0.0))), axis=0), np.int64)

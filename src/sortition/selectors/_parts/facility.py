"""Facility location: choose k candidates so that everybody has one nearby (Cornuejols, Fisher and Nemhauser 1977).

Minimises Σ_i mass_i · min_{j∈S} d_ij + Σ_{j∈S} price_j. The drop from an imagined candidate that is as far from
everybody as the farthest real one (v0 of LongFed's eq. 25) is submodular, so greedy choice is within 1 − 1/e of the
best where prices are zero, and a candidate's saving never grows: lazy evaluation chooses as if it looked at all.
"""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.ties import grid_step, round_to_tie_grid

BATCH = 128  # candidates re-evaluated at once: one numpy call costs as much as a hundred short sums


def greedy_cover(distance: Floats, k: int, *, price: Floats | None = None, mass: Floats | None = None) -> Ids:
    """Return positions of k candidates in the order of choice; ties go to the lowest position.

    Args:
        distance: (candidates, clients to be covered).
        k: how many; at most all.
        price: (candidates,) what choosing each adds to the sum, whoever else is chosen; default 0.
        mass: (clients,) how much each client's distance counts; default 1.
    """
    table = distance if mass is None else distance * mass
    if price is None:
        price = np.zeros(len(table))
    served = table.max(axis=0, initial=0.0)
    # two clients that are nearest to each other save the same, whatever the last bits are
    grain = grid_step(float(served.sum() + np.abs(price).max(initial=0.0)))
    cost = np.rint(
        (marginal_costs(table, served) + price) / grain
    )  # of each candidate; later evaluations are never smaller
    chosen = np.empty(min(k, len(table)), np.int64)
    for step in range(chosen.size):
        fresh = np.full(len(table), step == 0)
        while not fresh[best := int(np.argmin(cost))] and np.isfinite(cost[best]):
            stale = np.arange(cost.size)
            if cost.size > BATCH:
                stale = np.argpartition(cost, BATCH)[:BATCH]
            stale = np.append(stale[np.isfinite(cost[stale])], best)  # of many that tie, it may not be among those
            cost[stale] = np.rint((marginal_costs(table[stale], served) + price[stale]) / grain)
            fresh[stale] = True
        chosen[step] = best
        cost[best] = np.inf
        np.minimum(served, table[best], out=served)
    return chosen


def stochastic_cover(distance: Floats, k: int, sample: int, rng: np.random.Generator) -> Ids:
    """Choose as :func:`greedy_cover`, each step among a random ``sample`` of candidates (Mirzasoleiman et al. 2015)."""
    served = distance.max(axis=0, initial=0.0)
    grain = grid_step(float(served.sum()))
    remaining = np.arange(len(distance))
    chosen = np.empty(min(k, remaining.size), np.int64)
    for step in range(chosen.size):
        candidates = np.sort(rng.choice(remaining, size=min(max(sample, 1), remaining.size), replace=False))
        cost = np.rint(marginal_costs(distance[candidates], served) / grain)
        best = candidates[np.argmin(cost)]
        chosen[step] = best
        remaining = remaining[remaining != best]
        np.minimum(served, distance[best], out=served)
    return chosen


def marginal_costs(rows: Array, served: Floats) -> Floats:
    """Return Σ_i min(served_i, d_ic) − served_i for each candidate's row: never positive."""
    return np.asarray(np.minimum(rows, served).sum(axis=1) - served.sum())


def represented_mass(distance: Floats, mass: Floats | None = None) -> Floats:
    """Return how much mass each of the chosen stands for: C_j are those nearest to j (LongFed's a_j = |C_j|).

    ``distance`` is (chosen, clients); a client that is equally near to two counts for the first.
    """
    return np.bincount(nearest_chosen(distance), weights=mass, minlength=len(distance)).astype(np.float64)


def nearest_chosen(distance: Floats) -> Ids:
    """Return the row of the chosen client that is nearest to each client, the first of equals; (chosen, clients)."""
    return np.asarray(np.argmin(round_to_tie_grid(distance, float(distance.max(initial=0.0))), axis=0), np.int64)

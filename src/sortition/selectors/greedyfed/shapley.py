"""Shapley values of the members of a cohort: exact, and by guided truncated permutations (GTG-Shapley)."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np

from sortition.core.arrays import Floats

Value = Callable[[frozenset[int]], float]  # of a set of players 0 … n − 1
FEWEST = 30  # permutations, at least
RECENT = 10  # running means that are compared
CLOSE = 0.05  # how near to the newest the recent means must be, relative to it


def cache_values(value: Value) -> Value:
    """Return a function with the same values that computes each of them once."""
    value_of: dict[frozenset[int], float] = {}

    def look_up(players: frozenset[int]) -> float:
        if players not in value_of:
            value_of[players] = value(players)
        return value_of[players]

    return look_up


def exact_values(value: Value, n: int) -> Floats:
    """Return φ_k = Σ_{S ∌ k} abs(S)! (n − abs(S) − 1)! / n! · (v(S ∪ k) − v(S)), from 2ⁿ values."""
    value = cache_values(value)
    phi = np.zeros(n)
    for k in range(n):
        other_players = [player for player in range(n) if player != k]
        for size in range(n):
            share = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
            for S in combinations(other_players, size):
                phi[k] += share * (value(frozenset((*S, k))) - value(frozenset(S)))
    return phi


def gtg_values(value: Value, n: int, rng: np.random.Generator, *, between: float, within: float, most: int) -> Floats:
    """Average marginals over permutations that each player leads in turn, until the mean settles.

    This is GTG-Shapley (Liu et al. 2022).

    Args:
        value: of a set of players.
        n: number of players.
        rng: draws the permutations.
        between: ε_b; if all players together change the value by no more than this, everybody's is 0.
        within: ε_i; a permutation ends where less than this remains to be gained.
        most: permutations at most, in whole turns of n.
    """
    value = cache_values(value)
    everybody = frozenset(range(n))
    if abs(value(everybody) - value(frozenset())) <= between:
        return np.zeros(n)
    total = np.zeros(n)
    recent_means: list[Floats] = []
    count = 0
    while count == 0 or (count + n <= most and not has_settled(recent_means, count, n)):
        for leader in range(n):
            followers = rng.permutation(np.delete(np.arange(n), leader))
            total += marginal_values(value, [leader, *followers.tolist()], within)
            count += 1
            recent_means = [*recent_means[1 - RECENT :], total / count]
    return total / count


def marginal_values(value: Value, order: list[int], tolerance: float) -> Floats:
    """Return how much each player adds to the value of those before it in this order, (n,).

    Once all that are left could change the value by less than the tolerance, they count as adding 0.
    """
    marginal = np.zeros(len(order))
    joined: frozenset[int] = frozenset()
    value_of_all = value(frozenset(order))
    value_so_far = value(joined)
    for player in order:
        if abs(value_of_all - value_so_far) < tolerance:
            break
        joined |= {player}
        value_with = value(joined)
        marginal[player] = value_with - value_so_far
        value_so_far = value_with
    return marginal


def has_settled(recent_means: list[Floats], count: int, n: int) -> bool:
    """Tell whether the last running means are near to the newest, player by player."""
    if count < max(FEWEST, n) or len(recent_means) < RECENT:
        return False
    newest = recent_means[-1]
    changes = [float(np.mean(np.abs(newest - mean) / (np.abs(newest) + 1e-12))) for mean in recent_means]
    return max(changes) <= CLOSE

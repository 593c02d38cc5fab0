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


def cached(value: Value) -> Value:
    """Return the same function, which is computed once a set."""
    value_of: dict[frozenset[int], float] = {}

    def look_up(players: frozenset[int]) -> float:
        if players not in value_of:
            value_of[players] = value(players)
        return value_of[players]

    return look_up


def exact(value: Value, n: int) -> Floats:
    """Return φ_k = Σ_{S ∌ k} abs(S)! (n − abs(S) − 1)! / n! · (v(S ∪ k) − v(S)), from 2ⁿ values."""
    value = cached(value)
    phi = np.zeros(n)
    for k in range(n):
        others = [player for player in range(n) if player != k]
        for size in range(n):
            share = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
            for S in combinations(others, size):
                phi[k] += share * (value(frozenset((*S, k))) - value(frozenset(S)))
    return phi


def gtg(value: Value, n: int, rng: np.random.Generator, *, between: float, within: float, most: int) -> Floats:
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
    value = cached(value)
    everybody = frozenset(range(n))
    if abs(value(everybody) - value(frozenset())) <= between:
        return np.zeros(n)
    total = np.zeros(n)
    recent_means: list[Floats] = []
    count = 0
    while count == 0 or (count + n <= most and not settled(recent_means, count, n)):
        for leader in range(n):
            followers = rng.permutation(np.delete(np.arange(n), leader))
            total += marginals(value, [leader, *followers.tolist()], within)
            count += 1
            recent_means = [*recent_means[1 - RECENT :], total / count]
    return total / count


def marginals(value: Value, order: list[int], within: float) -> Floats:
    """Return what each player adds in this order; nothing, once the others could add less than ``within``."""
    marginal = np.zeros(len(order))
    joined: frozenset[int] = frozenset()
    value_of_all = value(frozenset(order))
    value_so_far = value(joined)
    for player in order:
        if abs(value_of_all - value_so_far) < within:
            break
        joined |= {player}
        value_with = value(joined)
        marginal[player] = value_with - value_so_far
        value_so_far = value_with
    return marginal


def settled(recent_means: list[Floats], count: int, n: int) -> bool:
    """Say whether the last running means are near to the newest, player by player."""
    if count < max(FEWEST, n) or len(recent_means) < RECENT:
        return False
    newest = recent_means[-1]
    changes = [float(np.mean(np.abs(newest - mean) / (np.abs(newest) + 1e-12))) for mean in recent_means]
    return max(changes) <= CLOSE

"""Shapley values of the members of a cohort: exact, and by guided truncated permutations (GTG-Shapley)."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np

from sortition.core.arrays import Floats

Value = Callable[[frozenset[int]], float]  # of a set of players 0 … n − 1
LEAST, RECENT, CLOSE = 30, 10, 0.05  # permutations at least; running means that are compared; how near they must be


def cached(value: Value) -> Value:
    """The same function, computed once a set."""
    known: dict[frozenset[int], float] = {}

    def look_up(players: frozenset[int]) -> float:
        if players not in known:
            known[players] = value(players)
        return known[players]

    return look_up


def exact(value: Value, n: int) -> Floats:
    """φ_k = Σ_{S ∌ k} abs(S)! (n − abs(S) − 1)! / n! · (v(S ∪ k) − v(S)): 2ⁿ values."""
    value, found = cached(value), np.zeros(n)
    for k in range(n):
        others = [i for i in range(n) if i != k]
        for size in range(n):
            share = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
            for chosen in combinations(others, size):
                found[k] += share * (value(frozenset((*chosen, k))) - value(frozenset(chosen)))
    return found


def gtg(value: Value, n: int, rng: np.random.Generator, *, between: float, within: float, most: int) -> Floats:
    """GTG-Shapley (Liu et al. 2022): permutations that each player leads in turn, until their mean stays.

    Args:
        value: of a set of players.
        n: players.
        rng: draws the permutations.
        between: if all players together change the value by no more than this, everybody's is 0.
        within: a permutation ends where what is left to gain is less than this.
        most: permutations at most, in whole turns of n.
    """
    value, everybody = cached(value), frozenset(range(n))
    if abs(value(everybody) - value(frozenset())) <= between:
        return np.zeros(n)
    total, recent, count = np.zeros(n), list[Floats](), 0
    while count == 0 or (count + n <= most and not settled(recent, count, n)):
        for first in range(n):
            rest = rng.permutation(np.delete(np.arange(n), first))
            total += marginals(value, [first, *rest.tolist()], within)
            count += 1
            recent = [*recent[1 - RECENT :], total / count]
    return total / count


def marginals(value: Value, order: list[int], within: float) -> Floats:
    """What each player adds in this order; nothing, where the rest could add less than ``within``."""
    found, whole, joined = np.zeros(len(order)), value(frozenset(order)), frozenset[int]()
    before = value(joined)
    for player in order:
        if abs(whole - before) < within:
            break
        joined |= {player}
        after = value(joined)
        found[player], before = after - before, after
    return found


def settled(recent: list[Floats], count: int, n: int) -> bool:
    """Whether the last running means are near to the newest, player by player."""
    if count < max(LEAST, n) or len(recent) < RECENT:
        return False
    newest = recent[-1]
    return max(float(np.mean(np.abs(newest - one) / (np.abs(newest) + 1e-12))) for one in recent) <= CLOSE

"""A random generator that goes through all outcomes instead of drawing one: expectations by enumeration, exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import InputError

MOST_OUTCOMES = 1_000_000  # more is a task for simulation


class EveryOutcome:
    """Stands in for ``numpy.random.Generator`` where all draws are choices among finitely many equally likely ones.

    ``for _ in draws.outcomes(): f(rng=draws)`` calls f once for each sequence of draws; ``draws.chance`` is the
    probability of that sequence. Continuous draws are refused: there is nothing to enumerate.
    """

    def __init__(self) -> None:
        self._branches: list[int] = []  # which branch was taken at each draw
        self._n_branches: list[int] = []  # of how many
        self._n_draws = 0  # made in this outcome so far

    def outcomes(self) -> Iterator[None]:
        """Yield once for every sequence of draws."""
        self._branches = []
        self._n_branches = []
        for _ in range(MOST_OUTCOMES):
            self._n_draws = 0
            yield
            del self._branches[self._n_draws :]
            del self._n_branches[self._n_draws :]
            while self._branches and self._branches[-1] + 1 == self._n_branches[-1]:  # no branch is left at this draw
                self._branches.pop()
                self._n_branches.pop()
            if not self._branches:
                return
            self._branches[-1] += 1
        raise InputError(f"EveryOutcome must go through at most {MOST_OUTCOMES} outcomes; got more. Simulate instead.")

    @property
    def chance(self) -> float:
        """The probability of the draws made in this outcome so far."""
        return 1.0 / math.prod(self._n_branches[: self._n_draws])

    def _branch(self, n_branches: int) -> int:
        """Return which branch this outcome takes at its next draw; a draw that is met first takes branch 0."""
        if self._n_draws == len(self._branches):
            self._branches.append(0)
            self._n_branches.append(n_branches)
        self._n_draws += 1
        return self._branches[self._n_draws - 1]

    def choice(self, a: int | Sequence[Any] | Array, size: int | None = None, replace: bool = True, **_: object) -> Any:
        """Choose sets of ``size`` out of a (or out of range(a)), or one item if no size is given."""
        items = _items(a)
        if size is None:
            return items[self._branch(len(items))]
        if replace:
            return np.array([items[self._branch(len(items))] for _ in range(size)])
        branch = self._branch(math.comb(len(items), size))
        positions = _nth(itertools.combinations(range(len(items)), size), branch)
        return items[list(positions)]

    def permutation(self, x: int | Sequence[Any] | Array) -> Array:
        """Return an order of x (or of range(x))."""
        items = _items(x)
        branch = self._branch(math.factorial(len(items)))
        positions = _nth(itertools.permutations(range(len(items))), branch)
        return items[list(positions)]

    def integers(self, low: int, high: int | None = None, **_: object) -> int:
        """Return a whole number from low to below high, or from 0 to below low."""
        if high is None:
            return self._branch(low)
        return low + self._branch(high - low)

    def __getattr__(self, name: str) -> NoReturn:
        raise InputError(f"EveryOutcome must be asked for choices only; got rng.{name}. Simulate this method instead.")


def _items(a: int | Sequence[Any] | Array) -> Array:
    if isinstance(a, int | np.integer):
        return np.arange(a)
    return np.asarray(a)


def _nth(positions: Iterator[tuple[int, ...]], n: int) -> tuple[int, ...]:
    return next(itertools.islice(positions, n, None))

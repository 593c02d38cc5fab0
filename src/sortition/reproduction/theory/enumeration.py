"""A random generator that goes through all outcomes instead of drawing one: expectations by enumeration, exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import InputError

MOST = 1_000_000  # outcomes; more is a task for simulation


class EveryOutcome:
    """Stands in for ``numpy.random.Generator`` where all draws are choices among finitely many equally likely ones.

    ``for _ in draws.outcomes(): f(rng=draws)`` calls f once for each sequence of draws; ``draws.chance`` is that one's
    probability. Continuous draws are refused: there is nothing to enumerate.
    """

    def __init__(self) -> None:
        self._path: list[int] = []  # which branch was taken at each draw
        self._ways: list[int] = []  # of how many
        self._at = 0

    def outcomes(self) -> Iterator[None]:
        """Once for every sequence of draws."""
        self._path, self._ways = [], []
        for _ in range(MOST):
            self._at = 0
            yield
            del self._path[self._at :], self._ways[self._at :]
            while self._path and self._path[-1] + 1 == self._ways[-1]:  # the last draw that has a branch left
                self._path.pop()
                self._ways.pop()
            if not self._path:
                return
            self._path[-1] += 1
        raise InputError(f"EveryOutcome must go through at most {MOST} outcomes; got more. Simulate instead.")

    @property
    def chance(self) -> float:
        """The probability of the draws made in this outcome so far."""
        return 1.0 / math.prod(self._ways[: self._at])

    def _branch(self, ways: int) -> int:
        if self._at == len(self._path):
            self._path.append(0)
            self._ways.append(ways)
        self._at += 1
        return self._path[self._at - 1]

    def choice(self, a: Any, size: Any = None, replace: bool = True, **_: Any) -> Any:
        """Sets of ``size`` out of a (or out of range(a)), or one if no size is given."""
        items = np.arange(a) if isinstance(a, int | np.integer) else np.asarray(a)
        if size is None:
            return items[self._branch(len(items))]
        if replace:
            return np.array([items[self._branch(len(items))] for _ in range(size)])
        which = self._branch(math.comb(len(items), size))
        return items[list(next(itertools.islice(itertools.combinations(range(len(items)), size), which, None)))]

    def permutation(self, x: Any) -> Array:
        """Orders of x (or of range(x))."""
        items = np.arange(x) if isinstance(x, int | np.integer) else np.asarray(x)
        which = self._branch(math.factorial(len(items)))
        return items[list(next(itertools.islice(itertools.permutations(range(len(items))), which, None)))]

    def integers(self, low: int, high: int | None = None, **_: Any) -> int:
        """Whole numbers from low (or 0) to below high (or low)."""
        start, stop = (0, low) if high is None else (low, high)
        return start + self._branch(stop - start)

    def __getattr__(self, name: str) -> Any:
        raise InputError(f"EveryOutcome must be asked for choices only; got rng.{name}. Simulate this method instead.")

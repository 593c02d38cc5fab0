from __future__ import annotations

import itertools

import pytest

from sortition.core import InputError
from sortition.reproduction.theory.enumeration import EveryOutcome


def test_goes_through_all_sequences_of_draws_once():
    draws, seen, total = EveryOutcome(), [], 0.0
    for _ in draws.outcomes():
        first = int(draws.integers(3))
        pair = tuple(draws.choice(4, size=2, replace=False).tolist()) if first else ()  # later draws may depend
        seen.append((first, pair))
        total += draws.chance
    pairs = list(itertools.combinations(range(4), 2))
    assert seen == [(0, ()), *[(1, p) for p in pairs], *[(2, p) for p in pairs]]
    assert total == pytest.approx(1)


def test_orders_and_repeated_draws():
    draws = EveryOutcome()
    assert len({tuple(draws.permutation(3).tolist()) for _ in draws.outcomes()}) == 6
    assert len([draws.choice([5, 7], size=3).tolist() for _ in draws.outcomes()]) == 8
    assert sorted(int(draws.choice([5, 7])) for _ in draws.outcomes()) == [5, 7]


def test_a_function_that_draws_nothing_is_called_once():
    draws = EveryOutcome()
    assert [draws.chance for _ in draws.outcomes()] == [1.0]


def test_continuous_draws_are_refused():
    with pytest.raises(InputError, match=r"rng\.normal"):
        EveryOutcome().normal()

from __future__ import annotations

import numpy as np
import pytest

from sortition.core import Population, Registrar
from sortition.selectors import load

SIZES = np.array([50, 20, 15, 10, 5])


def expected_weight(available, rounds=3000, **parameters):
    registrar, total = Registrar(load("by-size", **parameters), Population(SIZES)), np.zeros(5)
    for _ in range(rounds):
        turn = registrar.begin(available, 3)
        total[turn.cohort.ids] += turn.cohort.weights
        registrar.finish(turn)
    return total / rounds


def test_unbiased_when_everybody_is_there():
    assert expected_weight(range(5)) == pytest.approx(SIZES / 100, abs=0.02)


def test_renormalised_over_the_available():
    assert expected_weight([1, 3, 4]) == pytest.approx([0, 20 / 35, 0, 10 / 35, 5 / 35], abs=0.03)


def test_a_client_drawn_twice_trains_once_and_counts_twice():
    registrar = Registrar(load("by-size"), Population([1, 0, 0]))
    cohort = registrar.begin([0, 1, 2], 3).cohort
    assert cohort.ids.tolist() == [0]
    assert cohort.weights.tolist() == [1.0]


def test_more_draws_than_clients():
    registrar = Registrar(load("by-size"), Population([1, 1]))
    assert registrar.begin([0, 1], 10).cohort.weights.sum() == pytest.approx(1.0)


def test_lost_draws():
    registrar = Registrar(load("by-size", lost=True), Population([1, 0]))
    turn = registrar.begin([1], 4)  # every draw hits client 0, who is away
    assert turn.cohort.ids.size == 0
    assert turn.cohort.notes == {"lost": 4, "shortfall": 3}  # one of four places could have been filled


def test_a_client_drawn_twice_may_count_once():
    """The draws are the same; only the weights differ: 1 / the number of distinct clients."""
    once = Registrar(load("by-size", repeats="once"), Population(SIZES), seed=3)
    counted = Registrar(load("by-size"), Population(SIZES), seed=3)
    repeated = False
    for _ in range(20):
        turns = once.begin(range(5), 4), counted.begin(range(5), 4)
        equal, weighted = (turn.cohort for turn in turns)
        assert equal.ids.tolist() == weighted.ids.tolist()
        assert equal.weights == pytest.approx(np.full(equal.ids.size, 1 / equal.ids.size))
        repeated |= not np.allclose(equal.weights, weighted.weights)
        once.finish(turns[0])
        counted.finish(turns[1])
    assert repeated


def test_lost_draws_that_count_once():
    registrar = Registrar(load("by-size", lost=True, repeats="once"), Population([1, 0]))
    assert registrar.begin([1], 4).cohort.notes["lost"] == 4

from __future__ import annotations

import numpy as np
import pytest

from sortition.core import Population, Reading, Registrar
from sortition.selectors import load


def choose(selector, sizes, available, budget, loss, seed=0, silent=()):
    registrar = Registrar(selector, Population(sizes), seed=seed)
    turn = registrar.begin(available, budget)
    asked = turn.question.ids
    answering = np.array([k for k in asked if k not in silent], dtype=np.int64)
    turn.answer(Reading(answering, loss[answering]))
    return asked, turn.cohort


LOSS = np.linspace(5, 1, 50)  # the lowest ids are served worst


def test_all_candidates_gives_the_largest_losses():
    _, cohort = choose(load("power-of-choice", d=50), np.ones(50), range(50), 5, LOSS)
    assert cohort.ids.tolist() == [0, 1, 2, 3, 4]
    assert cohort.weights.tolist() == [0.2] * 5


def test_the_losses_of_candidates_are_never_read_as_positions_among_the_available():
    # A public port ranks the candidates and indexes the list of available clients with those ranks,
    # which is right only if d = |A|. Here d < |A| and ids are no positions.
    for seed in range(20):
        asked, cohort = choose(load("power-of-choice", d=8), np.ones(50), range(20, 50), 3, LOSS, seed)
        assert asked.size == 8
        assert set(cohort.ids) <= set(asked)
        assert cohort.ids.tolist() == sorted(asked)[:3]


def test_equal_losses_are_different_clients():
    # another public code identifies a client by its loss value
    drawn = set()
    for seed in range(40):
        _, cohort = choose(load("power-of-choice", d=10), np.ones(10), range(10), 2, np.ones(10), seed)
        assert len(set(cohort.ids.tolist())) == 2
        drawn.update(cohort.ids.tolist())
    assert drawn == set(range(10))  # ties are broken by lot


def test_d_equal_to_m_is_sampling_by_size():
    sizes = np.array([1, 1, 1, 97])
    hits = sum(3 in choose(load("power-of-choice", d=1), sizes, range(4), 1, LOSS, s)[1].ids for s in range(200))
    assert hits / 200 == pytest.approx(0.97, abs=0.04)


def test_a_d_below_the_budget_counts_as_the_budget():
    asked, cohort = choose(load("power-of-choice", d=2), np.ones(50), range(50), 5, LOSS)
    assert sorted(asked) == sorted(cohort.ids)
    assert cohort.ids.size == 5
    assert "below the budget" in (type(load("power-of-choice")).__doc__ or "")


def test_shifting_all_losses_changes_nothing():
    for seed in range(5):
        one = choose(load("power-of-choice", d=9), np.ones(50), range(50), 4, LOSS, seed)[1]
        two = choose(load("power-of-choice", d=9), np.ones(50), range(50), 4, LOSS + 7, seed)[1]
        assert one.ids.tolist() == two.ids.tolist()


def test_fewer_positive_sizes_than_candidates():
    sizes = np.zeros(10)
    sizes[3] = 5
    asked, cohort = choose(load("power-of-choice", d=6), sizes, range(10), 2, LOSS)
    assert 3 in asked
    assert cohort.ids.size == 2


def test_silent_candidates_are_last():
    _, cohort = choose(load("power-of-choice", d=5), np.ones(5), range(5), 3, LOSS, silent=(0, 1, 2))
    assert set(cohort.ids[:2].tolist()) == {3, 4}
    assert cohort.ids.size == 3


def test_default_d_is_twice_the_budget_and_never_less_than_it():
    asked, _ = choose(load("power-of-choice"), np.ones(50), range(50), 5, LOSS)
    assert asked.size == 10
    asked, _ = choose(load("power-of-choice", d=2), np.ones(50), range(50), 5, LOSS)
    assert asked.size == 5


def test_rpow_d_asks_nothing_and_visits_who_never_trained():
    registrar = Registrar(load("power-of-choice", variant="rpow-d", d=6), Population(np.ones(6)))
    seen = []
    for _ in range(3):
        turn = registrar.begin(range(6), 2)
        assert turn.question is None
        seen += turn.cohort.ids.tolist()
        registrar.finish(turn, reports={"training-loss": 1.0 + turn.cohort.ids})
    assert sorted(seen) == list(range(6))  # +∞ until first met
    turn = registrar.begin(range(6), 2)
    assert turn.cohort.ids.tolist() == [5, 4]

from __future__ import annotations

import numpy as np
import pytest

from sortition.core import Population, Reading, Registrar
from sortition.selectors import load


def registrar_of(sizes, seed=0, **parameters):
    return Registrar(load("active", **parameters), Population(sizes), seed=seed)


def turn_of(registrar, available, budget, loss):
    turn = registrar.begin(available, budget)
    if turn.question is not None:
        turn.answer(Reading(turn.question.ids, loss[turn.question.ids]))
    return turn


def test_the_valuation_is_root_n_times_the_mean_loss():
    registrar = registrar_of(np.array([4, 9]))
    registrar.finish(turn_of(registrar, [0, 1], 1, np.array([1.0, 2.0])), reports={})
    assert registrar.state.value.tolist() == [2.0, 6.0]


def test_everybody_is_asked_once_then_only_participants_refresh():
    registrar = registrar_of(np.ones(8))
    turn = turn_of(registrar, [0, 1, 2], 2, np.ones(8))
    registrar.finish(turn, reports={"loss": np.array([5.0, 6.0])})
    assert registrar.state.value[turn.cohort.ids].tolist() == [5.0, 6.0]
    turn = registrar.begin(range(8), 2)
    assert turn.question.ids.tolist() == [3, 4, 5, 6, 7]  # met for the first time


@pytest.mark.parametrize(("budget", "by_value"), [(5, 4), (10, 9)])
def test_draws_by_value_and_uniformly(budget, by_value):
    # ⌊(1 − 0.1)·5⌋ = 4 and 1 at random; ⌊0.9·10⌋ = 9 and 1
    loss = np.arange(40.0) * 100  # a softmax this sharp takes the largest
    hits = np.zeros(40)
    for seed in range(30):
        registrar = registrar_of(np.ones(40), seed, alpha1=0.75, alpha2=1.0)
        cohort = turn_of(registrar, range(40), budget, loss).cohort
        assert cohort.ids.size == budget
        assert (cohort.ids >= 30).sum() >= by_value  # ⌊0.75·40⌋ = 30 lowest enter only through the uniform part
        assert cohort.ids[:by_value].min() >= 30
        hits[cohort.ids[by_value:]] += 1
    assert hits[:30].sum() > 0


def test_dropping_the_share_alpha1_not_keeping_it():
    # a public port keeps 75 % where 75 % are to be dropped
    loss = np.arange(100.0)
    for seed in range(20):
        registrar = registrar_of(np.ones(100), seed, alpha1=0.75, alpha2=0.0, alpha3=0.0)
        assert turn_of(registrar, range(100), 10, loss).cohort.ids.min() >= 75


@pytest.mark.parametrize("parameters", [{"alpha1": 0.0, "alpha2": 0.0, "alpha3": 0.0}, {"alpha3": 1.0}])
def test_limits_are_uniform(parameters):
    loss, hits = np.arange(10.0), np.zeros(10)
    for seed in range(800):
        hits[turn_of(registrar_of(np.ones(10), seed, **parameters), range(10), 3, loss).cohort.ids] += 1
    assert hits / 800 == pytest.approx([0.3] * 10, abs=0.06)


def test_few_clients_raise_the_kept_number():
    cohort = turn_of(registrar_of(np.ones(4), alpha1=0.9, alpha3=0.0), range(4), 3, np.arange(4.0)).cohort
    assert sorted(cohort.ids.tolist()) == [1, 2, 3]


def test_huge_valuations_do_not_overflow():
    cohort = turn_of(registrar_of(np.full(6, 10**8), alpha2=1.0), range(6), 3, np.arange(6.0) * 1e6).cohort
    assert np.isfinite(cohort.weights).all()


def test_who_never_answered_is_never_drawn_by_value():
    registrar = registrar_of(np.ones(6), alpha1=0.0, alpha3=0.0)
    turn = registrar.begin(range(6), 2)
    turn.answer({1: 1.0, 2: 1.0})
    assert sorted(turn.cohort.ids.tolist()) == [1, 2]

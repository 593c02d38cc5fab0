from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.playing import play
from tests.reference.refl_literal import REFL

from sortition.core import InputError, Population, Registrar
from sortition.selectors import load
from sortition.selectors.refl import staying_probability


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_the_literal_twin(seed):
    rng = np.random.default_rng(seed)
    n, m, stay = 20, 3, np.linspace(0.1, 0.95, 20)
    registrar, twin = Registrar(load("refl", cooldown=3), Population(n_clients=n), seed=seed), REFL(n, 3)
    there = rng.random(n) < 0.5
    for t in range(80):
        there = np.where(there, rng.random(n) < stay, rng.random(n) < 0.4)
        available = np.flatnonzero(there) if t % 11 else np.empty(0, int)
        turn = registrar.begin(available, m)
        ranked = twin.ranks(available.tolist(), t)
        chosen = turn.cohort.ids.tolist()
        assert len(chosen) == min(m, len(ranked))
        likely = {k: p for p, k in ranked}
        assert sorted(likely[k] for k in chosen) == [p for p, _ in ranked[: len(chosen)]], f"round {t}"
        twin.chose(chosen, t)
        registrar.finish(turn)


def test_a_participant_rests():
    found, _ = play(load("refl", cooldown=5), 40, budget=6, clients=60)
    for t, cohort in enumerate(found):
        recent = np.concatenate([c.ids for c in found[max(0, t - 5) : t]] or [np.empty(0, int)])
        assert not np.isin(cohort.ids, recent).any(), f"round {t}"


def test_places_stay_empty_while_all_rest():
    found, _ = play(load("refl", cooldown=5), 8, budget=3, clients=6)
    assert [c.ids.size for c in found] == [3, 3, 0, 0, 0, 0, 3, 3]
    assert found[2].notes["resting"] == 6


def test_equal_chances_are_drawn_uniformly():
    counts = np.zeros(10)
    for seed in range(600):
        found, _ = play(load("refl"), 1, budget=2, clients=10, seed=seed)
        counts[found[0].ids] += 1
    assert counts == pytest.approx(np.full(10, 120), abs=45)


def test_who_leaves_soon_goes_first():
    """Half of the clients come for one round in four, the others are always there: the visitors are taken first."""
    visitors = np.arange(10)

    def who(t):
        return np.arange(20) if t % 4 == 0 else np.arange(10, 20)

    found, _ = play(load("refl", cooldown=0), 40, budget=5, clients=20, available=who)
    late = np.concatenate([c.ids for t, c in enumerate(found) if t >= 8 and t % 4 == 0])
    assert np.isin(late, visitors).all()


def test_a_period_tells_phases_apart():
    """Everybody is there in rounds 0 and 1 of four; clients 0 to 4 leave after round 0, the others after round 1."""

    def who(t):
        return {0: np.arange(10), 1: np.arange(5, 10), 2: np.array([10]), 3: np.array([10])}[t % 4]

    found, registrar = play(load("refl", cooldown=0, period=4, phases=4), 41, budget=5, clients=11, available=who)
    assert sorted(found[40].ids.tolist()) == [0, 1, 2, 3, 4]
    assert registrar.state.counted.shape == (11, 4)


@pytest.mark.parametrize("parameters", [{"cooldown": -1}, {"period": 1}, {"phases": 0}])
def test_bad_parameters_are_named(parameters):
    with pytest.raises(InputError, match=rf"REFL\.{next(iter(parameters))} must be ≥"):
        load("refl", **parameters)


def test_the_probability_is_the_mean_of_the_posterior():
    stayed = np.array([[0, 2], [0, 1], [0, 0]])
    counted = np.array([[0, 3], [0, 3], [0, 0]])
    assert staying_probability(stayed, counted, np.arange(3), 1) == pytest.approx([3 / 5, 2 / 5, 1 / 2])
    assert staying_probability(stayed, counted, np.arange(3), 0) == pytest.approx([1 / 2] * 3)


def test_it_finds_how_often_clients_stay():
    rng = np.random.default_rng(0)
    rates = np.array([0.9, 0.5, 0.1, 1.0])  # the last client keeps rounds from being skipped
    _, registrar = play(
        load("refl"), 1500, budget=1, clients=4, available=lambda t: np.flatnonzero(rng.random(4) < rates)
    )
    state = registrar.state
    assert staying_probability(state.stayed, state.counted, np.arange(4), 0) == pytest.approx(rates, abs=0.06)

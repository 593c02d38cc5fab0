from __future__ import annotations

import numpy as np
import pytest
from tests.reference import divfl_literal

from sortition.core import InputError, Population, Reading, Registrar
from sortition.selectors import load
from sortition.testing import QuadraticWorld, play
from sortition.testing.play import play_turn


def differs(seed, *, share=1.0, rounds=8, n=14, k=4):
    """Whether the fast method and its literal twin part ways."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(3, 5))[np.arange(n) % 3] * 3 + rng.normal(size=(n, 5))
    registrar, twin = Registrar(load("divfl"), Population(n_clients=n)), divfl_literal.DivFL()
    for t in range(rounds):
        g = np.asarray(base + 0.5 * rng.normal(size=(n, 5)), np.float32).astype(np.float64)
        available = np.flatnonzero(np.random.default_rng([seed, t]).random(n) < share)
        if available.size == 0:
            continue
        turn = registrar.begin(available, k)
        if turn.question is not None:
            asked = turn.question.ids
            turn.answer(Reading(asked, g[asked]))
            twin.refresh({int(i): g[i].tolist() for i in asked})
        S = twin.select(available.tolist(), k)
        if turn.cohort.ids.tolist() != S:
            return True
        registrar.finish(turn, reports={"gradient": g[turn.cohort.ids]})
        twin.refresh({i: g[i].tolist() for i in S})
    return False


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_agrees_with_the_literal_twin(seed, share):
    assert not differs(seed, share=share)


def test_two_clusters_two_places():
    world = QuadraticWorld(12, kinds=2)
    for cohort in play(load("divfl"), world, 5, budget=2):
        assert sorted(world.kinds[cohort.ids]) == [0, 1]
        assert cohort.weights.tolist() == [0.5, 0.5]


def test_one_place_is_the_medoid_and_more_places_cover_better():
    vectors = np.random.default_rng(0).normal(size=(9, 4))
    distance = np.linalg.norm(vectors[:, None] - vectors, axis=2)
    last = np.inf
    for k in range(1, 10):
        turn = Registrar(load("divfl"), Population(n_clients=9)).begin(range(9), k)
        turn.answer(Reading(np.arange(9), vectors))
        ids = turn.cohort.ids
        assert ids[0] == np.argmin(distance.sum(axis=1))
        covered = distance[ids].min(axis=0).sum()
        assert covered < last
        last = covered
    assert last == 0  # K = N: the released code runs out of its list here


def test_weights():
    vectors = np.array([[0.0], [0.0], [0.0], [9.0]])
    expected = {"uniform": [0.5, 0.5], "size": [0.2, 0.8], "cover": [0.75, 0.25]}
    for weights, wanted in expected.items():
        turn = Registrar(load("divfl", weights=weights), Population([1, 2, 3, 4])).begin(range(4), 2)
        turn.answer(Reading(np.arange(4), vectors))
        assert turn.cohort.ids.tolist() == [0, 3]
        assert turn.cohort.weights.tolist() == pytest.approx(wanted)


def test_asked_once_or_always():
    for refresh, asked in (("cohort", [8, 0, 0]), ("all", [8, 8, 8])):
        world = QuadraticWorld(8)
        registrar = Registrar(load("divfl", refresh=refresh), world.population)
        seen = [
            sum(a.n_asked for a in play_turn(registrar, world, np.arange(8), 3).metered_questions) for _ in range(3)
        ]
        assert seen == asked


def test_thirty_per_cent_available_and_no_set_repeats():
    world = QuadraticWorld(30, kinds=3)
    registrar, sets = Registrar(load("divfl"), world.population), set()
    for t in range(20):
        available = np.sort(np.random.default_rng(t).choice(30, 9, replace=False))
        sets.add(tuple(available))
        turn = play_turn(registrar, world, available, 3)
        assert turn.cohort.ids.size == 3
        if np.unique(world.kinds[available]).size == 3:
            assert sorted(world.kinds[turn.cohort.ids]) == [0, 1, 2]
    assert len(sets) == 20


def test_many_clients_are_covered_on_sketches():
    world = QuadraticWorld(300, kinds=6)
    registrar = Registrar(load("divfl", exact_up_to=100, sample=80, weights="cover"), world.population)
    for _ in range(3):
        turn = play_turn(registrar, world, np.arange(300), 6)
        assert sorted(world.kinds[turn.cohort.ids]) == [0, 1, 2, 3, 4, 5]
        assert turn.cohort.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("wrong", [{"share": 0.0}, {"greedy": "lazy"}, {"weights": "count"}, {"sketch": 0}])
def test_bad_parameters(wrong):
    with pytest.raises(InputError, match=f"DivFL.{next(iter(wrong))}"):
        load("divfl", **wrong)

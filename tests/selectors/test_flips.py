from __future__ import annotations

import numpy as np
import pytest
from tests.reference.flips_literal import choose, davies_bouldin

from sortition.core import InputError, Population, Registrar
from sortition.selectors import load
from sortition.selectors.flips import cluster


def single_labels(per_label, labels=10):
    """Clients of one label each, in turn, with unequal sizes."""
    n = per_label * labels
    counts = np.zeros((n, labels), int)
    counts[np.arange(n), np.arange(n) % labels] = 10 + np.arange(n)
    return Population(counts.sum(axis=1), counts)


def cohorts(selector, population, m, rounds, available=None):
    registrar, found = Registrar(selector, population, seed=1), []
    for t in range(rounds):
        turn = registrar.begin(np.arange(population.n_clients) if available is None else available(t), m)
        found.append(turn.cohort)
        registrar.finish(turn)
    return found, registrar


def test_every_cohort_holds_every_label():
    population = single_labels(5)
    found, registrar = cohorts(load("flips"), population, 10, 12)
    assert len(registrar.state.centres) == 10
    for cohort in found:
        assert sorted(cohort.ids % 10) == list(range(10))


def test_picks_inside_a_cluster_differ_by_at_most_one():
    population = single_labels(7)
    _, registrar = cohorts(load("flips"), population, 10, 23)
    for label in range(10):
        picks = registrar.state.picks[label::10]
        assert picks.max() - picks.min() <= 1


def test_fewer_places_than_clusters_rotate():
    found, _ = cohorts(load("flips", clusters=10), single_labels(4), 3, 4)
    assert set(np.concatenate([cohort.ids for cohort in found]) % 10) == set(range(10))


def test_places_of_an_absent_cluster_go_to_the_others():
    away = np.setdiff1d(np.arange(50), np.arange(0, 50, 10))
    found, _ = cohorts(load("flips"), single_labels(5), 10, 3, available=lambda t: away)
    for cohort in found:
        counts = np.bincount(cohort.ids % 10, minlength=10)
        assert counts[0] == 0
        assert counts[1:].max() - counts[1:].min() <= 1
        assert cohort.ids.size == 10


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_the_literal_twin(seed):
    rng = np.random.default_rng(seed)
    population = single_labels(4, labels=6)
    registrar = Registrar(load("flips", clusters=6), population, seed=seed)
    members, picks = [list(range(c, 24, 6)) for c in range(6)], [0] * 24
    for _ in range(40):
        available = np.flatnonzero(rng.random(24) < 0.5)
        turn = registrar.begin(available, 5)
        chosen = choose(members, picks, set(available.tolist()), 5)
        assert sorted(turn.cohort.ids.tolist()) == sorted(chosen)
        registrar.finish(turn)
    assert registrar.state.picks.tolist() == picks


def test_the_index_is_davies_and_bouldins():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(c, 0.05, (8, 3)) for c in (0.0, 1.0, 2.0)])
    found = cluster(rows, None, 8, np.random.default_rng(1), 2000)
    assert len(found.centres) == 3
    assert found.labels.tolist() == [0] * 8 + [1] * 8 + [2] * 8
    assert found.index == pytest.approx(davies_bouldin(rows.tolist(), found.labels.tolist()), abs=1e-8)


def test_clients_that_are_alike_form_one_cluster():
    counts = np.full((12, 4), 5)
    found, registrar = cohorts(load("flips"), Population(counts.sum(axis=1), counts), 4, 3)
    assert len(registrar.state.centres) == 1
    assert [sorted(c.ids.tolist()) for c in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_newcomers_enter_the_nearest_cluster():
    small, large = single_labels(3), single_labels(4)
    registrar = Registrar(load("flips"), small)
    registrar.finish(registrar.begin(np.arange(30), 10))
    before = registrar.state.cluster.copy()
    registrar.join(large)
    registrar.finish(registrar.begin(np.arange(40), 10))
    assert registrar.state.cluster[:30].tolist() == before.tolist()
    assert registrar.state.cluster[30:].tolist() == before[:10].tolist()


def test_the_order_of_clients_matters_through_ties_only():
    population = single_labels(3)
    order = np.random.default_rng(2).permutation(30)
    shuffled = Population(np.asarray(population.sizes)[order], np.asarray(population.label_counts)[order])
    a, _ = cohorts(load("flips"), population, 10, 5)
    b, _ = cohorts(load("flips"), shuffled, 10, 5)
    for one, other in zip(a, b, strict=True):
        assert sorted(one.ids % 10) == sorted(order[other.ids] % 10)


def test_noise_is_noted_and_weights_are_by_size():
    population = single_labels(2)
    cohort = Registrar(load("flips", epsilon=2.0, noise="gaussian"), population).begin(np.arange(20), 4).cohort
    assert cohort.notes["epsilon"] == 2.0
    assert cohort.notes["delta"] == 1e-5
    sizes = np.asarray(population.sizes)[cohort.ids]
    assert cohort.weights == pytest.approx(sizes / sizes.sum())


@pytest.mark.parametrize("parameters", [{"clusters": 0}, {"epsilon": 0.0}, {"sample": 3}])
def test_bad_parameters_are_named(parameters):
    with pytest.raises(InputError, match=rf"FLIPS\.{next(iter(parameters))} must be"):
        load("flips", **parameters)

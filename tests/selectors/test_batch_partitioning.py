from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.playing import play
from tests.reference.batch_partitioning_literal import candidates, mean_cohort

from sortition.core import InputError, Population, Registrar
from sortition.selectors import load


def online(n, p, seed=0):
    """Each client drops out with probability p in each round."""
    rng = np.random.default_rng(seed)
    return lambda t: np.flatnonzero(rng.random(n) >= p)


@pytest.mark.parametrize("rule", ["least-used", "with-least-used", "random"])
def test_no_combination_of_sums_reaches_fewer_than_a_batch(rule):
    found, registrar = play(
        load("batch-partitioning", batch=3, rule=rule), 150, budget=6, clients=24, available=online(24, 0.1)
    )
    table = np.zeros((150, 24))
    for t, cohort in enumerate(found):
        table[t, cohort.ids] = 1
        assert cohort.ids.size in (0, 6)
    assert np.linalg.matrix_rank(table) == 24 / 3  # each direction of the row space is constant on batches
    for batch in range(8):
        columns = table[:, registrar.state.batch_of == batch]
        assert columns.shape[1] == 3
        assert (columns == columns[:, :1]).all()


def test_random_selection_does_isolate():
    found, _ = play(load("uniform", weights="uniform"), 150, budget=6, clients=24)
    table = np.zeros((150, 24))
    for t, cohort in enumerate(found):
        table[t, cohort.ids] = 1
    assert np.linalg.matrix_rank(table) == 24


@pytest.mark.parametrize("rule", ["least-used", "with-least-used", "random"])
@pytest.mark.parametrize("seed", range(3))
def test_choices_are_those_of_the_literal_twin(rule, seed):
    registrar = Registrar(load("batch-partitioning", batch=2, rule=rule), Population(n_clients=12), seed=seed)
    who, counts, seen = online(12, 0.25, seed), [0] * 12, set()
    for t in range(60):
        available = who(t)
        turn = registrar.begin(available, 4)
        chosen = frozenset(turn.cohort.ids.tolist())
        batches = [np.flatnonzero(turn.state.batch_of == b).tolist() for b in range(6)]
        allowed = candidates(batches, 4, available.tolist(), counts, rule)
        assert chosen in allowed if allowed else not chosen, f"round {t}"
        seen.add(chosen)
        for k in chosen:
            counts[k] += 1
        registrar.finish(turn)
    assert len(seen) > 6


def test_the_mean_cohort_follows_the_papers_formula():
    assert mean_cohort(12, 6, 3, 0.2) == pytest.approx(4.2317, abs=1e-4)
    found, _ = play(load("batch-partitioning", batch=3), 4000, budget=6, clients=12, available=online(12, 0.2))
    assert np.mean([c.ids.size for c in found]) == pytest.approx(4.2317, abs=0.15)


def test_the_least_used_rule_is_fair():
    _, registrar = play(load("batch-partitioning", batch=3), 4000, budget=6, clients=24, available=online(24, 0.2))
    rate = registrar.state.picks / 4000
    assert rate.max() - rate.min() < 0.002


def test_too_few_whole_batches_skip_the_round():
    everybody, one_missing = np.arange(6), np.arange(5)
    who = lambda t: everybody if t == 0 else one_missing  # noqa: E731
    found, _ = play(load("batch-partitioning", batch=3), 2, budget=6, clients=6, available=who)
    assert found[0].ids.tolist() == list(range(6))
    assert found[1].ids.size == 0
    assert found[1].notes["batches_available"] == 1


def test_clients_that_make_no_whole_batch_join_the_last_one():
    found, registrar = play(load("batch-partitioning", batch=3), 40, budget=6, clients=11)
    assert sorted(np.bincount(registrar.state.batch_of).tolist()) == [3, 3, 5]
    assert {c.ids.size for c in found} <= {3, 5, 6}
    assert registrar.state.picks.min() > 0


def test_a_rest_that_the_budget_cannot_hold_waits_alone():
    _, registrar = play(load("batch-partitioning", batch=3), 40, budget=4, clients=11)
    assert np.bincount(registrar.state.batch_of[registrar.state.batch_of >= 0]).tolist() == [3, 3, 3]
    assert (registrar.state.picks == 0).sum() == 2


def test_newcomers_wait_until_they_make_a_batch():
    registrar = Registrar(load("batch-partitioning", batch=3), Population(n_clients=6))
    registrar.finish(registrar.begin(np.arange(6), 6))
    before = registrar.state.batch_of.copy()
    registrar.join(Population(n_clients=8))
    registrar.finish(registrar.begin(np.arange(8), 3))
    assert registrar.state.batch_of[6:].tolist() == [-1, -1]
    registrar.join(Population(n_clients=9))
    registrar.finish(registrar.begin(np.arange(9), 3))
    assert registrar.state.batch_of.tolist() == [*before[:6].tolist(), 2, 2, 2]


def test_bad_batches_are_named():
    with pytest.raises(InputError, match=r"BatchPartitioning\.batch must be at most the budget, 4; got 5"):
        Registrar(load("batch-partitioning", batch=5), Population(n_clients=9)).begin(np.arange(9), 4)
    with pytest.raises(InputError, match=r"BatchPartitioning\.batch must be at most the number of clients, 3; got 4"):
        Registrar(load("batch-partitioning", batch=4), Population(n_clients=3)).begin(np.arange(3), 4)
    with pytest.raises(InputError, match=r"BatchPartitioning\.batch must be ≥ 1"):
        load("batch-partitioning", batch=0)

from __future__ import annotations

import numpy as np
import pytest
from tests.reference.cs_ucb_q_literal import CSUCBQ

from sortition.core import DURATION, InputError, Population, Registrar
from sortition.selectors import load


def agree(seed=0, rounds=150, **parameters):
    """Play both; returns the first difference, or None."""
    rng = np.random.default_rng(seed)
    n, m, limit = 14, 3, 2.0
    sizes, speed = rng.integers(5, 50, n), rng.lognormal(0, 0.5, n)
    beta, fraction = parameters.get("beta", 0.5), parameters.get("fraction", 1.0)
    share = sizes / sizes.sum() if parameters.get("rate") == "size" else np.full(n, 1 / n)
    twin = CSUCBQ(n, [min(fraction * m * s, 1.0) for s in share], beta, limit)
    registrar = Registrar(load("cs-ucb-q", latency_limit=limit, **parameters), Population(sizes), seed=seed)
    for t in range(rounds):
        available = np.flatnonzero(rng.random(n) < 0.4) if t % 7 else np.empty(0, int)
        turn = registrar.begin(available, m)
        if not available.size:
            twin.skip()
            registrar.finish(turn)
            continue
        chosen = twin.choose(available.tolist(), m)
        if turn.cohort.ids.tolist() != chosen:
            return f"round {t}: {turn.cohort.ids.tolist()} but {chosen}"
        answered = np.array([k for k in chosen if rng.random() < 0.8], dtype=np.int64)
        took = speed[answered] * rng.lognormal(0, 0.6, answered.size)
        twin.learn(dict(zip(answered.tolist(), took.tolist(), strict=True)))
        registrar.finish(turn, answered, {DURATION.name: took})
    if not np.allclose(registrar.state.queue, twin.D):
        return "queues"
    return None


@pytest.mark.parametrize("parameters", [{}, {"beta": 0.05}, {"beta": 0.8, "rate": "size", "fraction": 0.5}])
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_the_literal_twin(seed, parameters):
    assert agree(seed, **parameters) is None


def rounds_of(selector, n, m, rounds, available=None, took=None):
    registrar, cohorts = Registrar(selector, Population(np.ones(n, int))), []
    for t in range(rounds):
        turn = registrar.begin(np.arange(n) if available is None else available(t), m)
        ids = turn.cohort.ids
        registrar.finish(turn, ids, {DURATION.name: np.ones(ids.size) if took is None else took[ids]})
        cohorts.append(ids)
    return cohorts, registrar


@pytest.mark.parametrize(("n", "m"), [(10, 2), (12, 3), (7, 3)])
def test_queues_alone_make_an_exact_round_robin(n, m):
    cohorts, _ = rounds_of(load("cs-ucb-q", beta=1.0), n, m, 5 * n)
    counts = np.zeros(n)
    for t, ids in enumerate(cohorts):
        counts[ids] += 1
        assert counts.max() - counts.min() <= 1, f"round {t}"
    if n % m == 0:
        turns = [sorted(ids.tolist()) for ids in cohorts]
        assert turns[: n // m] == [list(range(i, i + m)) for i in range(0, n, m)]
        assert turns[n // m :] == turns[: -n // m]


def test_who_was_never_tried_is_believed_to_be_the_best():
    who = lambda t: np.arange(4) if t < 30 else np.arange(6)  # noqa: E731
    slow = np.full(6, 1.0)  # reward 0, so ŷ = √(2 ln t / z), below 1 after 15 plays
    cohorts, _ = rounds_of(load("cs-ucb-q", beta=0.0, latency_limit=1.0), 6, 2, 31, available=who, took=slow)
    assert cohorts[30].tolist() == [4, 5]


def test_the_bandit_finds_the_fast():
    took = np.where(np.arange(10) < 7, 1.0, 0.05)
    cohorts, _ = rounds_of(load("cs-ucb-q", beta=0.0, latency_limit=1.0), 10, 3, 400, took=took)
    late = np.bincount(np.concatenate(cohorts[200:]), minlength=10)
    assert late[7:].min() > 2 * late[:7].max()


def test_a_client_that_is_away_is_owed_its_share_and_is_never_chosen():
    away = lambda t: np.arange(9) if t < 20 else np.arange(10)  # noqa: E731
    cohorts, registrar = rounds_of(load("cs-ucb-q", beta=1.0), 10, 2, 20, available=away)
    assert not any(9 in ids for ids in cohorts)
    assert registrar.state.queue[9] == pytest.approx(20 * 0.2)  # c = m/N = 0.2 a round
    assert registrar.state.queue.min() >= 0
    assert 9 in registrar.begin(np.arange(10), 2).cohort.ids


def test_required_share_is_kept_on_average():
    rng = np.random.default_rng(3)
    who = [np.flatnonzero(rng.random(20) < 0.3) for _ in range(600)]
    assert len({frozenset(ids.tolist()) for ids in who}) > 590  # 30 % available: sets hardly ever repeat
    who = [ids if ids.size else np.array([0]) for ids in who]
    took = np.linspace(0.1, 2, 20)
    cohorts, _ = rounds_of(load("cs-ucb-q", fraction=0.5), 20, 3, 600, available=lambda t: who[t], took=took)
    rate = np.bincount(np.concatenate(cohorts), minlength=20) / 600
    assert rate.min() > 0.9 * 0.5 * 3 / 20


def test_weights_are_by_size():
    registrar = Registrar(load("cs-ucb-q"), Population([10, 30, 60]))
    assert registrar.begin([0, 1, 2], 2).cohort.weights == pytest.approx([0.25, 0.75])


def test_without_latencies_all_rewards_are_equal():
    cohorts, _ = rounds_of(load("cs-ucb-q"), 8, 2, 16, took=np.zeros(8))
    assert np.bincount(np.concatenate(cohorts), minlength=8).tolist() == [4] * 8


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [({"beta": 1.5}, r"CSUCBQ\.beta must be ≤ 1"), ({"latency_limit": 0.0}, r"CSUCBQ\.latency_limit must be > 0")],
)
def test_bad_parameters_are_named(parameters, sentence):
    with pytest.raises(InputError, match=sentence):
        load("cs-ucb-q", **parameters)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import longfed_literal

from sortition.core import InputError, Population, Reading, Registrar
from sortition.selectors import load
from sortition.selectors._parts.distances import pairwise_distances
from sortition.selectors._parts.facility_sampled import shorten_rows
from sortition.selectors.longfed import advance_queues, pulls, reference_clients
from sortition.testing import QuadraticWorld, play
from sortition.testing.play import play_turn


def gradients(seed, n=14, kinds=4, width=5):
    """Vectors that drift from round to round, in float32's grid so that nothing depends on what stores them."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(kinds, width)) * 3
    base = centres[np.arange(n) % kinds] + rng.normal(size=(n, width))
    drift = rng.normal(size=(40, n, width)) * 0.3
    return lambda t, ids: np.asarray(base + drift[t], np.float32)[ids].astype(np.float64)


def differs(seed, *, share=1.0, data=False, rounds=12, n=14, k=4, first="everyone", join_at=0):
    """Whether the fast method and its literal twin part ways; both see the same gradients and the same clients.

    Until round ``join_at`` three clients fewer are there.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 9, n).astype(float)
    vectors = gradients(seed, n)
    parameters = {"epsilon": 4.0, "delta": 0.05, "trade_off": 1.5, "units": "absolute"}
    selector = load("longfed", weights="data" if data else "count", first=first, **parameters)
    registrar = Registrar(selector, Population(sizes[: n - 3] if join_at else sizes))
    twin = longfed_literal.LongFed(n, 4.0, 0.05, 1.5, sizes.tolist() if data else None)
    for t in range(rounds):
        if t == join_at > 0:
            registrar.join(Population(sizes))
        here = registrar.population.n_clients
        available = np.flatnonzero(rng.random(here) < share)
        if available.size == 0:
            available = np.array([0])
        turn = registrar.begin(available, k)
        if turn.question is not None:
            asked = turn.question.ids
            turn.answer(Reading(asked, vectors(t, asked)))
            twin.learn({int(i): vectors(t, [i])[0].tolist() for i in asked})
        ids = turn.cohort.ids
        reports = {int(i): vectors(t, [i])[0].tolist() for i in ids}
        assert turn.cohort.full == (t == 0 and first == "everyone")
        if turn.cohort.full:
            twin.first(reports)
        else:
            S, a = twin.select(available.tolist(), k)
            if ids.tolist() != S or not np.allclose(turn.cohort.weights, a):
                return True
            twin.observe(S, reports)
        registrar.finish(turn, reports={"step-gradient": vectors(t, ids)})
        if not (np.allclose(registrar.state.z, twin.Z[:here]) and np.allclose(registrar.state.q, twin.Q[:here])):
            return True
    return False


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("data", [False, True])
def test_agrees_with_the_literal_twin(seed, data):
    assert not differs(seed, data=data)


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_the_literal_twin_when_clients_come_and_go(seed):
    assert not differs(seed, share=0.6)


@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_the_literal_twin_when_k_are_chosen_at_once(seed):
    assert not differs(seed, first="ask")
    assert not differs(seed, first="ask", share=0.6, data=True)


@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_the_literal_twin_when_clients_join_late(seed):
    # until then every pair of those there is known: newcomers are compared with everybody's last update all the same
    assert not differs(seed, join_at=7)


def frozen(parameters, vectors, rounds, k, sizes=None):
    """Cohorts after the first round, with updates that never change."""
    n = len(vectors)
    registrar = Registrar(load("longfed", **parameters), Population(np.ones(n) if sizes is None else sizes))
    name, cohorts = load("longfed", **parameters).signal.name, []
    for _ in range(rounds + 1):
        turn = registrar.begin(range(n), k)
        registrar.finish(turn, reports={name: vectors[turn.cohort.ids]})
        cohorts.append(turn.cohort)
    return cohorts[1:], registrar


def clusters(kinds=5, each=6, spread=0.2, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(kinds, 8)) * 4)[np.arange(kinds * each) % kinds] + spread * rng.normal(size=(30, 8))


def test_the_first_round_is_everyones():
    world = QuadraticWorld(12)
    everyone = play(load("longfed", weights="count"), world, 2, budget=3)
    assert everyone[0].full
    assert everyone[0].ids.tolist() == list(range(12))
    assert everyone[0].weights.tolist() == [1 / 12] * 12
    assert not everyone[1].full
    assert everyone[1].ids.size == 3
    asked = play(load("longfed", first="ask"), QuadraticWorld(12), 2, budget=3)
    assert [c.ids.size for c in asked] == [3, 3]


def test_one_client_per_cluster_and_fairness_spreads_the_choice():
    spread = {}
    for trade_off in (0.0, 0.1, 0.5):
        cohorts, registrar = frozen({"trade_off": trade_off}, clusters(), 60, 5)
        assert all(sorted(c.ids % 5) == [0, 1, 2, 3, 4] for c in cohorts)
        assert all(c.weights == pytest.approx([0.2] * 5) for c in cohorts)
        spread[trade_off] = np.std(registrar.state.chosen - 1)
    assert len({tuple(sorted(c.ids)) for c in frozen({"trade_off": 0.0}, clusters(), 5, 5)[0]}) == 1  # λ = 0 repeats
    # ever the same 5 of 30 for 60 rounds: sqrt(60² · 5/30 − 10²)
    assert spread[0.0] == pytest.approx(np.sqrt(3600 / 6 - 100))
    assert spread[0.5] < spread[0.1] < spread[0.0] / 3


def test_a_smaller_delta_is_fairer():
    def spread(delta):
        return np.std(frozen({"delta": delta, "trade_off": 0.2}, clusters(), 80, 5)[1].state.chosen)

    assert spread(0.01) < spread(0.1) < spread(0.5)


def test_one_place_without_fairness_is_the_medoid():
    vectors = np.random.default_rng(3).normal(size=(9, 4))
    distance = np.linalg.norm(vectors[:, None] - vectors, axis=2)
    cohorts, _ = frozen({"trade_off": 0.0}, vectors, 1, 1)
    assert cohorts[0].ids.tolist() == [int(np.argmin(distance.sum(axis=1)))]


def test_everybody_fits():
    vectors = np.random.default_rng(3).normal(size=(6, 4))
    cohort = frozen({}, vectors, 1, 6)[0][0]
    assert sorted(cohort.ids.tolist()) == [0, 1, 2, 3, 4, 5]
    assert cohort.weights == pytest.approx([1 / 6] * 6)  # each stands for itself


def test_weights_follow_the_data_of_those_represented():
    vectors = np.array([[0.0], [0.1], [0.2], [9.0], [9.1]])
    sizes = np.array([10.0, 10, 10, 35, 35])
    cohort = frozen({"weights": "data", "trade_off": 0.0}, vectors, 1, 2, sizes)[0][0]
    by_side = {bool(i < 3): w for i, w in zip(cohort.ids, cohort.weights, strict=True)}
    assert by_side == pytest.approx({True: 0.3, False: 0.7})
    cohort = frozen({"weights": "count", "trade_off": 0.0}, vectors, 1, 2)[0][0]
    assert sorted(cohort.weights) == pytest.approx([0.4, 0.6])


@pytest.mark.parametrize(("gradient", "expected"), [("sum", 4.0), ("unit", 0.0)])
def test_what_is_compared(gradient, expected):
    _, registrar = frozen({"gradient": gradient}, np.array([[1.0, 0.0], [5.0, 0.0]]), 0, 1)
    assert registrar.state.distance[0, 1] == pytest.approx(expected)


def test_only_pairs_that_trained_together_are_renewed():
    n, k = 6, 2
    registrar = Registrar(load("longfed", weights="count"), Population(n_clients=n))
    vectors = np.random.default_rng(0).normal(size=(n, 3))
    turn = registrar.begin(range(n), k)
    registrar.finish(turn, reports={"step-gradient": vectors})
    before = registrar.state.distance.copy()
    turn = registrar.begin(range(n), k)
    registrar.finish(turn, reports={"step-gradient": vectors[turn.cohort.ids] * 2})
    i, j = turn.cohort.ids
    assert registrar.state.distance[i, j] == pytest.approx(2 * before[i, j])
    before[i, j] = before[j, i] = registrar.state.distance[i, j]
    assert registrar.state.distance == pytest.approx(before)


def test_thirty_per_cent_available_and_no_set_repeats():
    world = QuadraticWorld(30, kinds=5)
    registrar = Registrar(load("longfed"), world.population)
    sets, asked = set(), []
    for t in range(25):
        available = np.sort(np.random.default_rng(t).choice(30, 9, replace=False))
        sets.add(tuple(available))
        before = registrar.state.has_update.copy()
        turn = play_turn(registrar, world, available, 4)
        asked += [question.n_asked for question in turn.metered_questions]
        if t:
            assert turn.cohort.ids.size == 4
            assert sum(question.n_asked for question in turn.metered_questions) == (~before[available]).sum()
            assert turn.cohort.weights.sum() == pytest.approx(1.0)
    assert len(sets) == 25
    assert sum(asked) + 9 == registrar.state.has_update.sum() == 30  # each newcomer is asked once


def test_who_joins_later_is_asked_and_compared_with_those_there():
    world, larger = QuadraticWorld(10, kinds=2), QuadraticWorld(12, kinds=2)
    registrar = Registrar(load("longfed"), Population(np.ones(10)))
    play_turn(registrar, world, np.arange(10), 2)
    registrar.join(Population(np.ones(12)))
    turn = registrar.begin(range(12), 2)
    assert turn.question.ids.tolist() == [10, 11]
    turn.answer(larger.measure(turn.question, 1))
    assert turn.state.rows.shape == (12, 12)
    assert turn.cohort.ids.size == 2
    assert sorted(turn.cohort.ids % 2) == [0, 1]  # both kinds are still told apart


def alone_first(known_at_first):
    """80 rounds of five plain clusters, in the first two of which only some clients are there."""
    vectors = clusters()
    registrar = Registrar(load("longfed"), Population(np.ones(30)))
    for t in range(80):
        turn = registrar.begin(range(30) if t > 1 else known_at_first, 5)
        if turn.question is not None:
            turn.answer(Reading(turn.question.ids, vectors[turn.question.ids]))
        registrar.finish(turn, reports={"step-gradient": vectors[turn.cohort.ids]})
    return registrar.state


def test_units_are_estimated_anew_when_more_clients_are_known():
    vectors = clusters()
    off = np.linalg.norm(vectors[:, None] - vectors, axis=2)[~np.eye(30, dtype=bool)]
    for few in ([0], [0, 5], range(30)):  # nobody to compare with, one cluster only, all
        state = alone_first(few)
        assert state.epsilon == pytest.approx(np.quantile(off, 0.15), rel=1e-4)
        assert state.scale == pytest.approx(off.mean(), rel=1e-4)
        assert np.std(state.chosen) < 4  # without fairness: 29


def test_who_is_chosen_by_lot_has_no_reference():
    registrar = Registrar(load("longfed", first="ask"), Population(np.ones(6)))
    turn = registrar.begin([5], 2)
    turn.answer({})
    registrar.finish(turn, [])
    assert not registrar.state.z.any()
    assert not registrar.state.q.any()


def test_silent_newcomers_fill_places_that_the_known_leave():
    registrar = Registrar(load("longfed", first="ask"), Population(np.ones(6)))
    turn = registrar.begin(range(6), 4)
    turn.answer({2: np.ones(3), 4: np.zeros(3)})
    assert {2, 4} < set(turn.cohort.ids.tolist())
    assert turn.cohort.ids.size == 4
    turn = registrar.begin(range(6), 4)
    turn.answer({})
    assert turn.cohort.ids.size == 4  # nobody is known: a lot


class Wide(QuadraticWorld):
    """Updates of 1,500 numbers."""

    classes = 375


@given(st.integers(0, 10**6))
def test_client_side_sketches_choose_as_whole_updates_do_where_clusters_are_plain(seed):
    rng = np.random.default_rng(seed)
    world = Wide(20, kinds=4, spread=0.05, seed=int(rng.integers(10**6)))
    whole = play(load("longfed", trade_off=0.0), world, 2, budget=4)[1]
    world = Wide(20, kinds=4, spread=0.05, seed=world.seed)
    short = play(load("longfed", trade_off=0.0, sketch=64), world, 2, budget=4)[1]
    assert sorted(short.ids % 4) == sorted(whole.ids % 4) == [0, 1, 2, 3]


def test_the_error_of_distances_between_sketches_of_64():
    # a count sketch keeps ‖x‖² in the mean with a relative variance of 2/64, so distances up to about √(2/64)/2 = 9 %
    rows = np.random.default_rng(0).normal(size=(60, 5000))
    true, got = pairwise_distances(rows), pairwise_distances(shorten_rows(rows, 64))
    error = (got / np.where(true > 0, true, 1))[np.triu_indices(60, 1)] - 1
    assert 0.06 < np.sqrt(np.mean(error**2)) < 0.12


def test_fairness_holds_among_many_clients_too():
    # measured spread of the counts: exact 2.0, form 1.9; without fairness 6.0 and 3.9
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(6, 8)) * 4)[np.arange(600) % 6] + rng.normal(size=(600, 8))
    spread = {}
    for trade_off, limit in ((0.5, 600), (0.5, 100), (0.0, 100)):
        selector = load("longfed", first="ask", weights="count", trade_off=trade_off, exact_up_to=limit, sample=150)
        registrar = Registrar(selector, Population(n_clients=600))
        for _ in range(50):
            turn = registrar.begin(range(600), 6)
            if turn.question is not None:
                turn.answer(Reading(turn.question.ids, vectors[turn.question.ids]))
            registrar.finish(turn, reports={"step-gradient": vectors[turn.cohort.ids]})
        spread[trade_off, limit] = np.std(registrar.state.chosen)
    assert spread[0.5, 100] < 1.2 * spread[0.5, 600]
    assert spread[0.5, 100] < 0.65 * spread[0.0, 100]


def test_many_clients_are_covered_on_sketches():
    world = QuadraticWorld(300, kinds=6)
    registrar = Registrar(load("longfed", exact_up_to=100, sample=80), world.population)
    for t in range(6):
        turn = play_turn(registrar, world, np.arange(300), 6)
        assert not turn.cohort.full
        assert sum(question.n_asked for question in turn.metered_questions) <= 80
        assert sorted(world.kinds[turn.cohort.ids]) == [0, 1, 2, 3, 4, 5]
        assert registrar.state.distance is None
        assert turn.cohort.notes["known"] >= min(80 * (t + 1), 300) / 2


def test_growing_past_the_limit_keeps_what_is_known():
    world = QuadraticWorld(40, kinds=4)
    registrar = Registrar(load("longfed", exact_up_to=30, sample=30), Population(np.ones(30)))
    play_turn(registrar, world, np.arange(30), 4)
    registrar.join(Population(np.ones(40)))
    turn = play_turn(registrar, world, np.arange(40), 4)
    assert registrar.state.distance is None
    assert turn.state.has_update[:30].all()
    assert sorted(world.kinds[turn.cohort.ids]) == [0, 1, 2, 3]


def test_growing_past_the_limit_shortens_what_is_kept():
    rng = np.random.default_rng(0)
    kinds = rng.normal(size=(3, 2000))[np.arange(40) % 3] + 0.05 * rng.normal(size=(40, 2000))
    registrar = Registrar(load("longfed", exact_up_to=30), Population(np.ones(30)))
    turn = registrar.begin(range(30), 3)
    registrar.finish(turn, reports={"step-gradient": kinds[turn.cohort.ids]})
    assert registrar.state.rows.shape == (30, 256)
    registrar.join(Population(np.ones(40)))
    turn = registrar.begin(range(40), 3)
    turn.answer(Reading(turn.question.ids, kinds[turn.question.ids]))
    assert turn.state.rows.shape == (40, 64)
    apart = pairwise_distances(turn.state.rows)  # old and new sketches compare
    assert apart[35, 5] < 0.2 * apart[35, 6]
    assert sorted(turn.cohort.ids % 3) == [0, 1, 2]


def test_a_quantile_is_at_most_one():
    with pytest.raises(InputError, match=r"LongFed.epsilon must be a quantile ≤ 1; got 7"):
        Registrar(load("longfed", epsilon=7.0), Population(np.ones(6)))
    Registrar(load("longfed", epsilon=7.0, units="absolute"), Population(np.ones(6)))


@pytest.mark.parametrize("wrong", [{"delta": 2.0}, {"trade_off": -1.0}, {"gradient": "mean"}, {"sample": 1}])
def test_bad_parameters(wrong):
    with pytest.raises(InputError, match=f"LongFed.{next(iter(wrong))}"):
        load("longfed", **wrong)


def test_the_reference_is_the_similar_client_with_the_most_different_frequency():
    distance = np.array([[0, 1, 9.0], [1, 0, 9], [9, 9, 0]])
    assert reference_clients(distance, np.array([5.0, 1.0, 9.0]), 1.0).tolist() == [1, 0, 2]  # ≤ ε; else oneself
    assert reference_clients(distance, np.array([5.0, 5.0, 9.0]), 1.0).tolist() == [0, 0, 2]  # ties: the lowest
    assert reference_clients(distance, np.array([5.0, 1.0, 9.0]), 9.0).tolist() == [1, 2, 1]


def test_queues_by_hand():
    # client 0 was chosen, its reference 1 was not: Z_0 = 0 + 1 − 0 − 0.1; client 1 looks at 0: Q_1 = 0 + 1 − 0.1
    z, q = advance_queues(np.zeros(2), np.zeros(2), np.array([True, False]), np.array([1, 0]), 0.1)
    assert z.tolist() == [0.9, 0.0]
    assert q.tolist() == [0.0, 0.9]


@given(st.integers(0, 10**6), st.integers(1, 12))
def test_the_pull_is_the_exact_marginal_of_the_drift(seed, n):
    rng = np.random.default_rng(seed)
    z, q, k = rng.random(n) * 3, rng.random(n) * 3, rng.integers(n, size=n)

    def drift(x):  # Σ_i Z_i y_i + Q_i z_i, eqs. 20 and 23
        y, w = x - x[k] - 0.05, x[k] - x - 0.05
        assert np.allclose(y + w, -0.1)  # y_i + z_i = −2δ
        return float(z @ y + q @ w)

    x = rng.integers(0, 2, n).astype(float)
    for c in np.flatnonzero(x == 0):
        added = x.copy()
        added[c] = 1.0
        assert np.isclose(drift(added) - drift(x), pulls(z, q, k)[c])


@given(st.integers(0, 10**6))
def test_lemma_1_and_theorem_2_with_a_fixed_reference(seed):
    rng = np.random.default_rng(seed)
    n, T, delta, k = 6, 40, 0.1, np.array([1, 0, 3, 2, 5, 4])
    z, q, share = np.zeros(n), np.zeros(n), np.zeros(n)
    for _ in range(T):
        chosen = rng.random(n) < np.linspace(0.1, 0.9, n)
        ahead = chosen.astype(float) - chosen[k]
        before = z
        z, q = advance_queues(z, q, chosen, k, delta)
        assert (z >= 0).all()
        assert (q >= 0).all()
        y = ahead - delta
        assert (z**2 - before**2 <= 2 * before * y + y**2 + 1e-12).all()  # Lemma 1
        share += chosen
    gap = (share - share[k]) / T
    assert (gap <= delta + z / T + 1e-12).all()  # Theorem 2 at finite T
    assert (-gap <= delta + q / T + 1e-12).all()

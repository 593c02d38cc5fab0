from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from tests.reference.fed_cbs_literal import probabilities, qcid

from sortition.core import Guards, InputError, Population, Reading, Registrar, stream
from sortition.core.cohort import Round
from sortition.selectors import load
from sortition.selectors.fed_cbs import FedCBS, Memory, Pool

# the example of the paper's Fig. 3
FIGURE = np.array([[5] * 6, [6, 6, 6, 6, 6, 0], [0, 0, 0, 10, 10, 10], [10, 10, 10, 0, 0, 0]])


def pool_of(counts):
    counts = np.asarray(counts, float)
    squares = (counts**2).sum(axis=1)
    return Pool(np.arange(len(counts)), counts.sum(axis=1), squares, lambda c: counts @ counts[c], counts.shape[1])


def of(counts, members):
    pool = pool_of(counts)
    for member in members:
        pool.add(member)
    return pool.qcid


@pytest.mark.parametrize(
    ("members", "expected"),
    [([0], 0), ([1], 1 / 30), ([2], 1 / 6), ([3], 1 / 6), ([0, 1], 1 / 120), ([2, 3], 0), ([0, 1, 2], 0.0148148),
     ([0, 1, 3], 0.0296296), ([1, 2, 3], 0.0037037), ([0, 2, 3], 0)],
)  # fmt: skip
def test_the_measure_on_the_papers_example(members, expected):
    assert of(FIGURE, members) == pytest.approx(expected, abs=1e-6)
    assert qcid(FIGURE.tolist(), members) == pytest.approx(expected, abs=1e-6)


def test_the_measure_does_not_depend_on_the_scale():
    counts = np.random.default_rng(0).integers(0, 9, (6, 5))
    assert of(counts * 7, [0, 2, 5]) == pytest.approx(of(counts, [0, 2, 5]))


def test_exchanges_keep_the_sums_right():
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 9, (12, 4))
    pool = pool_of(counts)
    for at in (0, 3, 7):
        pool.add(at)
    for _ in range(30):
        out, into = int(rng.integers(3)), int(rng.choice(np.flatnonzero(~pool.is_member)))
        expected = pool.qcid_after(out, into)
        pool.replace(out, into)
        assert pool.qcid == pytest.approx(expected)
        assert pool.qcid == pytest.approx(qcid(counts.tolist(), pool.member_positions))


def draws(selector, counts, m, times, k=1, picks=None):
    population = Population(np.asarray(counts).sum(axis=1), counts).disclose(selector.needs.reads, "FedCBS")
    found = []
    for seed in range(times):
        state = Memory(len(counts))
        state.picks[:] = 0 if picks is None else picks
        round = Round(k - 1, None, np.arange(len(counts)), m, population, stream(seed, "draws"))
        asking = selector.select(state, round)
        try:
            next(asking)
        except StopIteration as stop:
            found.append(tuple(stop.value.ids.tolist()))
    return found


@pytest.mark.parametrize(("beta", "lam"), [(1.0, 10.0), (0.5, 0.0), (0.3, 2.0)])
def test_draws_follow_the_papers_probabilities(beta, lam):
    rng = np.random.default_rng(3)
    counts, picks, k, times = rng.integers(1, 9, (5, 3)), np.array([0, 4, 1, 2, 9]), 20, 3000
    found = Counter(draws(FedCBS(beta=beta, exploration=lam), counts, 3, times, k, picks))
    expected = {}
    for a in range(5):
        pa = probabilities(counts.tolist(), [], range(5), picks, k, beta, lam, 1e-9)[a]
        for b in set(range(5)) - {a}:
            pb = probabilities(counts.tolist(), [a], set(range(5)) - {a}, picks, k, beta, lam, 1e-9)[b]
            for c in set(range(5)) - {a, b}:
                pc = probabilities(counts.tolist(), [a, b], set(range(5)) - {a, b}, picks, k, beta, lam, 1e-9)[c]
                expected[a, b, c] = pa * pb * pc
    assert sum(expected.values()) == pytest.approx(1)
    chi = sum((found[key] - times * p) ** 2 / (times * p) for key, p in expected.items())
    assert chi < 105  # 59 degrees of freedom: 10^-4 above this


def test_the_sequential_draw_rarely_finds_the_best_set_of_the_papers_example():
    found = Counter(frozenset(one) for one in draws(FedCBS(exploration=0.0, floor=1e-9), FIGURE, 3, 2000))
    assert found[frozenset({0, 2, 3})] / 2000 == pytest.approx(0.07, abs=0.03)
    assert found[frozenset({0, 1, 2})] / 2000 == pytest.approx(0.83, abs=0.05)


def test_the_joint_draw_has_the_law_that_it_names():
    counts = np.array([[4, 1, 1], [1, 4, 1], [1, 1, 4], [6, 1, 2], [2, 2, 2]])
    found = Counter(frozenset(one) for one in draws(FedCBS(draw="joint", beta=0.4, swaps=40), counts, 3, 1500))
    sets = [frozenset(one) for one in combinations(range(5), 3)]
    weight = {one: max(qcid(counts.tolist(), one), 1e-9) ** (-0.4 * 3) for one in sets}
    total = sum(weight.values())
    for one in sets:
        assert found[one] / 1500 == pytest.approx(weight[one] / total, abs=0.05)


def test_clients_of_one_label_each_complete_the_cohort():
    counts = np.kron(np.eye(6, dtype=int) * 20, np.ones((4, 1), int))  # four clients of each of six labels
    for one in draws(load("fed-cbs", beta=50.0, exploration=0.0), counts, 6, 40):
        assert sorted(np.asarray(one) // 4) == list(range(6))


def test_a_steep_preference_draws_among_all_balanced_clients():
    counts = np.array([[9, 1, 1]] * 3 + [[5, 5, 5]] * 4)  # 10⁻⁹ to the power −40 is no float
    first = Counter(one[0] for one in draws(load("fed-cbs", beta=40.0), counts, 1, 200, k=1))
    first += Counter(one[0] for one in draws(load("fed-cbs", beta=40.0), counts, 1, 200, k=30))
    assert set(first) == {3, 4, 5, 6}
    assert min(first.values()) > 50


def test_secure_products_choose_as_shown_counts_do():
    counts = np.random.default_rng(5).integers(0, 20, (15, 4))
    sizes = counts.sum(axis=1)
    shown = Registrar(load("fed-cbs"), Population(sizes, counts), seed=2)
    secure = Registrar(load("fed-cbs", counts="secure", labels=4), Population(sizes), seed=2)
    for t in range(6):
        available = np.flatnonzero(np.random.default_rng(t).random(15) < 0.6)
        turn, hidden = shown.begin(available, 4), secure.begin(available, 4)
        if hidden.question is not None:
            ids = hidden.question.ids
            hidden.answer(Reading(ids, counts[ids] @ counts[ids].T))
        if t == 0:  # later the secure form asks only whom it does not know, and draws the same
            assert hidden.cohort.ids.tolist() == turn.cohort.ids.tolist()
        shown.finish(turn)
        secure.finish(hidden)


def test_rarely_picked_clients_are_explored():
    counts = np.full((6, 3), 5)
    counts[:, 0] = 6  # all alike and not balanced: only the bonus differs
    first = Counter(one[0] for one in draws(FedCBS(exploration=1e6), counts, 1, 1500, k=50, picks=[100] * 5 + [1]))
    assert first[5] / 1500 == pytest.approx(10 / 15, abs=0.06)  # 1/√1 against five times 1/√100


def test_each_client_adds_noise_once():
    counts = np.random.default_rng(5).integers(0, 20, (8, 4))
    registrar = Registrar(load("fed-cbs", epsilon=1.0), Population(counts.sum(axis=1), counts))
    registrar.finish(registrar.begin(np.arange(5), 2))
    first = registrar.state.counts.copy()
    registrar.finish(registrar.begin(np.arange(8), 2))
    assert np.array_equal(registrar.state.counts[:5], first[:5])
    assert not np.array_equal(registrar.state.counts[5:], counts[5:])
    assert registrar.state.noised.all()


def test_without_data_nobody_is_preferred():
    registrar = Registrar(load("fed-cbs"), Population(np.zeros(5, int), np.zeros((5, 3), int)))
    assert registrar.begin(np.arange(5), 3).cohort.ids.size == 3


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [({"beta": -1.0}, r"FedCBS\.beta must be ≥ 0"), ({"floor": 0.0}, r"FedCBS\.floor must be > 0")],
)
def test_bad_parameters_are_named(parameters, sentence):
    with pytest.raises(InputError, match=sentence):
        load("fed-cbs", **parameters)


def test_secure_counts_need_the_number_of_labels_and_few_clients():
    with pytest.raises(InputError, match=r"FedCBS\.labels must be given with counts='secure'"):
        Registrar(load("fed-cbs", counts="secure"), Population(np.ones(5, int)))
    with pytest.raises(InputError, match=r"FedCBS\.counts must be 'shown' beyond 2000 clients"):
        Registrar(load("fed-cbs", counts="secure", labels=3), Population(np.ones(2001, int)))


@pytest.mark.parametrize("product", [1e15, 1e300, 0.0, -1e300])
def test_products_that_cannot_be_stop_nobody(product):
    registrar = Registrar(
        load("fed-cbs", counts="secure", labels=4), Population(np.full(8, 10)), guards=Guards(bound=0, norm=0)
    )
    for _ in range(3):
        turn = registrar.begin(range(8), 4)
        while turn.question is not None:
            turn.answer({k: np.full(8, product if k < 4 else 25.0) for k in range(8)})
        assert np.unique(turn.cohort.ids).size == 4
        registrar.finish(turn)

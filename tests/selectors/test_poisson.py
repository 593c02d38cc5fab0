from __future__ import annotations

import numpy as np
import pytest
from tests.reference import poisson_literal as literal

from sortition.core import InputError, Population, Registrar, stream
from sortition.selectors import load

N = 20
SIZES = np.arange(1, N + 1)


def cohort_of(selector, available=None, budget=5, seed=0):
    registrar = Registrar(selector, Population(SIZES), seed=seed)
    return registrar.begin(np.arange(N) if available is None else available, budget).cohort


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize(("q", "weigh"), [(0.25, "equal"), (0.1, "size"), (None, "size")])
def test_draws_and_weighs_as_the_literal_twin(seed, q, weigh):
    available = np.flatnonzero(np.random.default_rng(seed).random(N) < 0.8)
    cohort = cohort_of(load("poisson", q=q, weigh=weigh), available, seed=seed)
    probability = 5 / N if q is None else q
    coins = stream(seed, "selection", 0).random(available.size).tolist()
    members = literal.sample(available.tolist(), probability, coins)
    w = {k: float(SIZES[k]) if weigh == "size" else 1.0 for k in available.tolist()}
    wanted = literal.estimate(members, w, probability)
    assert cohort.ids.tolist() == members
    np.testing.assert_allclose(cohort.weights, list(wanted.values()), rtol=1e-12)
    assert cohort.expected_size == pytest.approx(probability * available.size)


def test_each_client_is_chosen_with_probability_q_independently_of_the_others():
    registrar = Registrar(load("poisson", q=0.3), Population(SIZES))
    draws = np.zeros((4000, N), bool)
    for row in draws:
        turn = registrar.begin(np.arange(N), 10)
        row[turn.cohort.ids] = True
        registrar.finish(turn)
    assert draws.mean(axis=0) == pytest.approx(np.full(N, 0.3), abs=0.03)
    together = np.corrcoef(draws.T) - np.eye(N)
    assert np.abs(together).max() < 0.08  # a fixed size would give −1/(N − 1) ≈ −0.05 on average
    assert together.sum() / (N * (N - 1)) == pytest.approx(0, abs=0.01)
    assert draws.sum(axis=1).var() == pytest.approx(N * 0.3 * 0.7, rel=0.1)


def test_the_estimate_is_unbiased():
    registrar = Registrar(load("poisson", q=0.2, weigh="size"), Population(SIZES))
    values = np.linspace(-1, 3, N)
    estimates = []
    for _ in range(6000):
        turn = registrar.begin(np.arange(N), 10)
        estimates.append(turn.cohort.weights @ values[turn.cohort.ids])
        registrar.finish(turn)
    assert np.mean(estimates) == pytest.approx(values @ (SIZES / SIZES.sum()), abs=0.05)


def test_the_budget_bounds_the_expected_size():
    cohort = cohort_of(load("poisson", q=0.9), budget=4)
    assert cohort.expected_size == pytest.approx(4)
    assert cohort_of(load("poisson", q=1.0), budget=N).ids.size == N
    assert cohort_of(load("poisson"), available=[0, 1, 2], budget=5).expected_size == pytest.approx(3 * 5 / N)


def test_nobody_may_be_chosen():
    sizes = [cohort_of(load("poisson", q=0.01), seed=seed).ids.size for seed in range(20)]
    assert 0 in sizes


@pytest.mark.parametrize("q", [0.0, -0.1, 1.5])
def test_a_probability_is_above_0_and_at_most_1(q):
    with pytest.raises(InputError, match=r"Poisson.q must be"):
        load("poisson", q=q)


def test_it_reads_sizes_only_where_they_weigh():
    assert load("poisson").needs.reads == ()
    assert load("poisson", weigh="size").needs.reads == ("sizes",)

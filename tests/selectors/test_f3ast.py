from __future__ import annotations

import numpy as np
import pytest
from tests.helpers.playing import play
from tests.mutations import slipped
from tests.reference.f3ast_literal import F3AST as Literal

from sortition.core import InputError
from sortition.selectors import f3ast, load


def differs(seed, released=False, rounds=60):
    """Whether a run is not the literal twin's; in some rounds nobody is available."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 60, 12)
    there = [np.flatnonzero(rng.random(12) < (0.0 if t % 13 == 5 else 0.5)) for t in range(rounds)]
    settings = {"start": "share", "divide": True} if released else {}
    ours, _ = play(load("f3ast", beta=0.05, **settings), rounds, budget=3, sizes=sizes, available=lambda t: there[t])
    twin = Literal(sizes.tolist(), 0.05, 3, released)
    for cohort, available in zip(ours, there, strict=True):
        S, weights = twin.round(available.tolist())
        if cohort.ids.tolist() != S or not np.allclose(cohort.weights, weights, rtol=1e-9):
            return True
    return False


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_chooses_and_weighs_as_the_literal_twin(seed, released):
    assert not differs(seed, released)


@pytest.mark.parametrize(
    ("owner", "name", "right", "wrong"),
    [
        (f3ast.F3AST, "select", "state.rate[chosen] += self.beta", "pass"),
        (f3ast.F3AST, "select", "** n_skipped", "** 0"),
        (f3ast.F3AST, "_start_rates", "1.0)", "0.1)"),
        (f3ast, "_shares_over_rates", "p[ids] / np.maximum", "p[ids] ** 2 / np.maximum"),
    ],
)
def test_a_slip_is_caught(owner, name, right, wrong, monkeypatch):
    monkeypatch.setattr(owner, name, slipped(getattr(owner, name), right, wrong))
    assert any(differs(seed) for seed in range(3))


@pytest.mark.parametrize(
    ("p", "budget", "rates"),
    [
        ((30, 20, 20, 10, 10, 5, 5), 2, (0.6, 0.4, 0.4, 0.2, 0.2, 0.1, 0.1)),  # K p_k where all are available
        ((80, 10, 10), 2, (1.0, 0.5, 0.5)),  # water-filling where K p_1 > 1
    ],
)
def test_rates_are_those_that_minimise_the_variance(p, budget, rates):
    cohorts, registrar = play(load("f3ast", beta=0.002), 6000, budget=budget, sizes=p)
    late = np.bincount(np.concatenate([c.ids for c in cohorts[3000:]]), minlength=len(p)) / 3000
    assert late == pytest.approx(rates, abs=0.02)
    assert registrar.state.rate == pytest.approx(rates, abs=0.02)


@pytest.mark.parametrize(("chance", "rates"), [(0.3, (0.7, 0.3)), (0.8, (0.5, 0.5))])
def test_a_client_that_is_often_away_takes_part_whenever_it_can(chance, rates):
    rng = np.random.default_rng(0)
    there = [np.array([0, 1]) if rng.random() < chance else np.array([0]) for _ in range(6000)]
    cohorts, _ = play(load("f3ast", beta=0.005), 6000, budget=1, sizes=(1, 1), available=lambda t: there[t])
    late = np.bincount(np.concatenate([c.ids for c in cohorts[2000:]]), minlength=2) / 4000
    assert late == pytest.approx(rates, abs=0.03)


def test_weights_are_one_in_the_mean_and_never_rescaled():
    rng = np.random.default_rng(1)
    sizes, away = rng.integers(5, 80, 10), np.linspace(0.2, 0.9, 10)
    there = [np.flatnonzero(rng.random(10) < away) for _ in range(6000)]
    cohorts, _ = play(load("f3ast", beta=0.003), 6000, budget=3, sizes=sizes, available=lambda t: there[t])
    assert all(cohort.mass == "expected" for cohort in cohorts)
    total = np.zeros(10)
    for cohort in cohorts[2000:]:
        total[cohort.ids] += cohort.weights
    assert total / 4000 == pytest.approx(sizes / sizes.sum(), rel=0.1)  # Σ (p_k/r_k) Δ_k is Σ p_k Δ_k in the mean


def test_the_sum_of_rates_goes_to_the_budget():
    # Σr(t) = K + (Σr(0) − K)(1 − β)^t wherever the cohort is full
    cohorts, registrar = play(load("f3ast", beta=0.05, start="share"), 30, budget=4, sizes=np.ones(20))
    assert registrar.state.rate.sum() == pytest.approx(4 + (1 - 4) * 0.95**30)
    assert cohorts[-1].notes["expected_size"] == pytest.approx(registrar.state.rate.sum())


def test_the_released_scale_shrinks():
    cohorts, _ = play(load("f3ast", beta=0.001, start="share", divide=True), 501, budget=10, sizes=np.ones(500))
    assert [cohorts[t].weights.sum() for t in (0, 100, 500)] == pytest.approx([0.67, 0.43, 0.20], abs=0.01)
    unbiased, _ = play(load("f3ast", beta=0.001), 501, budget=10, sizes=np.ones(500))
    assert all(0.94 < cohort.weights.sum() <= 1.001 for cohort in unbiased)


def test_equal_clients_take_turns_and_weights_are_bounded():
    cohorts, _ = play(load("f3ast", beta=0.1), 8, budget=3, sizes=np.ones(12))
    assert [sorted(c.ids.tolist()) for c in cohorts[:4]] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert [c.ids.tolist() for c in cohorts[4:]] == [c.ids.tolist() for c in cohorts[:4]]
    # a client that was away for long weighs at most p_k / β
    late, _ = play(
        load("f3ast", beta=0.1),
        400,
        budget=1,
        sizes=np.ones(4),
        available=lambda t: np.arange(3) if t < 399 else np.arange(4),
    )
    assert late[-1].ids.tolist() == [3]
    assert late[-1].weights[0] == pytest.approx(0.25 / 0.1, rel=1e-6)


def test_clients_without_data_come_last_and_weigh_nothing():
    cohorts, _ = play(load("f3ast"), 5, budget=3, sizes=(5, 0, 5, 0))
    assert all(set(cohort.ids.tolist()) >= {0, 2} for cohort in cohorts)
    assert all(weight == 0 for c in cohorts for k, weight in zip(c.ids, c.weights, strict=True) if k in (1, 3))


def test_bad_parameters():
    with pytest.raises(InputError, match=r"F3AST.beta must be > 0; got 0.0"):
        load("f3ast", beta=0.0)

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tests.mutations import slipped
from tests.reference import ocs_literal as literal

from sortition.core import Guards, InputError, Population, Reading, Registrar, stream
from sortition.selectors import load, ocs

N, M = 14, 4


def turn_of(selector, norms, sizes=None, budget=M, seed=0, guards=None, silent=()):
    """One turn whose norms are given."""
    sizes = np.full(len(norms), 10) if sizes is None else sizes
    registrar = Registrar(selector, Population(sizes), seed=seed, guards=guards)
    turn = registrar.begin(np.arange(len(norms)), budget)
    ids = np.setdiff1d(turn.question.ids, silent)
    turn.answer(Reading(ids, np.asarray(norms, float)[ids]))
    return turn


def differs(seed, rule, iterations=4):
    """Whether a draw is not the literal twin's."""
    rng = np.random.default_rng(seed)
    norms, sizes = rng.lognormal(0, 1.5, N), rng.integers(1, 50, N)
    try:
        cohort = turn_of(load("ocs", rule=rule, iterations=iterations), norms, sizes, seed=seed).cohort
    except InputError:  # more than the budget in expectation
        return True
    w = sizes / sizes.sum()
    u = (w * norms).tolist()
    p = literal.exact(u, M) if rule == "exact" else literal.aocs(u, M, iterations)
    wanted = literal.drawn(p, w.tolist(), stream(seed, "selection", 0).random(N).tolist())
    same = cohort.ids.tolist() == list(wanted) and np.allclose(cohort.weights, list(wanted.values()), rtol=1e-9)
    return not (same and cohort.expected_size == pytest.approx(sum(p)))


@pytest.mark.parametrize("rule", ["exact", "sums"])
def test_draws_and_weighs_as_the_literal_twin(rule):
    assert not any(differs(seed, rule) for seed in range(40))
    assert not any(differs(seed, "sums", iterations=seed % 3) for seed in range(20))


@pytest.mark.parametrize(
    ("owner", "name", "right", "wrong", "rule"),
    [
        (ocs, "optimal_probabilities", "places[last] *", "m *", "exact"),
        (ocs, "optimal_probabilities", "places * ascending <= total", "ascending <= total", "exact"),
        (ocs, "approximate_probabilities", "m - n + count", "m", "sums"),
        (ocs.OCS, "select", "w[sends] / p[sends]", "w[sends]", "exact"),
        (ocs.OCS, "select", "w * norms[pool]", "norms[pool]", "exact"),
    ],
)
def test_a_slip_is_caught(owner, name, right, wrong, rule, monkeypatch):
    monkeypatch.setattr(owner, name, slipped(getattr(owner, name), right, wrong))
    assert any(differs(seed, rule) for seed in range(10))


@pytest.mark.parametrize(
    ("lengths", "m", "p"),
    [
        ((1, 1, 1, 1, 16), 1, (0.05, 0.05, 0.05, 0.05, 0.8)),
        ((1, 1, 1, 1, 16), 2, (0.25, 0.25, 0.25, 0.25, 1)),
        ((1, 1, 1, 1, 16), 3, (0.5, 0.5, 0.5, 0.5, 1)),
        ((1, 2, 3, 4, 30), 2, (0.1, 0.2, 0.3, 0.4, 1)),
        ((30, 2, 3, 4, 1), 3, (1, 0.4, 0.6, 0.8, 0.2)),
        ((2, 2, 2, 2), 3, (0.75, 0.75, 0.75, 0.75)),
        ((0, 0, 5, 1), 2, (0, 0, 1, 1)),  # at most m are not zero: the whole sum arrives
        ((0, 0, 5, 0), 2, (0, 0, 1, 0)),
        ((0, 0, 0, 0), 2, (0.5, 0.5, 0.5, 0.5)),
        ((3, 0, 1), 3, (1, 1, 1)),
    ],
)
def test_probabilities_by_hand(lengths, m, p):
    lengths = np.array(lengths, float)
    assert ocs.optimal_probabilities(lengths, m) == pytest.approx(p)
    assert ocs.approximate_probabilities(lengths, m, 4) == pytest.approx(p)


@pytest.mark.parametrize(("m", "alpha", "gamma"), [(1, 140 / 1040, 0.65), (2, 12 / 390, 0.95588), (3, 4 / 173.333, 0)])
def test_the_improvement_factor(m, alpha, gamma):
    lengths = np.array([1.0, 1, 1, 1, 16])
    found = ocs.variance_ratio(lengths, ocs.optimal_probabilities(lengths, m), m)
    assert found == pytest.approx(alpha, rel=1e-5)
    if gamma:
        assert m / (found * (5 - m) + m) == pytest.approx(gamma, abs=1e-5)  # γ of the paper's theorem
    assert ocs.variance_ratio(np.ones(5), ocs.optimal_probabilities(np.ones(5), m), m) == pytest.approx(1)


def water_filling(lengths, m):
    low, high = 0.0, 2 * m / lengths.min()
    for _ in range(200):
        c = (low + high) / 2
        low, high = (c, high) if np.minimum(1, c * lengths).sum() < m else (low, c)
    return np.minimum(1, low * lengths)


def test_the_closed_form_is_water_filling_and_four_iterations_reach_it():
    rng = np.random.default_rng(3)
    for _ in range(300):
        lengths = rng.lognormal(0, 1.5, 32)
        assert ocs.optimal_probabilities(lengths, 3) == pytest.approx(water_filling(lengths, 3), abs=1e-9)
        assert ocs.approximate_probabilities(lengths, 3, 4) == pytest.approx(
            ocs.optimal_probabilities(lengths, 3), abs=1e-9
        )


def test_variance_falls_from_uniform_over_aocs_to_the_optimum():
    rng = np.random.default_rng(4)
    for _ in range(200):
        n = int(rng.integers(5, 40))
        m, lengths = int(rng.integers(1, n)), rng.lognormal(0, 2.0, n)
        alphas = [ocs.variance_ratio(lengths, ocs.approximate_probabilities(lengths, m, j), m) for j in (1, 2, 4, 8)]
        best = ocs.variance_ratio(lengths, ocs.optimal_probabilities(lengths, m), m)
        assert best <= alphas[-1] + 1e-9
        assert all(more <= less + 1e-9 for less, more in pairwise(alphas))
        assert alphas[0] <= 1 + 1e-9


@pytest.mark.parametrize("rule", ["exact", "sums"])
def test_sums_ranks_and_scale(rule):
    rng = np.random.default_rng(5)
    for _ in range(50):
        lengths = rng.lognormal(0, 1.0, 20)
        made = lambda u: ocs.optimal_probabilities(u, 6) if rule == "exact" else ocs.approximate_probabilities(u, 6, 8)  # noqa: E731
        p = made(lengths)
        assert p.sum() == pytest.approx(6)
        assert (np.diff(p[np.argsort(lengths)]) >= -1e-12).all()
        assert made(lengths * 1e-6) == pytest.approx(p)


def test_what_arrives_is_right_in_the_mean_and_so_is_its_size():
    rng = np.random.default_rng(6)
    updates, sizes = rng.normal(size=(9, 3)) * rng.lognormal(0, 1, 9)[:, None], rng.integers(5, 60, 9)
    norms, w, rounds = np.linalg.norm(updates, axis=1), sizes / sizes.sum(), 4000
    registrar, total, members = Registrar(load("ocs"), Population(sizes)), np.zeros(3), 0
    for _ in range(rounds):
        turn = registrar.begin(np.arange(9), 3)
        turn.answer(Reading(np.arange(9), norms))
        total += turn.cohort.weights @ updates[turn.cohort.ids]
        members += turn.cohort.ids.size
        registrar.finish(turn)
    assert total / rounds == pytest.approx(w @ updates, abs=0.02)
    assert members / rounds == pytest.approx(3, abs=0.05)


def test_a_cohort_may_exceed_the_budget_but_not_in_expectation():
    sizes = {turn_of(load("ocs"), np.ones(N), seed=seed).cohort.ids.size for seed in range(60)}
    assert min(sizes) < M < max(sizes)
    explored = [turn_of(load("ocs"), np.ones(N), seed=s, guards=Guards(explore=0.5)).cohort for s in range(60)]
    assert max(cohort.ids.size for cohort in explored) > M
    assert all(cohort.expected_size == pytest.approx(M) for cohort in explored)


def test_a_pool_trains_and_those_who_are_silent_have_not_trained():
    turn = turn_of(load("ocs", pool=6, weigh="equal"), np.ones(N), silent=(0, 1, 2))
    assert turn.metered_questions[0].n_asked == 6
    assert set(turn.cohort.ids.tolist()) <= set(range(3, N))
    assert turn.cohort.notes["trained"] == turn.metered_questions[0].n_answered
    nobody = turn_of(load("ocs"), np.ones(N), silent=range(N)).cohort
    assert nobody.expected_size == pytest.approx(M)


def test_bad_parameters():
    with pytest.raises(InputError, match=r"OCS.rule must be one of 'exact' or 'sums'; got 'secure'"):
        load("ocs", rule="secure")
    with pytest.raises(InputError, match=r"OCS.pool must be ≥ 1"):
        load("ocs", pool=0)

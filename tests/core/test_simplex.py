from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, nnls
from tests.mutations import slipped

from sortition.core import simplex
from sortition.core.simplex import fit_simplex


def value(a, rows, target, anchor, weight):
    return float(((rows.T @ a - target) ** 2).sum() + weight * ((a - anchor) ** 2).sum())


def problem(seed, n, d, spread=1.0):
    rng = np.random.default_rng(seed)
    return spread * rng.normal(size=(n, d)), rng.normal(size=d) / 4, rng.normal(size=n) / n, 10 ** rng.uniform(-2, 1)


def optimal(a, rows, target, anchor, weight, tolerance=1e-8):
    """Karush, Kuhn and Tucker: feasible, equal slopes where a > 0, none smaller where a = 0."""
    slope = rows @ (rows.T @ a - target) + weight * (a - anchor)
    level = slope[a > 0].mean()
    return (
        abs(a.sum() - 1) < 1e-9
        and a.min() >= 0
        and np.abs(slope[a > 0] - level).max() < tolerance
        and slope.min() > level - tolerance
    )


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(0, 12))
@settings(max_examples=80, deadline=None)
def test_the_weights_are_optimal(seed, n, d):
    given_problem = problem(seed, n, d)
    assert optimal(fit_simplex(*given_problem), *given_problem)


@pytest.mark.parametrize("seed", range(6))
def test_scipy_finds_nothing_better(seed):
    rows, target, anchor, weight = problem(seed, 9, 4)
    ours = fit_simplex(rows, target, anchor, weight)
    theirs = minimize(
        value,
        np.full(9, 1 / 9),
        (rows, target, anchor, weight),
        method="SLSQP",
        bounds=[(0, None)] * 9,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert value(ours, rows, target, anchor, weight) <= theirs.fun + 1e-9
    assert ours == pytest.approx(theirs.x, abs=1e-5)


def test_nonnegative_least_squares_with_a_heavy_row_come_near():
    rows, target, anchor, weight = problem(3, 12, 5)
    heavy = 1e5
    stacked = np.vstack([rows.T, np.sqrt(weight) * np.eye(12), np.full((1, 12), heavy)])
    near, _ = nnls(stacked, np.concatenate([target, np.sqrt(weight) * anchor, [heavy]]))
    assert fit_simplex(rows, target, anchor, weight) == pytest.approx(near, abs=1e-6)


def test_without_features_it_is_the_projection_onto_the_simplex():
    anchor = np.array([0.5, 0.4, -0.3, 0.2])
    assert fit_simplex(np.zeros((4, 0)), np.zeros(0), anchor, 2.0) == pytest.approx(
        [0.4666667, 0.3666667, 0, 0.1666667]
    )


def test_members_that_are_not_wanted_weigh_exactly_nothing():
    rows = np.array([[1.0], [-1.0], [30.0]])
    assert fit_simplex(rows, np.zeros(1), np.array([0.5, 0.5, 0.0]), 0.1).tolist() == [0.5, 0.5, 0.0]


def test_many_members_and_one():
    assert fit_simplex(np.ones((1, 3)), np.zeros(3), np.zeros(1), 1.0).tolist() == [1.0]
    given_problem = problem(0, 800, 10, spread=5.0)
    assert optimal(fit_simplex(*given_problem), *given_problem)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("_minimise_on_plane", "1.0 - unconstrained", "0.9 - unconstrained"),  # weights sum to less than 1
        ("fit_simplex", "free[multiplier.argmin()] = True", "break"),  # who reached 0 never comes back
        ("_solve", "rows.T @ rows + weight", "rows.T @ rows + 2 * weight"),  # Woodbury with another λ
    ],
)
def test_a_slip_is_caught(name, right, wrong, monkeypatch):
    monkeypatch.setattr(simplex, name, slipped(getattr(simplex, name), right, wrong))
    given_problems = (problem(seed, 40, d, spread=3.0) for seed in range(50) for d in (3, 15))
    problems = [(2 + rows, *rest) for rows, *rest in given_problems]
    assert not all(optimal(simplex.fit_simplex(*one), *one) for one in problems)

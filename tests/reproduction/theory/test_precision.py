from __future__ import annotations

import numpy as np
import pytest

from sortition.reproduction.theory.precision import StrataOfQuadratics, check_precision, precision_bound

WORLD = StrataOfQuadratics(np.array([3, 2]), np.array([0.5, 2.0]))


def test_the_bound_by_hand():
    # β = 2, μ = 1, EM = 3, T = 4: α₁ = 15; C₁ = 0.1 + 12·0.5 + 16·4·2 = 134.1, C₂ = 36·0.25 = 9, start 4·3 = 12
    found = precision_bound(
        beta=2.0,
        mu=1.0,
        steps=3,
        rounds=np.array([4]),
        gradient_noise=0.1,
        heterogeneity=0.5,
        largest_gradient=2.0,
        sampling_error=0.25,
        distance=3.0,
    )
    assert found == pytest.approx(4 / 27 * (134.1 + 9 + 12))


def test_the_optimum_is_the_mean_of_all_optima():
    best = WORLD.optima.mean(axis=0)
    assert WORLD.gap(best) == pytest.approx(0)
    assert WORLD.gap(best + np.eye(2)) == pytest.approx([0.25, 1.0])
    losses = 0.5 * (WORLD.curvature * (best - WORLD.optima) ** 2).sum(axis=1)
    assert WORLD.heterogeneity == pytest.approx(losses.mean())


def test_theorem_1_and_its_lemmas_hold():
    check = check_precision(WORLD, np.array([1, 1]), rounds=8, steps=4, repeats=300)
    assert (check.gap < check.bound).all()
    assert check.lemma4.tightest < 1
    assert check.lemma5.typical == pytest.approx(1, abs=0.03)  # an equality, up to chance
    assert check.lemma6.tightest < 1
    assert check.gap[-1] < check.gap[0]


def test_a_larger_sample_is_nearer():
    few = check_precision(WORLD, np.array([1, 1]), rounds=8, steps=4, repeats=300)
    all_of_them = check_precision(WORLD, np.array([3, 2]), rounds=8, steps=4, repeats=300)
    assert all_of_them.gap[-1] < few.gap[-1]
    assert all_of_them.bound[-1] < few.bound[-1]

from __future__ import annotations

import numpy as np
import pytest

from sortition.reproduction.theory.representation import error_bound, estimation_error, represented_by


def test_a_cohort_by_hand():
    """Clients at 0, 1 and 5; 0 stands for 0 and 1, 5 for itself: the error and the bound are both 1."""
    gradients, cohort = np.array([[0.0], [1.0], [5.0]]), np.array([0, 2])
    assert represented_by(gradients, cohort).tolist() == [0, 0, 1]
    assert estimation_error(gradients, cohort) == pytest.approx(1)
    assert error_bound(gradients, cohort) == pytest.approx(1)


def test_deviations_to_both_sides_cancel_in_the_error_alone():
    gradients = np.array([[-1.0], [0.0], [1.0]])
    assert estimation_error(gradients, np.array([1])) == pytest.approx(0)
    assert error_bound(gradients, np.array([1])) == pytest.approx(2)


def test_theorem_1_holds_for_random_cohorts():
    rng = np.random.default_rng(0)
    for _ in range(50):
        gradients = rng.normal(size=(9, 3))
        cohort = rng.choice(9, size=3, replace=False)
        assert estimation_error(gradients, cohort) <= error_bound(gradients, cohort) + 1e-12

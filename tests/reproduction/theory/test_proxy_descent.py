from __future__ import annotations

import numpy as np
import pytest

from sortition.reproduction.theory.proxy_descent import QuadraticClients, descend_by_proxy


def test_the_optimum_of_a_cohort_has_no_gradient():
    world = QuadraticClients.draw(6, 3, apart=1.0)
    cohort = np.array([0, 4, 5])
    assert world.gradients(world.optimum(cohort))[cohort].mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-12)
    everybody = np.arange(6)
    assert world.loss(world.optimum(everybody)) < world.loss(world.optimum(cohort))


def test_with_one_optimum_the_theorem_holds():
    world = QuadraticClients.draw(8, 3, apart=0.0)
    found = descend_by_proxy(world, rounds=40, cohort=2)
    assert found.distance[-1] < 1e-6 * found.distance[0]
    assert found.gap[-1] == pytest.approx(0, abs=1e-9)
    assert found.needed.max() == 0  # all cohorts have the same optimum


def test_with_optima_of_their_own_the_gap_falls_and_the_distance_stays():
    world = QuadraticClients.draw(8, 3, apart=1.0)
    found = descend_by_proxy(world, rounds=400, cohort=2)
    assert found.gap[-40:].mean() < 0.05 * found.gap[0]
    assert found.distance[-40:].mean() > 0.1
    assert found.needed.max() > 100 * found.needed[:10].max()

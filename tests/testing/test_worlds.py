from __future__ import annotations

import numpy as np
import pytest

from sortition.core import LOSS, PRODUCTS, UPDATE, Cohort, Measure
from sortition.selectors import load
from sortition.testing import QuadraticWorld, ScriptedWorld, play


def test_a_script_depends_on_signal_round_and_client_alone():
    world = ScriptedWorld()
    whole = world.measure(Measure(LOSS, np.arange(40)), 3)
    part = world.measure(Measure(LOSS, np.array([31, 5])), 3)
    assert part.values.tolist() == whole.values[[31, 5]].tolist()
    assert (world.measure(Measure(LOSS, np.arange(40)), 4).values != whole.values).any()
    assert world.measure(Measure(UPDATE, np.array([1])), 0).values.shape == (1, 10)
    assert world.measure(Measure(PRODUCTS, np.array([1, 2])), 0).values.shape == (2, 2)


def test_a_rehearsal_moves_a_copy():
    world = QuadraticWorld(6)
    now = world.losses()
    after = world.measure(Measure(LOSS, np.arange(6), after=Cohort.uniform([0, 1, 2])), 0).values
    assert (world.model == 0).all()
    world.train(Cohort.uniform([0, 1, 2]), (), 0)
    assert world.losses() == pytest.approx(after)
    assert not np.allclose(after, now)


def test_training_everybody_reduces_the_mean_loss():
    world = QuadraticWorld(12)
    before = world.losses().mean()
    play(load("full"), world, 20)
    assert world.losses().mean() < before
    # the minimum of the mean of quadratics is their weighted centre
    play(load("full"), world, 200)
    p = world.population.sizes / world.population.sizes.sum()
    assert world.model == pytest.approx(p @ world.centres, abs=1e-6)

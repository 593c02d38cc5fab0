import numpy as np
import pytest

from sortition.reproduction.theory.long_term import gap_exponent, play_long_run
from sortition.selectors import load


def test_queues_grow_slower_than_the_number_of_rounds():
    short, long = (play_long_run(load("longfed"), rounds, budget=4) for rounds in (30, 120))
    assert 0 < long.queue < short.queue / 2


def test_a_method_without_queues_has_none_and_full_participation_is_nearest():
    uniform, full = (play_long_run(load(name), 60, budget=4) for name in ("uniform", "full"))
    assert uniform.queue == full.queue == 0
    assert full.gap < uniform.gap


def test_the_exponent_of_a_power():
    horizons = np.array([10, 100, 1000])
    assert gap_exponent(horizons, 3 * horizons**-0.5) == pytest.approx(-0.5)

from __future__ import annotations

import numpy as np
import pytest

from sortition.selectors._parts.availability_chain import count, estimates


def test_estimates_find_the_chain_that_made_the_rounds():
    rng = np.random.default_rng(0)
    pi, correlation = np.array([0.1, 0.5, 0.8]), np.array([0.9, 0.0, 0.5])
    moves, before, now = np.zeros((3, 4), int), np.zeros(3, bool), rng.random(3) < pi
    for t in range(40_000):
        count(moves, before, np.flatnonzero(now), int(t > 0))
        now = rng.random(3) < correlation * now + (1 - correlation) * pi
    found = estimates(moves)
    assert found[0] == pytest.approx(pi, abs=0.03)
    assert found[1] == pytest.approx(correlation, abs=0.03)


def test_rounds_in_which_nobody_was_available_are_counted():
    moves, before = np.zeros((2, 4), int), np.zeros(2, bool)
    count(moves, before, np.array([0]), 0)
    assert not moves.any()  # the first round moves nobody
    count(moves, before, np.array([1]), 3)  # in the two rounds between nobody was available
    assert moves.tolist() == [[2, 0, 1, 0], [2, 1, 0, 0]]
    assert before.tolist() == [False, True]

from __future__ import annotations

import numpy as np
import pytest

from sortition.core import InputError
from sortition.results.fairness import individual_fairness, selection_counts, sigma

# two groups: {0, 1, 2} within 1 of each other, {3} alone
DISTANCE = np.array([[0, 1, 1, 9.0], [1, 0, 1, 9], [1, 1, 0, 9], [9, 9, 9, 0]])


def test_sigma_by_hand():
    # the three of the first group each see counts (1, 2, 6): mean 3, variance (4 + 1 + 9)/3; client 3 sees itself
    expected = 3 * np.sqrt(14 / 3) / 4
    assert sigma([1, 2, 6, 50], DISTANCE, 2.0) == pytest.approx(expected)


def test_sigma_counts_those_nearer_than_epsilon_and_oneself():
    assert sigma([1, 2, 6, 50], DISTANCE, 1.0) == 0.0  # strictly nearer: nobody else
    assert sigma([1, 2, 6, 50], DISTANCE, 0.0) == 0.0
    assert sigma([3, 3, 3, 50], DISTANCE, 2.0) == 0.0
    assert sigma([1, 2, 6, 50], DISTANCE, 10.0) == pytest.approx(np.std([1, 2, 6, 50]))


def test_individual_fairness_by_hand():
    found = individual_fairness([1, 2, 6, 50], 10, DISTANCE, epsilon=1.0, delta=0.4)
    assert not found.holds
    assert (found.similar, found.violated) == (3, 1)  # 0–1: 0.1, 1–2: 0.4 (allowed), 0–2: 0.5
    assert found.widest == pytest.approx(0.5)
    assert individual_fairness([1, 2, 6, 50], 10, DISTANCE, epsilon=1.0, delta=0.5).holds
    alone = individual_fairness([1, 2, 6, 50], 10, DISTANCE, epsilon=0.5, delta=0.0)
    assert (alone.holds, alone.similar, alone.widest) == (True, 0, 0.0)


def test_counts():
    assert selection_counts([[0, 2], [2], []], 4).tolist() == [1, 0, 2, 0]


def test_bad_input():
    with pytest.raises(InputError, match=r"fairness.distance must be of shape \(3, 3\)"):
        sigma([1, 2, 3], DISTANCE, 1.0)
    with pytest.raises(InputError, match=r"fairness\.epsilon must be ≥ 0"):
        sigma([1, 2, 3, 4], DISTANCE, -1.0)
    with pytest.raises(InputError, match="rounds must be ≥ 1"):
        individual_fairness([1, 2, 3, 4], 0, DISTANCE, 1.0, 0.1)

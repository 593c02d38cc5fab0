import numpy as np
import pytest

from sortition.selectors._parts.availability_forecast import chance, count, grown


def test_the_chance_is_the_mean_of_the_posterior():
    stayed, seen = grown(np.zeros((3, 0), int), 3, 2), grown(np.zeros((3, 0), int), 3, 2)
    for now in ([1, 0, 1], [1, 1, 0], [0, 0, 1]):
        count(stayed, seen, np.array([1, 1, 0], bool), np.array(now, bool), 1)
    assert chance(stayed, seen, np.arange(3), 1) == pytest.approx([3 / 5, 2 / 5, 1 / 2])
    assert chance(stayed, seen, np.arange(3), 0) == pytest.approx([1 / 2] * 3)


def test_counts_that_exist_are_kept():
    table = np.ones((2, 4), int)
    assert grown(table, 2, 4) is table


def test_it_finds_the_rates_of_a_chain():
    rng = np.random.default_rng(0)
    rates = np.array([0.9, 0.5, 0.1])
    stayed, seen = np.zeros((3, 1), int), np.zeros((3, 1), int)
    for _ in range(4000):
        count(stayed, seen, np.ones(3, bool), rng.random(3) < rates, 0)
    assert chance(stayed, seen, np.arange(3), 0) == pytest.approx(rates, abs=0.03)

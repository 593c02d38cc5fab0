import math

import numpy as np
import pytest

from sortition.results.ranking import (
    Ranking,
    count_verdicts,
    critical_difference,
    find_groups,
    performance_profiles,
    rank_methods,
)
from sortition.results.statistics import compare


def test_mean_ranks_and_their_critical_difference():
    values = {
        "easy": {"a": 0.9, "b": 0.8, "c": 0.7},
        "hard": {"a": 0.5, "b": 0.6, "c": 0.4},
        "odd": {"a": 3, "b": 2, "c": 1},
    }
    found = rank_methods(values, higher=True)
    assert found.ranks == pytest.approx({"a": 4 / 3, "b": 5 / 3, "c": 3.0})
    assert found.settings == 3
    # Demšar's table: q = 2.343 for three methods; CD = q √(k (k + 1) / 6 n)
    assert found.critical == pytest.approx(2.343 * math.sqrt(3 * 4 / 18), abs=2e-3)
    assert 0 < found.p < 1
    assert list(rank_methods(values, higher=False).ranks) == ["c", "b", "a"]


@pytest.mark.parametrize("higher", [True, False])
def test_what_diverged_is_the_worst_of_its_setting(higher):
    sign = 1 if higher else -1
    values = {"x": {"a": 1.0 * sign, "b": math.nan, "c": 2.0 * sign}, "y": {"a": 1.0, "b": 1.0, "c": 1.0}}
    assert rank_methods(values, higher=higher).ranks == pytest.approx({"c": 1.5, "a": 2.0, "b": 2.5})


def test_only_methods_that_every_setting_has_are_ranked():
    assert rank_methods({"one": {"a": 1.0, "b": 2.0}, "two": {"a": 1.0, "c": 2.0}}, higher=True).ranks == {"a": 1.0}
    assert rank_methods({}, higher=True).ranks == {}


def test_a_single_setting_ranks_and_shows_nothing():
    found = rank_methods({"only": {"a": 1.0, "b": 2.0, "c": 1.0, "d": math.nan}}, higher=True)
    assert found.ranks == {"b": 1.0, "a": 2.5, "c": 2.5, "d": 4.0}, "equal methods share their rank"
    assert found.groups() == [["b", "a", "c", "d"]]
    assert math.isnan(found.p)


def test_groups_are_the_largest_sets_of_neighbours():
    found = Ranking({"a": 1.0, "b": 1.5, "c": 2.4, "d": 4.0}, 5, 1.0, math.nan)
    assert found.groups() == [["a", "b"], ["b", "c"]]
    assert find_groups({"a": 1.0, "b": 3.0}, 1.0) == []
    assert find_groups({"c": 1.2, "b": 1.1, "a": 1.0}, 1.0) == [["a", "b", "c"]]
    assert find_groups({"a": 1.0, "b": 2.0}, 1.0) == [], "ranks that are the critical difference apart differ"


def test_the_critical_difference_is_nemenyis():
    """Demšar 2006, table 5: q for 5 methods is 2.728 at 5 %."""
    assert critical_difference(5, 30) == pytest.approx(2.728 * np.sqrt(5 * 6 / (6 * 30)), rel=1e-3)


def test_wins_count_verdicts():
    found = compare([0.0] * 4, {"a": [0.1, 0.11, 0.1, 0.12], "b": [0.0, 0.0, 0.0, 0.0]})
    counted = count_verdicts([found, found])
    assert counted["a"]["better"] == 2
    assert counted["b"]["practically equal"] == 2


def test_profiles_by_hand():
    # best: 10, 10, 5; a needs 1, 2 and never; b needs 2, 1 and 1 times as much; the last problem nobody solves
    costs = {"a": np.array([10.0, 20, np.inf, np.inf]), "b": np.array([20.0, 10, 5, np.inf])}
    found = performance_profiles(costs, np.array([1.0, 2.0]))
    assert found["a"] == pytest.approx([1 / 3, 2 / 3])
    assert found["b"] == pytest.approx([2 / 3, 1.0])

from __future__ import annotations

import numpy as np
import pytest

from sortition.core import InputError, Measure, Reading


def test_values_travel_with_their_ids():
    reading = Reading(np.array([7, 2, 9]), np.array([1.0, 5.0, 3.0]))
    assert reading.largest(2).tolist() == [2, 9]  # ids, never positions
    assert reading.restrict([9, 7, 100]).ids.tolist() == [7, 9]
    table = reading.scatter(np.zeros(10))
    assert table[[7, 2, 9]].tolist() == [1.0, 5.0, 3.0]
    assert table.sum() == 9.0


def test_ties_go_to_the_lowest_id_or_to_the_lot():
    reading = Reading(np.array([7, 2, 9, 4]), np.ones(4))
    assert reading.largest(2).tolist() == [2, 4]
    drawn = {tuple(sorted(reading.largest(2, np.random.default_rng(s)).tolist())) for s in range(60)}
    assert len(drawn) == 6  # every pair comes up


@pytest.mark.parametrize(
    ("ids", "values", "sentence"),
    [
        ([1, 1], [0.0, 0.0], "ids must be distinct"),
        ([1, 2], [0.0], "one row per id, 2 in all"),
        ([1], ["x"], "values must be numbers"),
    ],
)
def test_bad_readings(ids, values, sentence):
    with pytest.raises(InputError, match=sentence):
        Reading(np.array(ids), np.array(values))


def test_a_question_needs_a_signal():
    with pytest.raises(InputError, match=r"Measure\.signal must be a Signal"):
        Measure("loss", np.array([1]))


def test_empty():
    assert len(Reading.empty()) == 0
    assert Reading.empty().largest(3).size == 0

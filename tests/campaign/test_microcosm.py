"""The suite's runs are played again as they were; long tails are what their names say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from campaign.microcosm import LONG_TAIL_DIGITS, long_tailed
from campaign.suite_clients import METHOD, STORED, ClientOutcome, played, suite_runs, table

from sortition.data import load
from sortition.leaderboard.figures import Curve
from sortition.leaderboard.run_rows import cell_file, read_rows
from sortition.leaderboard.tracks import load_tracks

CELL = "s-digits-styles-ln-over1.3"
OUTCOME = ClientOutcome(
    cell="a", method="uniform", seed=0, area=50.0, worst=30.0, mean=60.0, same_choices=True, seconds=6.0
)


def test_a_run_of_the_suite_is_played_as_it_is_stored():
    suite = load_tracks()
    first, second, *_ = suite_runs(suite, [CELL], seeds=2)
    assert (first.key, second.key) == ((CELL, "uniform", 0), (CELL, METHOD, 0))
    stored = read_rows(cell_file(STORED, first.cell)).filter(label="uniform", seed=0).row(0, named=True)
    outcome = played(suite, first, stored["choices"])
    curve = Curve(
        position=np.array(stored["clocks"]),
        accuracy=np.array(stored["accuracies"]),
        budget=first.cell.seconds,
        by_time=True,
    )
    assert outcome.same_choices is True
    assert outcome.area == pytest.approx(100 * curve.area(), abs=0.01)
    assert 0 < outcome.worst < outcome.mean < 100
    assert played(suite, first, "another digest").same_choices is False


def test_gains_are_of_pairs_and_the_mean_is_over_cells():
    outcomes = [
        OUTCOME,
        replace(OUTCOME, method=METHOD, worst=34.0, mean=61.0),
        replace(OUTCOME, seed=1, worst=99.0),  # has no partner
        replace(OUTCOME, cell="b"),
        replace(OUTCOME, cell="b", method=METHOD, worst=32.0, same_choices=False),
    ]
    lines = table(outcomes).splitlines()
    assert lines[2] == "| `a` | 1 | 30.0 | +4.0 | +1.0 |"
    assert lines[3] == "| `b` | 1 | 30.0 | +2.0 | +0.0 |"
    assert lines[4].startswith("| mean of 2 cells | | | +3.0 [-9.7, +15.7] | +0.5 [")  # t₁ = 12.7, standard error 1
    assert lines[-1] == "5 runs, 4 with the stored choices, 0.5 core-minutes"


def test_a_long_tail_is_unequal_in_training_and_equal_in_the_test(tmp_path):
    tail = load(str(long_tailed(tmp_path, LONG_TAIL_DIGITS)))
    assert np.bincount(tail.y_train).tolist() == [140, 97, 67, 46, 32, 22, 15, 10, 7, 5]
    assert np.bincount(tail.y_test).tolist() == [30] * 10
    assert np.asarray(tail.scaled().x_train).max() == 1.0  # pixels of digits are 0 to 16 in their own file

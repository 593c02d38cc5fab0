"""Ranks, tests, effects, profiles and sensitivity on results that were made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.leaderboard.small_tracks import made_up_rows, made_up_suite

from sortition.leaderboard.inference import TrackBoard, holm_adjusted, rows_over_cap, signed_rank_p
from sortition.leaderboard.track_tables import family_table, sensitivity_table, standings_table, verdict_sentences
from sortition.results.statistics import LEVEL, holm

RNG = np.random.default_rng(7)
UNIFORM = 0.5 + 0.02 * RNG.standard_normal(12)
LEVELS = {
    "uniform": UNIFORM,
    "good": UNIFORM + 0.08 + 0.005 * np.arange(12),
    "alike": UNIFORM + 0.01 * np.array([1, -1] * 6) * np.arange(1, 13),
    "bad": UNIFORM - 0.1 - 0.004 * np.arange(12),
}


def board_of(folder: Path, **options: object) -> TrackBoard:
    suite = made_up_suite(folder)
    return TrackBoard(suite, suite.cell, made_up_rows(suite, LEVELS, **options))  # type: ignore[arg-type]


def test_rows_are_ranked_over_cells(tmp_path: Path) -> None:
    board = board_of(tmp_path)
    standings = board.standings()
    assert standings[0].row == "good"
    assert standings[-1].row == "bad"
    assert standings[0].ranks["area"] < 1.5
    assert standings[0].better == 12
    assert standings[-1].worse == 12
    assert standings[-1].worst_cell == "cell-11"
    assert standings[-1].worst_gain == pytest.approx(-0.144)


def test_tests_against_uniform_and_the_leader_are_corrected_together(tmp_path: Path) -> None:
    board = board_of(tmp_path)
    tests = board.baseline_tests
    assert set(tests) == {"good", "alike", "bad"}
    assert tests["good"].p == pytest.approx(2 / 2**12)
    assert tests["good"].separated
    assert tests["bad"].separated
    assert not tests["alike"].separated
    adjusted = holm_adjusted([tests[row].p for row in tests])
    assert [tests[row].adjusted for row in tests] == adjusted
    assert board.leader_tests["bad"].against == "good"
    assert board.leader_tests["good"].against in ("alike", "uniform")


def test_adjusted_p_values_reject_what_holms_procedure_rejects() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        p_values = (rng.random(8) ** 4).tolist()
        assert [p < LEVEL for p in holm_adjusted(p_values)] == holm(p_values)
    assert holm_adjusted([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert signed_rank_p([0.0, 0.0]) == 1.0


def test_families_weigh_equally_whatever_their_number_of_cells(tmp_path: Path) -> None:
    suite = made_up_suite(tmp_path, cells=4)  # labels has two cells, the others one each
    levels = {"uniform": [0.5] * 4, "mine": [0.6, 0.5, 0.5, 0.8]}
    board = TrackBoard(suite, suite.cell, made_up_rows(suite, levels))
    (mine,) = [row for row in board.standings() if row.row == "mine"]
    assert mine.by_family == pytest.approx({"labels": 0.2, "sizes": 0.0, "noise": 0.0})
    assert mine.gain == pytest.approx(0.2 / 3)


def test_intervals_hold_the_gain_and_grow_with_the_noise_of_seeds(tmp_path: Path) -> None:
    quiet = {row.row: row for row in board_of(tmp_path).standings()}["good"]
    noisy = {row.row: row for row in board_of(tmp_path, noise=0.1).standings()}["good"]
    assert quiet.low < quiet.gain < quiet.high
    assert noisy.high - noisy.low > quiet.high - quiet.low


def test_failed_runs_are_the_worst_and_stay(tmp_path: Path) -> None:
    board = board_of(tmp_path, failed=["good"])
    last = board.standings()[-1]
    assert last.row == "good"
    assert last.failures == 36
    assert last.gain < -0.4


def test_a_row_without_all_runs_is_not_ranked(tmp_path: Path) -> None:
    suite = made_up_suite(tmp_path)
    rows = made_up_rows(suite, LEVELS)
    lacking = rows.filter(~((rows["row"] == "good") & (rows["cell"] == "cell-03") & (rows["seed"] == 2)))
    board = TrackBoard(suite, suite.cell, lacking)
    assert board.unfinished == {"good": 1}
    assert "good" not in [row.row for row in board.standings()]
    without_baseline = TrackBoard(suite, suite.cell, rows.filter(rows["row"] != "uniform"))
    assert without_baseline.complete == []


def test_a_row_that_took_too_many_hours_is_not_ranked(tmp_path: Path) -> None:
    suite = made_up_suite(tmp_path)
    rows = made_up_rows(suite, LEVELS)
    slow = rows.with_columns(seconds=pl.when(pl.col("row") == "good").then(pl.lit(400.0)).otherwise("seconds"))
    assert rows_over_cap(rows) == []
    assert rows_over_cap(slow) == ["good"]
    board = TrackBoard(suite, suite.cell, slow, over_cap=rows_over_cap(slow))
    assert "good" not in board.complete
    assert "good" not in board.unfinished


def test_profiles_count_cells_within_a_factor_of_the_best(tmp_path: Path) -> None:
    suite = made_up_suite(tmp_path, cells=2)
    levels = {"uniform": [0.5, 0.8], "other": [0.75, 0.6]}
    profiles = TrackBoard(suite, suite.cell, made_up_rows(suite, levels)).error_profiles()
    assert profiles["uniform"][0] == 0.5  # the best in one of two cells
    assert profiles["uniform"][-1] == 1.0  # errors 0.5 against 0.25: twice


def test_sensitivity_names_who_is_first_without_a_data_set(tmp_path: Path) -> None:
    suite = made_up_suite(tmp_path)
    uniform = np.full(12, 0.5)
    only_digits = uniform + np.where(np.arange(12) < 4, 0.3, -0.01)
    steady = uniform + 0.02
    rows = made_up_rows(suite, {"uniform": uniform, "steady": steady, "only-digits": only_digits})
    board = TrackBoard(suite, suite.cell, rows)
    by_data = {entry.left_out: entry for entry in board.sensitivity()}
    assert by_data["digits"].cells == 8
    assert by_data["digits"].leader == "steady"
    assert by_data["digits"].gain == pytest.approx(0.02)


def test_seconds_to_target_are_judged_where_time_is(tmp_path: Path) -> None:
    suite = made_up_suite(tmp_path, cells=3, timed=True)
    levels = {"uniform": [0.5] * 3, "slow": [0.4] * 3}
    board = TrackBoard(suite, suite.cell, made_up_rows(suite, levels))
    assert board.targets == {cell.name: pytest.approx(0.5) for cell in suite.cell}
    rows = {row.row: row for row in board.standings()}
    assert rows["uniform"].reached == (9, 9)
    assert rows["slow"].reached == (0, 9)
    assert rows["uniform"].ranks["seconds"] < rows["slow"].ranks["seconds"]


def test_tables_and_words_say_who_is_not_separated(tmp_path: Path) -> None:
    board = board_of(tmp_path)
    assert len(standings_table(board).rows) == 4
    assert len(family_table(board).rows) == 3
    assert len(sensitivity_table(board).rows) == 3
    words = " ".join(verdict_sentences(board))
    assert "First by mean rank is good" in words
    assert "Separated from uniform, and worse: bad." in words


def test_words_say_where_our_own_method_loses(tmp_path: Path) -> None:
    suite = made_up_suite(tmp_path, cells=3)
    levels = {"uniform": [0.5, 0.5, 0.5], "microcosm": [0.7, 0.7, 0.4], "oort": [0.6, 0.8, 0.5]}
    words = " ".join(verdict_sentences(TrackBoard(suite, suite.cell, made_up_rows(suite, levels))))
    lost = "cell-01 (oort, by 10.0), cell-02 (uniform, by 10.0)"
    assert f"In 2 of 3 federations microcosm is beaten by a method of others: {lost}." in words
    assert "microcosm does not gain over uniform in noise (by family)." in words
    assert "methods of others besides uniform" not in words  # our default is not separated from uniform
    assert "not separated from uniform in the tests of all rows against uniform (p = " in words
    assert "In the tests of the first row against every other row, it is separated from none of them" in words


def test_the_losses_named_are_those_of_our_default_though_another_form_is_before_it(tmp_path: Path) -> None:
    suite = made_up_suite(tmp_path, cells=3)
    levels = {
        "uniform": [0.5, 0.5, 0.5],
        "microcosm": [0.7, 0.7, 0.7],
        "microcosm-secure": [0.8, 0.8, 0.8],
        "oort": [0.6, 0.7001, 0.5],
    }
    words = " ".join(verdict_sentences(TrackBoard(suite, suite.cell, made_up_rows(suite, levels))))
    assert "In 1 of 3 federations microcosm is beaten by a method of others: cell-01 (oort, by less than 0.1)." in words


def test_words_say_whose_runs_ended_at_the_cap_before_the_time_budget(tmp_path: Path) -> None:
    suite = made_up_suite(tmp_path, cells=3, timed=True)
    rows = made_up_rows(suite, {"uniform": [0.5] * 3, "fedcs": [0.6] * 3, "oort": [0.4] * 3})
    cell = suite.cell[0]
    assert cell.seconds is not None
    cap = int(suite.setting(cell)["rounds"])
    early = (pl.col("row") == "fedcs") & (pl.col("cell") == cell.name) & (pl.col("seed") < 2)
    at_the_budget = (pl.col("row") == "oort") & (pl.col("cell") == cell.name)
    rows = rows.with_columns(
        rounds=pl.when(early | at_the_budget).then(cap).otherwise("rounds").cast(pl.Int32),
        clock=pl.when(early).then(cell.seconds / 2).when(at_the_budget).then(cell.seconds).otherwise("clock"),
    )
    board = TrackBoard(suite, suite.cell, rows)
    assert board.capped["fedcs"] == 2
    assert board.capped["oort"] == 0
    assert "of 9 a row: fedcs 2. What these rows" in " ".join(verdict_sentences(board))


def test_words_say_from_whom_our_default_is_separated(tmp_path: Path) -> None:
    suite = made_up_suite(tmp_path)
    levels = {
        "uniform": UNIFORM,
        "microcosm": UNIFORM + 0.05 + 0.001 * np.arange(12),
        "better": UNIFORM + 0.09 + 0.002 * np.arange(12),
        "like": UNIFORM + 0.055 + 0.01 * np.array([1, -1] * 6) * np.arange(1, 13),
        "microcosm-secure": UNIFORM + 0.2,
        "below": UNIFORM + 0.01 + 0.0005 * np.arange(12),
    }
    words = " ".join(verdict_sentences(TrackBoard(suite, suite.cell, made_up_rows(suite, levels))))
    assert "is ahead of, and separated from, 1 of 3 methods of others besides uniform" in words
    assert "Holm over 3 tests: p ≤" in words
    assert "; not separated: like; behind: better." in words

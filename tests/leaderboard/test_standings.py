from __future__ import annotations

import polars as pl
from tests.leaderboard.rows import table

from sortition.leaderboard.board import Board
from sortition.leaderboard.published import PublishedRow
from sortition.leaderboard.standings import points_text, standing_lines, what_server_knows
from sortition.leaderboard.suite import load_suite

SUITE = load_suite()
GAINS = {"uniform": 0.0, "good": 0.05, "spy": 0.02}


def test_where_a_method_stands():
    board = Board(SUITE, SUITE.cells("held-out"), table(SUITE, GAINS))
    good, nobody = standing_lines(board, ["good", "nobody"])
    assert good.startswith("good: 1 of 3 by AUC (+5.0 points, better in 16 cells, worse in 0)")
    assert nobody == "nobody: not ranked yet, 0 runs in these cells."


def test_what_a_method_asks_and_what_comes_with_updates_are_told_apart():
    rows = table(SUITE, GAINS).with_columns(asks=pl.lit("loss"), reports=pl.lit("bias-update"))
    assert what_server_knows(rows, "good") == "sizes; asks loss; with updates: bias-update"


def test_a_gain_that_rounds_to_zero_has_no_minus():
    assert [points_text(gain) for gain in (-0.0004, 0.0, -0.0006)] == ["+0.0", "+0.0", "-0.1"]
    row = PublishedRow(
        row="fedcs",
        information="public",
        rank=2.0,
        gain=-0.04,
        low=-0.01,
        high=0.0,
        separated=False,
        p=None,
        better=0,
        end_gain=0.0,
    )
    assert row.gain_text == "+0.0 [+0.0, +0.0]"

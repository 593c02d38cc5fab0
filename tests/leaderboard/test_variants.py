from __future__ import annotations

import polars as pl
from tests.leaderboard.rows import table
from workshop.leaderboard_page import page_markdown

from sortition.leaderboard.board import Board
from sortition.leaderboard.suite import load_suite
from sortition.leaderboard.variants import candidate_labels, choose_tuned_labels, plain_rows, tuned_rows, weighed_rows

SUITE = load_suite()


def test_the_default_is_one_of_the_candidates():
    assert candidate_labels()["fedgs"] == ["fedgs", "fedgs,alpha=0.3", "fedgs,alpha=3.0"]


def test_tuned_is_what_was_best_on_the_tuning_half_whatever_the_other_half_says():
    labels = candidate_labels()["fedgs"]
    rows = table(SUITE, {"uniform": 0.0, "fedgs": 0.01, labels[1]: 0.03, labels[2]: 0.02})
    better = pl.when((pl.col("half") == "held-out") & (pl.col("method") == "fedgs")).then(0.99).otherwise(pl.col("auc"))
    rows = rows.with_columns(better.alias("auc").cast(pl.Float32))
    assert choose_tuned_labels(SUITE, rows) == {"fedgs": labels[1]}
    assert set(tuned_rows(SUITE, rows)["method"]) == {"uniform", labels[1]}
    assert f"{labels[1]} of 3" in page_markdown(SUITE, rows)


def test_nothing_is_tuned_before_all_candidates_have_run_in_every_cell():
    labels = candidate_labels()["fedgs"]
    rows = table(SUITE, {"uniform": 0.0, **dict.fromkeys(labels, 0.01)})
    cell = SUITE.cells("tuning")[0].name
    assert choose_tuned_labels(SUITE, rows.filter((pl.col("cell") != cell) | (pl.col("method") != labels[2]))) == {}


def test_weighed_alike_is_a_table_of_its_own_with_its_own_baseline():
    rows = table(SUITE, {"uniform": 0.0, "fedgs": 0.01, "uniform,reweight=size": 0.1, "fedgs,reweight=size": 0.11})
    assert set(plain_rows(rows)["method"]) == {"uniform", "fedgs"}
    board = Board(SUITE, SUITE.cells("held-out"), weighed_rows(rows, "size"))
    gains = {one.method: one.gain for one in board.standings("auc")}
    assert abs(gains["fedgs"] - 0.01) < 0.002
    assert "### Weighed alike" in page_markdown(SUITE, rows)

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tests.leaderboard.rows import table
from workshop.leaderboard_page import page, variants_table
from workshop.leaderboard_readme import PLACES, top_table, with_top

from sortition.leaderboard.board import Board
from sortition.leaderboard.entries import default_entries
from sortition.leaderboard.results import stored
from sortition.leaderboard.suite import load_suite
from sortition.leaderboard.variants import plain_rows
from sortition.selectors import VARIANTS

ROOT = Path(__file__).parents[2]
SUITE = load_suite()
GAINS = {"uniform": -0.05, **{f"m{place}": 0.08 - 0.01 * place for place in range(11)}}


def board(rows):
    return Board(SUITE, SUITE.cells("held-out"), plain_rows(rows))


def test_the_best_and_the_baseline_with_their_places():
    rows = top_table(board(table(SUITE, GAINS))).rows
    assert [row[1] for row in rows] == [*(f"`m{place}`" for place in range(PLACES)), "`uniform`"]
    assert rows[0][0] == "1"
    assert rows[-1][:1] + rows[-1][3:5] == ["12", "–", "–"]
    assert {row[-1] for row in rows} == {"sizes"}


def test_a_study_takes_every_variant_as_the_table_writes_it():
    variants = variants_table(table(SUITE, dict.fromkeys(["uniform", *VARIANTS], 0.0)))
    assert [row[0] for row in variants.rows] == [f"`{label}`" for label in VARIANTS]
    for (label, entry), row in zip(VARIANTS.items(), variants.rows, strict=True):
        method = tomllib.loads(f"method = [{row[1].strip('`')}]")["method"]
        assert method == [entry]
        made = SUITE.study(SUITE.cells(quick=True)[:1], method, [0]).runs[0].method
        assert {**entry, "label": label} in default_entries()
        assert made.name == entry["name"]
    assert variants_table(table(SUITE, GAINS)).rows == []


@pytest.mark.skipif(not (ROOT / "docs" / "leaderboard.parquet").exists(), reason="the sources are not here")
def test_readme_and_page_show_the_runs_that_are_committed():
    rows = stored(ROOT / "docs" / "leaderboard.parquet")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert with_top(readme, board(rows)) == readme
    assert page(SUITE, rows, "images/leaderboard.svg") == (ROOT / "docs" / "leaderboard.md").read_text(encoding="utf-8")

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from tests.leaderboard.rows import table

from sortition.leaderboard.board import Board
from sortition.leaderboard.diagram import diagram
from sortition.leaderboard.page import ABSENT, page, standing_of, write_page
from sortition.leaderboard.results import SCHEMA, stored, write_runs
from sortition.leaderboard.suite import load_suite
from sortition.selectors import discover

SUITE = load_suite()
GAINS = {"uniform": 0.0, "good": 0.05, "spy": 0.02}


def test_the_page_shows_both_halves_families_and_cells():
    text = page(SUITE, table(SUITE, GAINS))
    held, tuning = text.split("## The half *tuning*")
    assert "| good " in held
    assert "| good " in tuning
    assert "| spy " in held
    assert "| no " in held
    assert "### By family of scenario" in held
    assert all(cell.name in text for cell in SUITE.cell)
    assert SUITE.version in text


def test_nothing_that_was_not_run_looks_run():
    rows = table(SUITE, GAINS)
    tuned = rows.filter(rows["half"] == "tuning")
    text = page(SUITE, tuned)
    assert "Not run: 0 runs are finished, too few to rank methods on 16 cells." in text
    late = rows.filter((rows["method"] != "spy") | (rows["seed"] < 1))
    assert "Not finished, hence not ranked: spy (16 of 128 runs)." in page(SUITE, late)


def test_methods_without_runs_are_named_with_the_reason():
    rows = table(SUITE, {"uniform": 0.0, **{name: 0.01 for name in discover() if name not in ("greedyfed", "full")}})
    tuned = rows.filter((rows["half"] == "held-out") | (rows["method"] != "fedgs"))
    held, tuning = page(SUITE, tuned).split("## The half *tuning*")
    assert f"Without runs here: `full` ({ABSENT['full']}), `greedyfed` ({ABSENT['greedyfed']})." in held
    assert "Without runs here: `fedgs`, `full` (" in tuning
    assert "Without runs" not in page(SUITE, table(SUITE, dict.fromkeys(discover(), 0.0)))


def test_the_page_and_its_diagram_are_written(tmp_path):
    path = write_page(SUITE, table(SUITE, GAINS), tmp_path / "leaderboard.md")
    assert "![Critical-difference diagram](images/leaderboard.svg)" in path.read_text()
    drawn = ElementTree.fromstring((tmp_path / "images" / "leaderboard.svg").read_text())  # noqa: S314 - our own file
    texts = "".join(drawn.itertext())
    assert "good (1.0)" in texts
    assert "critical difference" in texts


def test_names_in_the_diagram_are_escaped():
    assert "a&amp;b" in diagram({"a&b": 1.0, "c": 2.0}, 0.5, "t")


def test_where_a_method_stands():
    board = Board(SUITE, SUITE.cells("held-out"), table(SUITE, GAINS))
    good, nobody = standing_of(board, ["good", "nobody"])
    assert good.startswith("good: 1 of 3 by AUC (+5.0 points, better in 16 cells, worse in 0)")
    assert nobody == "nobody: not ranked yet, 0 runs in these cells."


def test_runs_are_kept_sorted_and_small(tmp_path):
    rows = table(SUITE, {f"m{at}": 0.0 for at in range(14)}, seeds=8)
    write_runs(rows.sample(fraction=1.0, shuffle=True, seed=1), tmp_path / "a.parquet")
    write_runs(rows, tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert (tmp_path / "a.parquet").stat().st_size < 400_000
    assert stored(tmp_path / "a.parquet").schema == stored(tmp_path / "none.parquet").schema == SCHEMA

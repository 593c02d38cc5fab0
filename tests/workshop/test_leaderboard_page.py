from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from tests.leaderboard.rows import table
from workshop.leaderboard_diagram import draw_diagram
from workshop.leaderboard_page import WHY_ABSENT, page_markdown, write_page

from sortition.leaderboard.suite import load_suite
from sortition.selectors import discover

SUITE = load_suite()
GAINS = {"uniform": 0.0, "good": 0.05, "spy": 0.02}


def test_the_page_shows_both_halves_families_and_cells():
    text = page_markdown(SUITE, table(SUITE, GAINS))
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
    text = page_markdown(SUITE, tuned)
    assert "Not run: 0 runs are finished, too few to rank methods on 16 cells." in text
    late = rows.filter((rows["method"] != "spy") | (rows["seed"] < 1))
    assert "Not finished, hence not ranked: spy (16 of 128 runs)." in page_markdown(SUITE, late)


def test_methods_without_runs_are_named_with_the_reason():
    rows = table(SUITE, {"uniform": 0.0, **{name: 0.01 for name in discover() if name not in ("greedyfed", "full")}})
    tuned = rows.filter((rows["half"] == "held-out") | (rows["method"] != "fedgs"))
    held, tuning = page_markdown(SUITE, tuned).split("## The half *tuning*")
    assert f"Without runs here: `full` ({WHY_ABSENT['full']}), `greedyfed` ({WHY_ABSENT['greedyfed']})." in held
    assert "Without runs here: `fedgs`, `full` (" in tuning
    assert "Without runs" not in page_markdown(SUITE, table(SUITE, dict.fromkeys(discover(), 0.0)))


def test_the_page_and_its_diagram_are_written(tmp_path):
    path = tmp_path / "leaderboard.md"
    write_page(SUITE, table(SUITE, GAINS), path)
    assert "![Critical-difference diagram](images/leaderboard.svg)" in path.read_text()
    drawn = ElementTree.fromstring((tmp_path / "images" / "leaderboard.svg").read_text())  # noqa: S314 - our own file
    texts = "".join(drawn.itertext())
    assert "good (1.0)" in texts
    assert "critical difference" in texts


def test_names_in_the_diagram_are_escaped():
    assert "a&amp;b" in draw_diagram({"a&b": 1.0, "c": 2.0}, 0.5, "t")

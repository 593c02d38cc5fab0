"""Time budgets of suite 2: they are uniform's clock, and the file holds what the dry run gives."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from tests.leaderboard.small_tracks import write_suite
from workshop.leaderboard_budgets import dry_run, round_clock, with_budget, write_budgets
from workshop.leaderboard_site import RESULTS

from sortition.leaderboard.tracks import TRACKS, load_tracks
from workshop import DOCS

SUITE = load_tracks()


@pytest.mark.parametrize("name", ["s-digits-rotations-over1.5", "o-digits-2labels-buffer5"])
def test_the_budget_of_a_cell_is_uniforms_median_clock(name: str) -> None:
    cell = SUITE.cell_named(name)
    assert cell.seconds == round_clock(dry_run(SUITE, cell).clock)


def test_missing_budgets_are_written_and_others_stay(tmp_path: Path) -> None:
    path = write_suite(tmp_path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("seconds = 300.0\n", ""), encoding="utf-8")
    lines: list[str] = []
    write_budgets(path, say=lines.append)
    (cell,) = load_tracks(path).cells("seconds")
    assert cell.seconds is not None
    assert lines[0].startswith(f"s-first: {cell.seconds:g} s")
    written = path.read_text(encoding="utf-8")
    write_budgets(path, say=lines.append)
    assert path.read_text(encoding="utf-8") == written
    assert "seconds = 12.0" in with_budget(text, "s-first", 12.0)
    assert "seconds = 300.0" not in with_budget(text, "s-first", 12.0)


def test_clocks_have_three_digits() -> None:
    assert round_clock(14324.4) == 14300.0
    assert round_clock(2.6951) == 2.7


def test_the_rules_say_how_long_the_stored_runs_took() -> None:
    hours = {
        track: sum(pl.read_parquet(path)["seconds"].sum() for path in (RESULTS / track).glob("*.parquet")) / 3600
        for track in TRACKS
    }
    by_track = ", ".join(f"`{track}` {taken:.1f}" for track, taken in hours.items())
    rules = " ".join((DOCS / "leaderboard-rules.md").read_text(encoding="utf-8").split())
    assert f"the stored runs add up to {sum(hours.values()):.1f} hours on the clock ({by_track})" in rules

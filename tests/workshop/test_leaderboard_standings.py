"""The standings of suite 2 that come with the package: written from results, quoted by pages and the advisor."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.workshop.leaderboard_results import made_up_results
from workshop.leaderboard_site import RESULTS
from workshop.leaderboard_standings import best_rows, published_standings, write_standings

from sortition.advice.profile import Limits
from sortition.advice.quoted_standings import standings_note
from sortition.leaderboard.entrants import load_configurations
from sortition.leaderboard.published import STANDINGS_FILE, Published, load_published
from sortition.leaderboard.tracks import load_tracks

SUITE = load_tracks()
CONFIGURATIONS = load_configurations()


@pytest.fixture(scope="module")
def published() -> Published:
    results = made_up_results(SUITE, CONFIGURATIONS)
    return published_standings(SUITE, CONFIGURATIONS, results)


def test_the_packaged_standings_are_those_of_the_stored_results(tmp_path: Path) -> None:
    write_standings(RESULTS, tmp_path / "standings.json")
    assert (tmp_path / "standings.json").read_bytes() == STANDINGS_FILE.read_bytes()


def test_standings_are_read_as_they_were_written(published: Published, tmp_path: Path) -> None:
    path = tmp_path / "standings.json"
    path.write_text(published.model_dump_json(), encoding="utf-8")
    assert load_published(path) == published
    assert set(published.tracks) == {"rounds", "seconds", "overlap", "adversaries"}
    assert published.tracks["seconds"].cells == 12


def test_the_advisor_quotes_only_rows_that_the_limits_allow(published: Published) -> None:
    everything = standings_note(Limits(), by_time=True, published=published)
    assert "12 held-out federations" in everything
    assert "by the clock" in everything
    strict = Limits(label_counts=False, secure_aggregation=True, questions=False)
    limited = standings_note(strict, by_time=False, published=published)
    assert "by rounds" in limited
    needs = {entrant.label: entrant.needs for entrant in CONFIGURATIONS.defaults()}
    quoted = [row for row in needs if f" {row} +" in limited]
    assert quoted
    assert not any(needs[row].asks or needs[row].individual or "label_counts" in needs[row].reads for row in quoted)


def test_nothing_is_quoted_of_a_track_that_is_not_complete() -> None:
    nothing = Published(suite=SUITE.version, tracks={})
    assert standings_note(Limits(), by_time=True, published=nothing) == ""
    assert "No track" in best_rows(nothing)


def test_the_best_rows_need_no_more_than_their_line_says(published: Published) -> None:
    page = best_rows(published)
    assert page.count("| the server may know") == 4
    information = {entrant.label: entrant.information for entrant in CONFIGURATIONS.defaults()}
    public_lines = [line for line in page.splitlines() if line.startswith("| sizes, who is available")]
    for line in public_lines:
        named = [label for label in information if f"`{label}`" in line]
        assert all(information[label] == "public" for label in named)

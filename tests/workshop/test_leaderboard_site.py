"""The page of suite 2: its data, its files, and what a reader can do with it in a real browser."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
from pathlib import Path

import polars as pl
import pytest
from tests.workshop.browser import CHROMIUM, Browser
from tests.workshop.leaderboard_results import made_up_results
from workshop.leaderboard_data import Data, page_data, table_text
from workshop.leaderboard_site import RESULTS, parquet_bytes, site_html, standings_csv
from workshop.leaderboard_summary import PAGE, _least_cells_sentence, summary_page

from sortition.leaderboard.entrants import load_configurations
from sortition.leaderboard.run_rows import read_cells, rows_table
from sortition.leaderboard.standings import points_text
from sortition.leaderboard.track_boards import boards_by_title
from sortition.leaderboard.tracks import load_tracks

SUITE = load_tracks()
CONFIGURATIONS = load_configurations()
ROWS = 7
NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def results() -> pl.DataFrame:
    return made_up_results(SUITE, CONFIGURATIONS, rows=ROWS)


@pytest.fixture(scope="module")
def data(results: pl.DataFrame) -> Data:
    return page_data(SUITE, CONFIGURATIONS, results, {"active": "A. Verifier, x86-64"}, "2026-11-18")


@pytest.fixture(scope="module")
def page(data: Data, results: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("site") / "page.html"
    path.write_text(site_html(data, parquet_bytes(results)), encoding="utf-8")
    return path


def test_every_track_has_its_tables_and_all_cells(data: Data) -> None:
    assert {track: sorted(content["tables"]) for track, content in data["tracks"].items()} == {
        "rounds": ["default", "tuned"],
        "seconds": ["default", "tuned"],
        "overlap": ["default"],
        "adversaries": ["default"],
    }
    seconds = data["tracks"]["seconds"]
    assert len(seconds["cells"]) == 24
    table = seconds["tables"]["default"]
    assert len(table["rows"]) == ROWS
    assert len(table["cells"]) == 12
    assert set(table["profiles"]) == {"area", "seconds"}
    assert "<svg" in table["diagram"]
    assert json.dumps(data, allow_nan=False)


def test_a_page_without_results_says_so(tmp_path: Path) -> None:
    empty = page_data(SUITE, CONFIGURATIONS, rows_table([]), {}, "2026-11-18")
    assert all(not content["tables"] for content in empty["tracks"].values())
    assert "suite-2-" in site_html(empty, parquet_bytes(rows_table([])))


def test_the_files_hold_all_runs_and_standings(data: Data, results: pl.DataFrame) -> None:
    rows = list(csv.DictReader(io.StringIO(standings_csv(data))))
    assert len(rows) == 6 * ROWS
    assert rows[0]["suite"] == SUITE.version
    assert {row["table"] for row in rows} == {"default", "tuned"}
    assert pl.read_parquet(io.BytesIO(parquet_bytes(results))).height == results.height


def test_a_row_that_somebody_called_like_a_formula_is_a_text_in_the_csv(data: Data) -> None:
    hostile = copy.deepcopy(data)
    next(iter(hostile["tracks"]["seconds"]["tables"].values()))["rows"][0]["row"] = "=1+1"
    rows = list(csv.DictReader(io.StringIO(standings_csv(hostile))))
    assert {row["row"] for row in rows if "1+1" in row["row"]} == {"'=1+1"}


def test_the_board_rounds_gains_once_as_the_page_in_markdown_does(data: Data, results: pl.DataFrame) -> None:
    shown = {}
    for track in data["tracks"]:
        for title, board in boards_by_title(SUITE, track, CONFIGURATIONS, results).items():
            rows = {row["row"]: row for row in data["tracks"][track]["tables"][title]["rows"]}
            for standing in board.standings():
                row = rows[standing.row]
                exact = (standing.gain, standing.low, standing.high, standing.end_gain)
                texts = [f"{row[key]:+z.1f}" for key in ("gain", "low", "high", "end")]
                shown[track, title, standing.row] = (texts, [points_text(gain) for gain in exact])
    assert len(shown) > 30
    differing = {row: texts for row, texts in shown.items() if texts[0] != texts[1]}
    assert not differing


def test_the_page_in_markdown_has_a_section_for_each_table(results: pl.DataFrame) -> None:
    text = summary_page(SUITE, CONFIGURATIONS, results)
    assert text.count("### Default parameters") == 4
    assert text.count("### Tuned parameters") == 2
    assert text.count("First by mean rank is") == 6
    assert text.count("<summary>Who leads without one data set</summary>") == 6


def test_the_page_in_markdown_says_how_methods_were_tuned_and_whom_that_did_not_help(results: pl.DataFrame) -> None:
    page = summary_page(SUITE, CONFIGURATIONS, results)
    tuned = page.partition("### Tuned parameters")[2].partition("| method")[0]
    assert "chosen on other federations with three seeds and without a CNN" in tuned
    n_rows = ROWS - 1  # without uniform
    assert re.search(rf"\d+ of {n_rows} rows keep their default", tuned)
    defaults = [entrant.configuration for entrant in CONFIGURATIONS.defaults()]
    held_out = [cell.name for cell in SUITE.cells(half="held-out")]
    lowered = pl.col("cell").is_in(held_out) & ~pl.col("configuration").is_in(defaults)
    halved = pl.col("accuracies").list.eval(pl.element() / 2)
    changed = results.with_columns(accuracies=pl.when(lowered).then(halved).otherwise("accuracies"))
    assert "On the held-out federations these gain less than with their default: " in summary_page(
        SUITE, CONFIGURATIONS, changed
    )


def test_a_table_with_unfinished_rows_is_called_preliminary(results: pl.DataFrame) -> None:
    finished = pl.col("row") != "active"
    text = summary_page(SUITE, CONFIGURATIONS, results.filter(finished | (pl.col("seed") != 4)))
    opening = text[text.index("### Default parameters") :][:300]
    assert f"**Preliminary**: runs are missing in 1 of {ROWS} rows." in opening


def test_the_page_in_markdown_opens_with_picture_and_answers_and_its_tables_fit(results: pl.DataFrame) -> None:
    text = summary_page(SUITE, CONFIGURATIONS, results)
    before_tracks = text[: text.index("## Track *rounds*")]
    assert before_tracks.index("images/leaderboard-2.svg") < before_tracks.index("| question ")
    for track in ("rounds", "seconds", "overlap", "adversaries"):
        assert f"](#track-{track})" in before_tracks
        assert f"## Track *{track}*" in text
    assert max(line.count("|") for line in text.splitlines()) <= 9, "eight columns fit beside the side bar"
    assert text.index("## What the words mean") > text.index("## Track *adversaries*")


def test_the_kept_page_is_what_the_stored_results_give() -> None:
    stored = read_cells(SUITE, RESULTS, SUITE.cell)
    assert PAGE.read_text(encoding="utf-8") == summary_page(SUITE, CONFIGURATIONS, stored)


def test_tables_of_a_study_are_described_in_short() -> None:
    assert table_text({"name": "labels", "per_client": 2}) == "labels, per_client 2"
    assert table_text({"styles": ["plain", "dark"], "lr": 0.1}) == "styles plain/dark, lr 0.1"


@NEEDS_CHROMIUM
def test_the_page_opens_on_the_first_track_that_has_standings(results: pl.DataFrame, tmp_path: Path) -> None:
    by_time = results.filter(pl.col("track") == "seconds")
    data = page_data(SUITE, CONFIGURATIONS, by_time, {}, "2026-11-18")
    path = tmp_path / "page.html"
    path.write_text(site_html(data, parquet_bytes(by_time)), encoding="utf-8")
    with Browser(tmp_path / "profile") as browser:
        browser.open(path, 1280, 900)
        assert browser.evaluate("document.querySelector('[data-track][aria-pressed=true]').dataset.track") == "seconds"
        assert len(browser.evaluate("[...document.querySelectorAll('#standings tbody tr')].map(r => r.id)")) == ROWS


@NEEDS_CHROMIUM
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_in_a_browser(page: Path, tmp_path: Path, width: int, height: int) -> None:
    with Browser(tmp_path / "profile") as browser:
        browser.open(page, width, height)
        rows = "[...document.querySelectorAll('#standings tbody tr')].map(r => r.dataset.row)"
        assert len(browser.evaluate(rows)) == ROWS
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, "nothing is wider than the window"
        browser.evaluate("document.querySelector('[data-track=seconds]').click()")
        table = "document.getElementById('standings')"
        if width == 1280:
            assert browser.evaluate(f"{table}.scrollWidth <= {table}.parentElement.clientWidth"), "no column is cut"
        assert browser.evaluate("[-0.04, 0, -0.06].map(gain => signed(gain))") == ["+0.0", "+0.0", "−0.1"]
        assert "by the clock" in browser.evaluate("document.querySelector('#question').textContent")
        assert browser.evaluate("document.querySelectorAll('#profiles svg').length") == 2
        assert browser.evaluate("document.querySelectorAll('#diagram svg').length") == 1
        browser.evaluate("document.querySelector('[data-cell=\"s-digits-styles-ln-over1.3\"]').click()")
        assert browser.evaluate("document.querySelectorAll('#cell path.curve').length") in (5, 6)
        assert browser.evaluate("document.activeElement.id") == "cell"
        assert browser.evaluate("location.hash").startswith("#track=seconds&table=default")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        for link in ("parquet", "csv"):
            assert browser.evaluate(f"document.getElementById('{link}').href.slice(0, 5)") == "data:"
        assert browser.console == []
        assert browser.requests == [], "the page asks the network for nothing"


@NEEDS_CHROMIUM
def test_a_page_without_results_works_in_a_browser(tmp_path: Path) -> None:
    empty = page_data(SUITE, CONFIGURATIONS, rows_table([]), {}, "2026-11-18")
    path = tmp_path / "empty.html"
    path.write_text(site_html(empty, parquet_bytes(rows_table([]))), encoding="utf-8")
    with Browser(tmp_path / "profile") as browser:
        browser.open(path, 1280, 900)
        assert "no finished rows" in browser.evaluate("document.getElementById('status').textContent")
        assert browser.evaluate("document.querySelectorAll('#cells tbody tr').length") == len(SUITE.cells("rounds"))
        browser.evaluate("document.querySelector('[data-track=overlap]').click()")
        assert browser.evaluate("document.querySelectorAll('#cells tbody tr').length") == len(SUITE.cells("overlap"))
        assert browser.console == []


@NEEDS_CHROMIUM
def test_everything_is_reached_and_done_by_keys(page: Path, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as browser:
        browser.open(page, 1280, 900)
        reached = []
        for _ in range(30):
            browser.press("Tab")
            reached.append(
                browser.evaluate(
                    "(e => e.id || e.dataset.track || e.dataset.sort || e.className || e.ariaLabel)"
                    "(document.activeElement)"
                )
            )
        for stop in ("skip", "rounds", "adversaries", "table", "information", "family", "find", "rank", "gain"):
            assert stop in reached, stop
        browser.evaluate("document.querySelector('[data-sort=gain]').focus()")
        browser.press("Enter")
        gains = "[...document.querySelectorAll('#standings tbody tr')].map(r => r.cells[3].textContent)"
        first = browser.evaluate(gains)
        assert browser.evaluate("document.querySelector('[aria-sort=descending] button').dataset.sort") == "gain"
        assert browser.evaluate("document.activeElement.dataset.sort") == "gain", "the focus stays"
        browser.press("Enter")
        assert browser.evaluate(gains) == first[::-1]
        browser.evaluate("document.querySelector('#standings tbody input').focus()")
        shown = browser.evaluate("document.querySelectorAll('#profiles path.curve').length")
        browser.press(" ")
        assert abs(browser.evaluate("document.querySelectorAll('#profiles path.curve').length") - shown) == 1
        assert browser.console == []


@NEEDS_CHROMIUM
def test_filters_and_addresses(page: Path, tmp_path: Path) -> None:
    with Browser(tmp_path / "profile") as browser:
        browser.open(page, 1280, 900, "#track=rounds&table=tuned&family=noise&sort=row")
        assert browser.evaluate("document.getElementById('table').value") == "tuned"
        assert "2 held-out cells of the family noise" in browser.evaluate(
            "document.getElementById('status').textContent"
        )
        rows = "[...document.querySelectorAll('#standings tbody tr')].map(r => r.dataset.row)"
        assert browser.evaluate(rows) == sorted(browser.evaluate(rows))
        choose = (
            "(id, value) => {{ const field = document.getElementById(id); field.value = value; "
            "field.dispatchEvent(new Event('{}')); }}"
        )
        browser.evaluate(f"({choose.format('change')})('information', 'scalars')")
        assert set(browser.evaluate(rows)) == {"uniform", "active", "ca-fed", "cs-ucb-q"}
        browser.evaluate(f"({choose.format('change')})('information', 'all')")
        browser.evaluate(f"({choose.format('input')})('find', 'batch')")
        assert browser.evaluate(rows) == ["batch-partitioning"]
        assert browser.evaluate("document.querySelectorAll('.badge.verified').length") == 0
        browser.evaluate(f"({choose.format('input')})('find', 'active')")
        assert browser.evaluate("document.querySelector('.badge.verified').title") == "A. Verifier, x86-64"


def test_names_in_the_page_cannot_end_its_script(data: Data, results: pl.DataFrame) -> None:
    forged = json.loads(json.dumps(data))
    forged["tracks"]["rounds"]["tables"]["default"]["words"] = ["</script><script>alert(1)</script>"]
    text = site_html(forged, parquet_bytes(results.head(1)))
    assert len(re.findall(r"<script", text)) == 2


@pytest.mark.parametrize(("n_tests", "n_cells"), [(29, 11), (1, 6), (25, 10)])
def test_the_page_says_how_many_federations_a_test_needs(n_tests: int, n_cells: int) -> None:
    assert f"in fewer than {n_cells} federations" in _least_cells_sentence(n_tests)
    assert n_tests * 2 / 2**n_cells < 0.05 <= n_tests * 2 / 2 ** (n_cells - 1)

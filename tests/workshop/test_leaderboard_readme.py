from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from tests.leaderboard.rows import table
from workshop.leaderboard_page import page_markdown, variants_table
from workshop.leaderboard_picture import top_picture, write_picture
from workshop.leaderboard_readme import top_of_tracks, top_table, with_top
from workshop.leaderboard_top import PLACES, best_places
from workshop.readme_bullets import bullets

from sortition.leaderboard.board import Board
from sortition.leaderboard.entries import default_entries
from sortition.leaderboard.published import Published, PublishedRow, PublishedTrack, PublishedTuned
from sortition.leaderboard.results import read_stored_runs
from sortition.leaderboard.suite import load_suite
from sortition.leaderboard.variants import plain_rows
from sortition.reproduction.index import load_items
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


def track(rows):
    standings = [
        PublishedRow(
            row=name,
            information="public",
            rank=float(place),
            gain=gain,
            low=gain - 1,
            high=gain + 1,
            separated=gain > 1,
            p=0.01 if gain > 1 else 0.5,
            better=11,
            end_gain=gain / 2,
        )
        for place, (name, gain) in enumerate(rows.items(), start=1)
    ]
    return PublishedTrack(cells=12, rows=tuple(standings))


def top_in_one_line(published):
    return " ".join(top_of_tracks(published).split())


def test_the_readme_says_on_which_other_tracks_ours_does_not_win():
    seconds = track({"microcosm": 8.0, "fedcs": 4.0, "uniform": 0.0})
    attacked = track({"fed-cbs": 9.2, "microcosm": 4.7, "uniform": 0.0})
    sinking = track({"microcosm": 7.2, "fed-cbs": 5.0, "uniform": 0.0})
    ours = sinking.rows[0].model_copy(update={"end_gain": -0.7})
    sinking = sinking.model_copy(update={"rows": (ours, *sinking.rows[1:])})
    tracks = {"seconds": seconds, "adversaries": attacked, "overlap": sinking}
    words = top_in_one_line(Published(suite="suite-2-x", tracks=tracks))
    assert "Where a tenth of the clients attack, `fed-cbs` gains +9.2, ours +4.7;" in words
    assert "where rounds overlap, ours ends 0.7 points below uniform (`fed-cbs`: +2.5)." in words
    won = Published(suite="suite-2-x", tracks={"seconds": seconds, "adversaries": seconds, "overlap": seconds})
    assert "clients attack," not in top_in_one_line(won)


@pytest.mark.parametrize(
    ("undecided", "behind", "words"),
    [
        ({"fedcs": 6.94}, {}, "ours gains +8.2, not separated from `fedcs` (+6.9)."),
        ({"fedcs": 6.94}, {"oort": 9.0}, "not separated from `fedcs` (+6.9) and beaten by `oort` (+9.0)."),
        ({}, {}, "ours gains +8.2, ahead of every method of others, and separated from it."),
    ],
)
def test_the_readme_says_who_is_level_with_ours_once_every_method_is_tuned(undecided, behind, words):
    default = track({"microcosm": 8.0, "fedcs": 4.0, "uniform": 0.0})
    capped = dict.fromkeys((*undecided, *behind), 26)
    tuned = PublishedTuned(
        row=track({"microcosm": 8.2}).rows[0], undecided=undecided, behind=behind, capped=capped, runs=52
    )
    seconds = default.model_copy(update={"tuned": tuned})
    assert words in top_in_one_line(Published(suite="suite-2-x", tracks={"seconds": seconds}))
    quoted = " ".join(bullets(board(table(SUITE, GAINS)), Published(suite="x", tracks={"seconds": seconds})).split())
    assert ("; both tuned: +6.9, ours +8.2, undecided)" in quoted) == ("fedcs" in undecided)
    assert "all methods tuned" not in top_in_one_line(Published(suite="suite-2-x", tracks={"seconds": default}))
    if undecided:
        cut = tuned.model_copy(update={"capped": {**capped, "fedcs": 37}})
        seconds = default.model_copy(update={"tuned": cut})
        words = top_in_one_line(Published(suite="suite-2-x", tracks={"seconds": seconds}))
        assert "`fedcs` (+6.9; most runs [cut](docs/leaderboard-rules.md#what-is-measured))" in words


def test_a_complete_track_of_suite_2_takes_the_place_of_suite_1():
    seconds = track({"microcosm-secure": 9.5, "microcosm": 9.0, "fedcs": 4.0, "uniform": 0.0})
    one = Published(suite="suite-2-x", tracks={"seconds": seconds})
    both = Published(suite="suite-2-x", tracks={"seconds": seconds, "rounds": seconds})
    none = Published(suite="suite-2-x", tracks={})
    assert top_of_tracks(none) == ""
    assert "| 2     | `microcosm` (ours) | +9.0 [+8.0, +10.0]" in top_of_tracks(one)
    assert "| `microcosm-secure`" not in top_of_tracks(one)  # one row is ours
    assert "| 4     | `uniform`" in top_of_tracks(one)
    assert "docs/images/leaderboard-2.svg" not in top_of_tracks(one)
    assert "docs/images/leaderboard-2.svg" in top_of_tracks(both)
    assert "in held-out federations, 12 by rounds and 12 by the clock:" in top_in_one_line(both)
    suite_1 = board(table(SUITE, {**GAINS, "microcosm": 0.3}))
    gain = "+9.0 [+8.0, +10.0] points over uniform sampling in the same time, in accuracy averaged over the run"
    assert f"gained {gain}" in " ".join(bullets(suite_1, one).split())
    assert "nothing was tuned, it gained" in " ".join(bullets(suite_1, none).split())
    unsure = Published(suite="suite-2-x", tracks={"seconds": track({"microcosm": 0.5, "uniform": 0.0})})
    assert "in the same time" not in bullets(suite_1, unsure)


def test_the_top_says_where_no_gain_is_separated():
    """An interval may exclude zero where the test over federations does not separate."""
    rows = track({"microcosm": 0.9, "ca-fed": -5.7, "uniform": 0.0}).rows
    worse = rows[1].model_copy(update={"separated": True})
    rounds = PublishedTrack(cells=12, rows=(rows[0], worse, rows[2]))
    seconds = track({"microcosm": 9.0, "fedcs": 4.0, "uniform": 0.0})
    text = top_in_one_line(Published(suite="x", tracks={"rounds": rounds, "seconds": seconds}))
    assert "**By rounds, no method, ours included, is shown to be better than uniform**" in text
    assert "ours gained in 11 of 12 federations (p = 0.5)" in text
    assert "By the clock, no method" not in text


def test_the_top_names_a_form_of_ours_that_stands_before_our_default():
    seconds = track({"microcosm-secure": 9.5, "microcosm": 9.0, "uniform": 0.0})
    rounds = track({"microcosm": 9.0, "microcosm-secure": 8.5, "uniform": 0.0})
    text = top_in_one_line(Published(suite="x", tracks={"rounds": rounds, "seconds": seconds}))
    assert "By the clock, our variant `microcosm-secure` ranks above it (+9.5)." in text
    assert "By rounds, our variant" not in text


def test_the_bullets_count_claims_by_what_became_of_them():
    grades = [claim.grade for item in load_items() for claim in item.claims]
    text = " ".join(bullets(board(table(SUITE, GAINS)), Published(suite="x", tracks={})).split())
    assert "5 papers, claim by claim" in text
    counted = text[text.index(f"of {len(grades)} claims {grades.count('right')} hold here") :]
    right, differ, explained, not_run = (int(word) for word in re.findall(r"\d+", counted)[1:5])
    assert right + differ + not_run == len(grades)
    assert explained == grades.count("explained")


def test_a_place_is_that_of_our_default_form_whoever_is_ahead_of_it():
    seconds = track({"microcosm-secure": 9.0, "fedcs": 5.0, "microcosm": 4.0, "uniform": 0.0})
    assert [(place.number, place.row.row) for place in best_places(seconds)] == [
        (2, "fedcs"),
        (3, "microcosm"),
        (4, "uniform"),
    ]
    assert [(place.number, place.row.row) for place in best_places(seconds, 1)] == [(2, "fedcs"), (4, "uniform")]


def test_the_picture_has_the_top_of_two_tracks(tmp_path):
    rounds = track({"microcosm-secure": 7.0, "microcosm": 6.0, "divfl": 3.0, "uniform": 0.0})
    seconds = track({"microcosm": 9.0, "fedcs": 4.0, "oort": 0.5, "uniform": 0.0})
    both = Published(suite="suite-2-x", tracks={"seconds": seconds, "rounds": rounds})
    picture = top_picture(both)
    assert picture.count(">oort<") == 1
    for words in ("microcosm (ours)", "divfl", "fedcs", "+9.0 [+8.0, +10.0]", "By rounds: 12 federations"):
        assert f">{words}<" in picture
    assert "microcosm-secure" not in picture
    path = tmp_path / "top.svg"
    write_picture(Published(suite="suite-2-x", tracks={"seconds": seconds}), path)
    assert not path.exists()  # one track is no picture
    write_picture(both, path)
    assert path.read_text() == picture


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
    rows = read_stored_runs(ROOT / "docs" / "leaderboard.parquet")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert with_top(readme, board(rows)) == readme
    assert page_markdown(SUITE, rows, "images/leaderboard.svg") == (ROOT / "docs" / "leaderboard.md").read_text(
        encoding="utf-8"
    )

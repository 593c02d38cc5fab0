"""What other pages say of suite 2: the standings that come with the package, and the best rows in docs/choosing.md."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from sortition.leaderboard.entrants import BASELINE, Configurations, load_configurations
from sortition.leaderboard.our_default import OWN
from sortition.leaderboard.published import STANDINGS_FILE, Published, PublishedTrack, published_track
from sortition.leaderboard.run_rows import read_cells
from sortition.leaderboard.track_boards import DEFAULT, TUNED, boards_by_title
from sortition.leaderboard.tracks import TRACKS, TrackSuite, load_tracks
from sortition.results.table import Table
from workshop.leaderboard_site import RESULTS

ROWS_SHOWN = 3  # of the first by mean rank that gain over uniform
TRACK_WORDS = {
    "rounds": "by rounds, all devices equally fast",
    "seconds": "by the clock, on devices that differ",
    "overlap": "by the clock, where rounds overlap",
    "adversaries": "by rounds, 10 % of the clients attack",
}
KNOWLEDGE = {  # what a server may know, in words → information classes that need no more
    "sizes, who is available": set(),
    "numbers that clients send (losses, durations)": {"scalars"},
    "label counts": {"labels"},
    "label counts and numbers": {"labels", "scalars"},
    "single updates, no label counts": {"updates", "scalars"},
    "everything": {"labels", "scalars", "updates"},
}


def published_standings(suite: TrackSuite, configurations: Configurations, results: pl.DataFrame) -> Published:
    """Return the default tables that are complete, and what the tuned ones say of our default."""
    tracks = {}
    for track in TRACKS:
        boards = boards_by_title(suite, track, configurations, results)
        if len(boards[DEFAULT].complete) > 1:
            tracks[track] = published_track(boards[DEFAULT], boards.get(TUNED))
    return Published(suite=suite.version, tracks=tracks)


def write_standings(results_folder: Path = RESULTS, path: Path = STANDINGS_FILE) -> Published:
    """Write the default tables that are complete into the package, and return them."""
    suite = load_tracks()
    published = published_standings(suite, load_configurations(), read_cells(suite, results_folder, suite.cell))
    text = json.dumps(published.model_dump(), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return published


def best_rows(published: Published) -> str:
    """Return who is ranked first in each track by what the server may know, as Markdown."""
    if not published.tracks:
        return "No track of suite 2 is complete yet.\n"
    parts = []
    for track, content in published.tracks.items():
        parts.append(f"*{track}* ({TRACK_WORDS[track]}; {content.cells} held-out federations):")
        parts.append(_best_by_knowledge(content).markdown())
    return "\n\n".join(parts) + "\n"


def track_places(published: Published, method: str) -> str:
    """Return where a method and its variants stand in each track, as Markdown for the page of the method."""
    table = Table("", ["track", "row", "place", "gain over uniform, points", "separated"])
    for track, content in published.tracks.items():
        for place, row in enumerate(content.rows, start=1):
            if not _is_row_of(row.row, method):
                continue
            number = f"{place} of {len(content.rows)}"
            cells = ["–", "–"]
            if row.row != BASELINE:
                cells = [row.gain_text, "yes" if row.separated else "no"]
            table.rows.append([f"{TRACK_WORDS[track]} ({content.cells} federations)", row.row, number, *cells])
    if not table.rows:
        return "It has no row on [the leaderboard](../leaderboard-2.md); [the rules](../leaderboard-rules.md) say why."
    return f"On [the leaderboard](../leaderboard-2.md), by mean rank:\n\n{table.markdown()}"


def _is_row_of(row: str, method: str) -> bool:
    """Whether a row is a method, or our own method in another form."""
    return row == method or (method == OWN and row.startswith(f"{OWN}-"))


def _best_by_knowledge(track: PublishedTrack) -> Table:
    table = Table("", ["the server may know", "first by mean rank, with points of area over uniform and 95 % interval"])
    for words, classes in KNOWLEDGE.items():
        possible = {row.row for row in track.rows if _classes(row.information) <= classes and row.row != BASELINE}
        named = []
        for row in track.best(possible, ROWS_SHOWN):
            mark = "" if row.separated else ", n.s."
            named.append(f"`{row.row}` ({row.gain_text}{mark})")
        table.rows.append([words, ", ".join(named) or "none: uniform is enough"])
    return table


def _classes(information: str) -> set[str]:
    """Return the parts of an information class; none for public."""
    return {part for part in information.split(", ") if part != "public"}

"""docs/leaderboard-2.md: the standings of suite 2 in Markdown, for readers without a browser's program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from sortition.leaderboard.entrants import Configurations, load_configurations
from sortition.leaderboard.inference import TrackBoard
from sortition.leaderboard.run_rows import read_cells
from sortition.leaderboard.track_boards import boards_by_title
from sortition.leaderboard.track_tables import family_table, sensitivity_table, standings_table, verdict_sentences
from sortition.leaderboard.tracks import TRACKS, TrackSuite, load_tracks
from sortition.results.table import Table
from workshop import DOCS
from workshop.leaderboard_site import RESULTS

PAGE = DOCS / "leaderboard-2.md"
INTRODUCTION = """# Leaderboard, suite 2

*Written by `make leaderboard-2`; do not edit.* Every method on the frozen suite `{version}`: {cells} federations in
four tracks. What is compared, how, and who may join: [the rules](leaderboard-rules.md). [Suite 1](leaderboard.md) is
kept under its own name.

<a href="_static/leaderboard-2.html">**The board**</a>: sortable, with curves of every cell, profiles and downloads. It
is one file that works without a network.

*Gain* is the mean difference of *area* (the mean accuracy over rounds, or over the time budget) from uniform sampling,
in points; families of cells weigh equally. *p* is Wilcoxon's over cells with Holm's correction over the table; *n.s.*:
not separated at 5 %.
"""
NOT_RUN = "No row of this track is finished: {runs} runs are stored."


def summary_page(suite: TrackSuite, configurations: Configurations, results: pl.DataFrame) -> str:
    """Return the whole page as Markdown."""
    parts = [INTRODUCTION.format(version=suite.version, cells=len(suite.cell))]
    for track in TRACKS:
        parts.append(f"## Track *{track}*")
        boards = boards_by_title(suite, track, configurations, results)
        runs_of_track = results.filter(pl.col("track") == track).height
        if not any(board.complete for board in boards.values()):
            parts.append(NOT_RUN.format(runs=runs_of_track))
        for title, board in boards.items():
            if board.complete:
                parts += _board_parts(title, board)
    parts += ["## The cells", _cells_table(suite).markdown()]
    return "\n\n".join(parts).rstrip() + "\n"


def _board_parts(title: str, board: TrackBoard) -> Iterator[str]:
    ranking = board.ranking()
    yield f"### {title.capitalize()} parameters"
    yield f"{len(board.cells)} held-out cells, {board.runs.height} runs, {len(board.complete)} rows."
    yield "\n".join(f"- {sentence}" for sentence in verdict_sentences(board))
    yield standings_table(board).markdown()
    if board.unfinished:
        lacking = [f"{row} (lacks {count} runs)" for row, count in board.unfinished.items()]
        yield f"Not finished, hence without a rank: {', '.join(lacking)}."
    if board.over_cap:
        yield f"Without a rank, since they took more hours than the rules allow: {', '.join(board.over_cap)}."
    yield (
        f"Mean ranks that are {ranking.critical:.2f} or more apart differ by Nemenyi's test at 5 % "
        f"(Friedman: p = {ranking.p:.1g})."
    )
    yield "By family:"
    yield family_table(board).markdown()
    yield "Without one data set:"
    yield sensitivity_table(board).markdown()


def _cells_table(suite: TrackSuite) -> Table:
    table = Table("", ["cell", "track", "half", "family", "data", "model", "clients", "cohort", "budget"])
    for cell in suite.cell:
        setting = suite.setting(cell)
        budget = f"{cell.seconds:g} s" if cell.seconds is not None else f"{setting['rounds']} rounds"
        clients = setting["data"].get("clients", "all")
        table.rows.append(
            [
                cell.name,
                cell.track,
                cell.half,
                cell.family,
                suite.data_of(cell),
                str(setting["model"]["name"]),
                str(clients),
                str(setting["cohort"]),
                budget,
            ]
        )
    return table


def write_summary(results_folder: Path = RESULTS, page: Path = PAGE) -> None:
    """Write the page from stored results."""
    suite = load_tracks()
    results = read_cells(suite, results_folder, suite.cell)
    page.write_text(summary_page(suite, load_configurations(), results), encoding="utf-8")

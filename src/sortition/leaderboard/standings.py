"""The standings in words: a table with a row per method, and one line on where a single method stands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from sortition.leaderboard.board import Board
from sortition.leaderboard.entries import BASELINE
from sortition.leaderboard.ranks_and_gains import Standing
from sortition.results.table import Table

FIGURES = {"auc": "AUC", "last": "last 10"}  # column of the runs → its heading


def standings_table(board: Board) -> Table:
    """Return a row per method: ranks, gains, better and worse cells, worst cell, cost, what the server knows."""
    standing_by_method = {
        figure: {standing.method: standing for standing in board.standings(figure)} for figure in FIGURES
    }
    headings = FIGURES.values()
    columns = [
        "method",
        *(f"rank, {heading}" for heading in headings),
        *(f"{heading} gain" for heading in headings),
        *(f"better/worse, {heading}" for heading in headings),
        *("worst cell by AUC", "MB", "passes", "ms", "knows", "secure aggregation"),
    ]
    table = Table("", columns)
    for method, by_auc in standing_by_method["auc"].items():
        standings = [standing_by_method[figure][method] for figure in FIGURES]
        table.rows.append(
            [
                method,
                *(f"{standing.rank:.2f}" for standing in standings),
                *(gain_and_interval(standing) for standing in standings),
                *(f"{standing.better}/{standing.worse}" for standing in standings),
                _worst_cell_text(by_auc),
                *_mean_cost_cells(board.runs, method),
                what_server_knows(board.runs, method),
                works_with_secure_aggregation(board.runs, method),
            ]
        )
    return table


def points_text(gain: float) -> str:
    """Write a difference of accuracies in percentage points, with its sign."""
    return f"{100 * gain:+z.1f}"


def gain_and_interval(standing: Standing) -> str:
    """Write a gain with its interval, in points."""
    if not math.isfinite(standing.gain):
        return "diverged"
    return f"{points_text(standing.gain)} [{points_text(standing.low)}, {points_text(standing.high)}]"


def _worst_cell_text(standing: Standing) -> str:
    """Write the cell in which a method gains least, and how much."""
    if standing.method == BASELINE:
        return "–"
    return f"{points_text(standing.worst_gain)} {standing.worst}"


def _mean_cost_cells(runs: pl.DataFrame, method: str) -> list[str]:
    """Return megabytes per run, passes per round and milliseconds per selection."""
    runs_of_method = runs.filter(pl.col("method") == method)
    megabytes, passes, milliseconds = runs_of_method.select("megabytes", "passes", "milliseconds").mean().row(0)
    return [f"{megabytes:.1f}", f"{passes:.1f}", f"{milliseconds:.2f}"]


def what_server_knows(runs: pl.DataFrame, method: str) -> str:
    """Say what a method reads of the population, asks of clients and receives with their updates."""
    run = runs.filter(pl.col("method") == method).row(0, named=True)
    sources = []
    if run["reads"]:
        sources.append(run["reads"])
    if run["asks"]:
        sources.append(f"asks {run['asks']}")
    if run["reports"]:
        sources.append(f"with updates: {run['reports']}")
    return "; ".join(sources).replace("_", " ") or "nothing"


def works_with_secure_aggregation(runs: pl.DataFrame, method: str) -> str:
    """Say "no" for a method that looks at single updates, else "yes"."""
    looks_at_single_updates = runs.filter(pl.col("method") == method)["individual"][0]
    return "no" if looks_at_single_updates else "yes"


def standing_lines(board: Board, methods: Sequence[str]) -> list[str]:
    """Say where each of these methods stands, in one line each."""
    standings_by_heading = {heading: board.standings(figure) for figure, heading in FIGURES.items()}
    lines = []
    for method in methods:
        if method in board.ranked:
            places = [
                _place_sentence(method, heading, standings) for heading, standings in standings_by_heading.items()
            ]
            lines.append(f"{method}: {' and '.join(places)}.")
        else:
            lines.append(f"{method}: not ranked yet, {board.unfinished.get(method, 0)} runs in these cells.")
    return lines


def _place_sentence(method: str, heading: str, standings: Sequence[Standing]) -> str:
    """Say at which place of the ranking a method is."""
    place, standing = next(
        (place, standing) for place, standing in enumerate(standings, start=1) if standing.method == method
    )
    cells = f"better in {standing.better} cells, worse in {standing.worse}"
    return f"{place} of {len(standings)} by {heading} ({points_text(standing.gain)} points, {cells})"

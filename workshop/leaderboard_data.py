"""What the page of suite 2 shows, as plain data: tables, tests, profiles, cells and curves of every track."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from sortition import __version__
from sortition.leaderboard import run_rows
from sortition.leaderboard.entrants import Configurations
from sortition.leaderboard.inference import PROFILE_POINTS, SECONDS, CorrectedTest, RowStanding, TrackBoard
from sortition.leaderboard.track_boards import boards_by_title
from sortition.leaderboard.track_tables import verdict_sentences
from sortition.leaderboard.tracks import FAMILIES, TRACKS, TrackCell, TrackSuite
from workshop.leaderboard_diagram import draw_diagram

GRID = 25  # points of a curve
POINT_DIGITS = 6  # of points of accuracy: finer than any page shows, so that it does not round twice
Data = dict[str, Any]


def page_data(
    suite: TrackSuite, configurations: Configurations, results: pl.DataFrame, verified: Mapping[str, str], date: str
) -> Data:
    """Return everything that the page shows; ``verified``: rows that others have rerun, by whom."""
    tracks = {}
    for track in TRACKS:
        if suite.cells(track):
            boards = boards_by_title(suite, track, configurations, results)
            tracks[track] = {
                "timed": suite.cells(track)[0].is_timed,
                "tables": {title: _board_data(board) for title, board in boards.items() if board.complete},
                "overCap": list(boards["default"].over_cap),
                "unfinished": {title: board.unfinished for title, board in boards.items() if board.unfinished},
                "cells": [_cell_data(suite, cell) for cell in suite.cells(track)],
            }
    return {
        "suite": suite.version,
        "sortition": __version__,
        "date": date,
        "runs": results.height,
        "families": list(FAMILIES),
        "absent": configurations.absent,
        "verified": dict(verified),
        "tracks": tracks,
    }


def _board_data(board: TrackBoard) -> Data:
    ranking = board.ranking()
    profiles = {"area": board.error_profiles()}
    if board.is_timed:
        profiles["seconds"] = board.time_profiles()
    title = f"Mean rank by area, {ranking.settings} held-out cells"
    return {
        "rows": [_standing_data(standing) for standing in board.standings()],
        "critical": _finite_or_none(ranking.critical, 2),
        "p": _finite_or_none(ranking.p, 6),
        "diagram": draw_diagram(ranking.ranks, ranking.critical, title),
        "words": verdict_sentences(board),
        "sensitivity": [_without_tables(vars(entry)) for entry in board.sensitivity()],
        "points": PROFILE_POINTS.tolist(),
        "profiles": {
            figure: {row: [_finite_or_none(share, 3) for share in shares] for row, shares in by_row.items()}
            for figure, by_row in profiles.items()
        },
        "cells": {cell.name: _cell_figures(board, cell) for cell in board.cells},
    }


def _standing_data(standing: RowStanding) -> Data:
    return {
        "row": standing.row,
        "information": standing.information,
        "rank": _finite_or_none(standing.ranks["area"], 3),
        "rankSeconds": _finite_or_none(standing.ranks.get(SECONDS, math.nan), 3),
        "gain": _finite_or_none(100 * standing.gain, POINT_DIGITS),
        "low": _finite_or_none(100 * standing.low, POINT_DIGITS),
        "high": _finite_or_none(100 * standing.high, POINT_DIGITS),
        "end": _finite_or_none(100 * standing.end_gain, POINT_DIGITS),
        "better": standing.better,
        "worse": standing.worse,
        "worstCell": standing.worst_cell,
        "worstGain": _finite_or_none(100 * standing.worst_gain, POINT_DIGITS),
        "families": {family: _finite_or_none(100 * gain, POINT_DIGITS) for family, gain in standing.by_family.items()},
        "reached": standing.reached,
        "failures": standing.failures,
        "baseline": _test_data(standing.baseline_test),
        "leader": _test_data(standing.leader_test),
        "configuration": standing.configuration,
        "hours": _finite_or_none(standing.hours, 3),
        "megabytes": _finite_or_none(standing.megabytes, 2),
        "milliseconds": _finite_or_none(standing.milliseconds, 2),
    }


def _test_data(test: CorrectedTest | None) -> Data | None:
    if test is None:
        return None
    return {"against": test.against, "p": float(f"{test.adjusted:.2g}"), "separated": test.separated}


def _cell_figures(board: TrackBoard, cell: TrackCell) -> Data:
    """Return areas, ends and curves of all rows in one cell, and the target where time is judged."""
    figures: Data = {
        figure: {row: _finite_or_none(value, 4) for row, value in board.means(figure)[cell.name].items()}
        for figure in board.figures
    }
    budget = cell.seconds if cell.seconds is not None else float(board.suite.setting(cell)["rounds"])
    grid = np.linspace(0, budget, GRID + 1)[1:]
    figures["grid"] = [_finite_or_none(position, 1) for position in grid]
    figures["curves"] = {row: _mean_curve(board, cell, row, grid) for row in board.complete}
    figures["target"] = _finite_or_none(board.targets.get(cell.name, math.nan), 4)
    return figures


def _mean_curve(board: TrackBoard, cell: TrackCell, row: str, grid: np.ndarray) -> list[float | None]:
    """Return the mean over seeds of the accuracy at the points of a grid; failed runs count as 0."""
    runs = board.runs.filter((pl.col("cell") == cell.name) & (pl.col("row") == row))
    curves = []
    for run in runs.iter_rows(named=True):
        curve = run_rows.row_curve(board.suite, cell, run)
        is_sound = run["status"] == run_rows.DONE and curve.is_sound
        curves.append([curve.at(position) if is_sound else 0.0 for position in grid])
    return [_finite_or_none(value, 4) for value in np.mean(curves, axis=0)]


def _cell_data(suite: TrackSuite, cell: TrackCell) -> Data:
    setting = suite.setting(cell)
    data = setting["data"]
    return {
        "name": cell.name,
        "half": cell.half,
        "family": cell.family,
        "data": data["name"],
        "model": setting["model"]["name"],
        "clients": data.get("clients"),
        "cohort": setting["cohort"],
        "seeds": len(suite.seeds_of(cell)),
        "budget": cell.seconds if cell.seconds is not None else setting["rounds"],
        "details": {
            key: table_text(setting[key])
            for key in ("availability", "local", "server", "devices", "pace", "attacks")
            if key in setting
        }
        | {"data": table_text(data)},
    }


def table_text(value: Any) -> str:
    """Write a table of a study in short words."""
    if isinstance(value, Mapping):
        rest = [f"{key} {table_text(item)}" for key, item in value.items() if key != "name"]
        return ", ".join([*([str(value["name"])] if "name" in value else []), *rest])
    if isinstance(value, list | tuple):
        return "/".join(table_text(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _without_tables(values: Mapping[str, Any]) -> Data:
    return {key: _finite_or_none(value, 4) if isinstance(value, float) else value for key, value in values.items()}


def _finite_or_none(value: float, digits: int) -> float | None:
    """Return a rounded number; None for one that is not finite, which JSON does not have."""
    return round(float(value), digits) if math.isfinite(value) else None

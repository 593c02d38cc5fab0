"""How much of a gain in suite 2's tracks by time comes from the time before the first evaluation?

A run is evaluated every few rounds, and its accuracy counts as 0 before the first evaluation. Methods with short rounds
are evaluated sooner. Here the accuracy rises in a straight line from that of guessing instead, and the gains are
computed anew from the stored curves.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from workshop.leaderboard_site import RESULTS

from sortition.leaderboard.entrants import load_configurations
from sortition.leaderboard.figures import Curve
from sortition.leaderboard.inference import TrackBoard
from sortition.leaderboard.run_rows import read_cells, row_curve
from sortition.leaderboard.track_boards import DEFAULT, boards_by_title
from sortition.leaderboard.tracks import load_tracks

GUESSING = 0.1  # of ten labels; nearly so for the others
ROWS = ("microcosm-secure", "microcosm", "microcosm-updates", "fedcs", "fed-cbs", "oort")


def missing_area(curve: Curve) -> float:
    """Return what a straight line from guessing to the first evaluation adds to the mean accuracy over the budget."""
    if not curve.accuracy.size:
        return 0.0
    first = float(curve.position[0])
    return (GUESSING + float(curve.accuracy[0])) / 2 * first / curve.budget


def added_gains(board: TrackBoard) -> dict[str, float]:
    """Return by row how much its weighted gain over uniform changes with that line."""
    added: dict[str, dict[str, list[float]]] = {}
    cell_by_name = {cell.name: cell for cell in board.cells}
    for run in board.runs.filter(pl.col("row").is_in(board.complete)).iter_rows(named=True):
        cell = cell_by_name.get(run["cell"])
        if cell is not None:
            area = missing_area(row_curve(board.suite, cell, run))
            added.setdefault(run["row"], {}).setdefault(cell.name, []).append(area)
    families: dict[str, list[str]] = {}
    for cell in board.cells:
        families.setdefault(cell.family, []).append(cell.name)
    changes = {}
    for row, by_cell in added.items():
        difference = {name: np.mean(areas) - np.mean(added["uniform"][name]) for name, areas in by_cell.items()}
        changes[row] = float(np.mean([np.mean([difference[name] for name in names]) for names in families.values()]))
    return changes


def report() -> int:
    """Print gains as frozen, with the line, and at the end, for the tracks by time."""
    suite = load_tracks()
    configurations = load_configurations()
    results = read_cells(suite, RESULTS, suite.cell)
    for track in ("seconds", "overlap"):
        board = boards_by_title(suite, track, configurations, results)[DEFAULT]
        changes = added_gains(board)
        print(f"{track}: points over uniform, averaged over the run, with a straight line before the first, at the end")
        for row in ROWS:
            gain = 100 * board.weighted_gain(row)
            with_line = gain + 100 * changes[row]
            at_end = 100 * board.weighted_gain(row, "end")
            print(f"  {row:18} {gain:+z.1f}  {with_line:+z.1f}  {at_end:+z.1f}")
    return 0

"""What runs of suite 2 cost in processor seconds, measured: uniform sampling by cell, and other methods beside it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from sortition.leaderboard.tracks import TrackCell, TrackSuite
from sortition.studies.plan import read

COSTS_FILE = Path(__file__).parent / "suite-2-costs.toml"
UNMEASURED = 1.0  # processor seconds of a cell that nobody has timed
TYPICAL = 1.5  # how many times as long as uniform a method takes that nobody has timed
LARGE = 300  # clients from which on a federation of a small model is a large one


@cache
def load_measured_costs() -> dict[str, Any]:
    """Return the file of measured costs."""
    return read(COSTS_FILE)


def measured_kind(suite: TrackSuite, cell: TrackCell) -> str:
    """Return which measured federation a cell is like: ``cnn``, ``flights``, ``large`` or ``small``."""
    setting = suite.setting(cell)
    if setting["data"]["name"] == "flights":
        return "flights"
    if setting["model"]["name"] in ("cnn", "char-lstm"):
        return "cnn"
    return "large" if setting["data"].get("clients", 0) >= LARGE else "small"


def estimated_seconds(suite: TrackSuite, cell: TrackCell, row: str) -> float:
    """Return the processor seconds that a run of a row is expected to take in a cell."""
    of_uniform = float(load_measured_costs()["uniform"].get(cell.name, UNMEASURED))
    factor = float(load_measured_costs()["factor"][measured_kind(suite, cell)].get(row, TYPICAL))
    return of_uniform * factor

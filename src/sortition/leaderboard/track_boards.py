"""The tables of a track: default and tuned, on the cells that are held out, and the default one on all cells."""

from __future__ import annotations

import polars as pl

from sortition.leaderboard.entrants import BASELINE, Configurations, parse_entrant
from sortition.leaderboard.inference import TrackBoard, rows_over_cap
from sortition.leaderboard.tracks import TrackSuite
from sortition.leaderboard.tuning import default_table, tuned_entrants, tuned_table

DEFAULT = "default"
TUNED = "tuned"
QUICK_SEEDS = 2


def boards_by_title(
    suite: TrackSuite, track: str, configurations: Configurations, results: pl.DataFrame, *, quick: bool = False
) -> dict[str, TrackBoard]:
    """Return the boards of a track by title; the tuned one where some row has been tuned."""
    over_cap = rows_over_cap(results)
    results = results.filter(pl.col("track") == track)
    defaults = default_table(results)
    if quick:
        return {DEFAULT: TrackBoard(suite, suite.cells(track, quick=True), defaults, seeds=QUICK_SEEDS)}
    held_out = suite.cells(track, "held-out")
    boards = {DEFAULT: TrackBoard(suite, held_out, defaults, over_cap=over_cap)}
    default_entrants = [
        parse_entrant(label, configuration, label)
        for label, configuration in defaults.select("label", "configuration").unique(maintain_order=True).iter_rows()
    ]
    tuned = tuned_entrants(suite, track, configurations, defaults=default_entrants, results=results)
    if any(not entrant.is_default for entrant in tuned.values()) and BASELINE in tuned:
        boards[TUNED] = TrackBoard(suite, held_out, tuned_table(results, tuned), over_cap=over_cap)
    return boards

"""Which configuration a row of suite 2 has in the tuned table, by one stated rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from sortition.leaderboard.entrants import BASELINE, Configurations, Entrant
from sortition.leaderboard.inference import TrackBoard
from sortition.leaderboard.tracks import TrackCell, TrackSuite

SEEDS = 3  # of the runs that decide


def tuning_cells(suite: TrackSuite, track: str) -> list[TrackCell]:
    """Return the cells of a track on which methods are tuned: those of the half ``tuning`` without a CNN."""
    return [cell for cell in suite.cells(track, "tuning") if not suite.has_cnn(cell)]


def tuning_gains(
    suite: TrackSuite, track: str, candidates: Sequence[Entrant], results: pl.DataFrame
) -> dict[str, float]:
    """Return the family-weighted gain of each candidate on the tuning cells; none of those that lack runs."""
    labels = [candidate.label for candidate in candidates]
    rows = results.filter(pl.col("label").is_in([BASELINE, *labels])).with_columns(row=pl.col("label"))
    board = TrackBoard(suite, tuning_cells(suite, track), rows, seeds=SEEDS)
    return {label: board.weighted_gain(label) for label in labels if label in board.complete}


def tuned_entrant(
    suite: TrackSuite, track: str, candidates: Sequence[Entrant], results: pl.DataFrame
) -> Entrant | None:
    """Return the candidate with the largest gain, the default where none exceeds it; None while runs are missing."""
    gains = tuning_gains(suite, track, candidates, results)
    if len(gains) < len(candidates):
        return None
    default, *alternatives = candidates
    best = default
    for alternative in alternatives:
        if gains[alternative.label] > gains[best.label]:
            best = alternative
    return best


def tuned_entrants(
    suite: TrackSuite, track: str, configurations: Configurations, defaults: Sequence[Entrant], results: pl.DataFrame
) -> dict[str, Entrant]:
    """Return the tuned configuration of every row that has all its runs on the tuning cells; the baseline's default."""
    tuned: dict[str, Entrant] = {}
    if not tuning_cells(suite, track):
        return tuned
    for default in defaults:
        best = tuned_entrant(suite, track, configurations.candidates(default), results)
        if best is not None:
            tuned[default.label] = best
    return tuned


def default_table(results: pl.DataFrame) -> pl.DataFrame:
    """Return the runs of the default table."""
    return results.filter(pl.col("label") == pl.col("row"))


def tuned_table(results: pl.DataFrame, tuned: Mapping[str, Entrant]) -> pl.DataFrame:
    """Return the runs of the tuned table."""
    return results.filter(pl.col("label").is_in([entrant.label for entrant in tuned.values()]))

"""The standings of suite 2 that come with the package, so that the advisor can quote them without the runs."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sortition.leaderboard.inference import RowStanding, TrackBoard
from sortition.leaderboard.our_default import OWN, default_against_others
from sortition.studies.config import validated

STANDINGS_FILE = Path(__file__).parent / "suite-2-standings.json"


class PublishedRow(BaseModel):
    """Where one row of a track's default table stands.

    Attributes:
        row: the method.
        information: its information class.
        rank: mean rank of area over the held-out cells; 1 is best.
        gain: mean gain of area over uniform in points, families weighed equally.
        low: lower end of its 95 % interval.
        high: upper end of its 95 % interval.
        separated: whether it differs from uniform after Holm's correction.
        p: the p-value of that test, corrected; None for uniform itself.
        better: in how many cells its area is larger than uniform's.
        end_gain: the same gain of the accuracy at the end.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    row: str
    information: str
    rank: float
    gain: float
    low: float
    high: float
    separated: bool
    p: float | None
    better: int
    end_gain: float

    @property
    def gain_text(self) -> str:
        """The gain with its interval, ``+9.0 [+8.0, +10.0]``."""
        return f"{self.gain:+z.1f} [{self.low:+z.1f}, {self.high:+z.1f}]"

    def __str__(self) -> str:
        return f"{self.row} {self.gain_text}"


class PublishedTuned(BaseModel):
    """Our default where every method takes the best of its few configurations on the tuning cells.

    Attributes:
        row: its row in the tuned table.
        undecided: gains in points of the methods of others from which it is not separated, by name.
        behind: gains of those from which it is separated and that gain more.
        capped: how many runs of these methods ended at the most rounds allowed, before the time budget.
        runs: how many runs a row has.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    row: PublishedRow
    undecided: dict[str, float]
    behind: dict[str, float]
    capped: dict[str, int]
    runs: int


class PublishedTrack(BaseModel):
    """The default table of one track.

    Attributes:
        cells: how many held-out cells it is of.
        rows: the best mean rank first; the baseline is among them.
        tuned: our default in the tuned table; None where that table is not complete.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    cells: int
    rows: tuple[PublishedRow, ...]
    tuned: PublishedTuned | None = None

    def best(self, allowed: Collection[str], number: int) -> list[PublishedRow]:
        """Return the first rows among those that are allowed and gain over uniform."""
        return [row for row in self.rows if row.row in allowed and row.gain > 0][:number]


class Published(BaseModel):
    """All default tables of the suite that are complete, by track, and where our default stands in the tuned ones."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    suite: str
    tracks: dict[str, PublishedTrack]


def published_track(board: TrackBoard, tuned_board: TrackBoard | None = None) -> PublishedTrack:
    """Return what is published of a track's standings; points are rounded."""
    rows = tuple(_published_row(standing) for standing in board.standings())
    tuned = None if tuned_board is None else _published_tuned(tuned_board)
    return PublishedTrack(cells=len(board.cells), rows=rows, tuned=tuned)


def _published_tuned(board: TrackBoard) -> PublishedTuned | None:
    """Return where our default stands in the tuned table; None where rows are missing."""
    verdict = default_against_others(board)
    if verdict is None or board.unfinished:
        return None
    standing = next(standing for standing in board.standings() if standing.row == OWN)
    return PublishedTuned(
        row=_published_row(standing),
        undecided={row: _points(board.weighted_gain(row)) for row in verdict.undecided},
        behind={row: _points(board.weighted_gain(row)) for row in verdict.behind},
        capped={row: board.capped.get(row, 0) for row in (*verdict.undecided, *verdict.behind)},
        runs=board.runs_of_a_row,
    )


def _points(share: float) -> float:
    return round(100 * share, 6)  # finer than any page shows, so that pages do not round twice


def _published_row(standing: RowStanding) -> PublishedRow:
    test = standing.baseline_test
    return PublishedRow(
        row=standing.row,
        information=standing.information,
        rank=round(standing.ranks["area"], 2),
        gain=_points(standing.gain),
        low=_points(standing.low),
        high=_points(standing.high),
        separated=test is not None and test.separated,
        p=None if test is None else float(f"{test.adjusted:.2g}"),
        better=standing.better,
        end_gain=_points(standing.end_gain),
    )


def load_published(path: Path = STANDINGS_FILE) -> Published:
    """Load the standings that come with Sortition."""
    return validated(Published, json.loads(path.read_text(encoding="utf-8")), "standings")

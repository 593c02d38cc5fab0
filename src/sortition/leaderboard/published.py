"""The standings of suite 2 that come with the package, so that the advisor can quote them without the runs."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sortition.leaderboard.inference import RowStanding, TrackBoard
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


class PublishedTrack(BaseModel):
    """The default table of one track.

    Attributes:
        cells: how many held-out cells it is of.
        rows: the best mean rank first; the baseline is among them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    cells: int
    rows: tuple[PublishedRow, ...]

    def best(self, allowed: Collection[str], number: int) -> list[PublishedRow]:
        """Return the first rows among those that are allowed and gain over uniform."""
        return [row for row in self.rows if row.row in allowed and row.gain > 0][:number]


class Published(BaseModel):
    """All default tables of the suite that are complete, by track."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    suite: str
    tracks: dict[str, PublishedTrack]


def published_track(board: TrackBoard) -> PublishedTrack:
    """Return what is published of a board's standings; points are rounded to a hundredth."""
    rows = tuple(_published_row(standing) for standing in board.standings())
    return PublishedTrack(cells=len(board.cells), rows=rows)


def _published_row(standing: RowStanding) -> PublishedRow:
    test = standing.baseline_test
    return PublishedRow(
        row=standing.row,
        information=standing.information,
        rank=round(standing.ranks["area"], 2),
        gain=round(100 * standing.gain, 2),
        low=round(100 * standing.low, 2),
        high=round(100 * standing.high, 2),
        separated=test is not None and test.separated,
        p=None if test is None else float(f"{test.adjusted:.2g}"),
        better=standing.better,
        end_gain=round(100 * standing.end_gain, 2),
    )


def load_published(path: Path = STANDINGS_FILE) -> Published:
    """Load the standings that come with Sortition."""
    return validated(Published, json.loads(path.read_text(encoding="utf-8")), "standings")

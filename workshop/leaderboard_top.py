"""The top of a track of suite 2 as README and picture show it: methods of others, and our own once."""

from __future__ import annotations

from dataclasses import dataclass

from sortition.leaderboard.entries import BASELINE
from sortition.leaderboard.published import PublishedRow, PublishedTrack
from sortition.leaderboard.track_tables import OWN

PLACES = 5  # shown, and the baseline


@dataclass(frozen=True)
class Place:
    """A method and its place by mean rank, where variants of our own method hold no place.

    Attributes:
        number: its place; 1 is best.
        row: its standing.
    """

    number: int
    row: PublishedRow


def is_variant(row: PublishedRow) -> bool:
    """Whether a row is our own method in another form than its default, which may know less."""
    return row.row.startswith(OWN) and row.row != OWN


def best_places(track: PublishedTrack, number: int = PLACES) -> list[Place]:
    """Return the best methods by mean rank, and the baseline below them where it is not among them."""
    rows = [row for row in track.rows if not is_variant(row)]
    places = [Place(number=place, row=row) for place, row in enumerate(rows, start=1)]
    return [place for place in places if place.number <= number or place.row.row == BASELINE]

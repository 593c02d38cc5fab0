"""The top of a track of suite 2 as README and picture show it: methods of others, and our own in its default form."""

from __future__ import annotations

from dataclasses import dataclass

from sortition.leaderboard.entries import BASELINE
from sortition.leaderboard.our_default import OWN
from sortition.leaderboard.published import PublishedRow, PublishedTrack

PLACES = 5  # shown, and the baseline


@dataclass(frozen=True)
class Place:
    """A method and its place by mean rank among all rows of the board.

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
    """Return the best methods by mean rank, variants of our own left out, and the baseline below them."""
    places = [Place(number=place, row=row) for place, row in enumerate(track.rows, start=1)]
    shown = [place for place in places if not is_variant(place.row)]
    return shown[:number] + [place for place in shown[number:] if place.row.row == BASELINE]

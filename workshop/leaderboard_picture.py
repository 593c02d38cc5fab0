"""The top of both main tracks as one picture, for the README: gains over uniform with their intervals.

One track stands below the other, so that names can be read on a phone. Colours are readable on white and on black.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path

from sortition.leaderboard.entries import BASELINE
from sortition.leaderboard.our_default import OWN
from sortition.leaderboard.published import Published, PublishedTrack
from workshop import DOCS
from workshop.leaderboard_top import Place, best_places

PICTURE = DOCS / "images" / "leaderboard-2.svg"
SHOWN_TRACKS = {"rounds": "By rounds", "seconds": "By the clock, on devices that differ"}
# Pixels.
WIDTH = 440
NAMES = 160  # width of places and names
FIGURES = 130  # width of the figures at the right
LINE = 25
TITLE = 44  # height of a track's title
LEGEND = 52
# Colours.
TEXT = "#7a828c"
SEPARATED = "#2f81d6"
NOT_SEPARATED = "#9aa2ad"


def top_picture(published: Published) -> str:
    """Draw the best methods of both main tracks by mean rank, and uniform sampling."""
    places = {track: best_places(published.tracks[track]) for track in SHOWN_TRACKS}
    x = _scale([place for track in places.values() for place in track])
    parts: list[str] = []
    y = 0
    for track, title in SHOWN_TRACKS.items():
        parts += _panel(published.tracks[track], title, top=y, x=x)
        y += TITLE + LINE * len(places[track]) + 8
    height = y + LEGEND
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' height='{height}'"
            f" role='img' font-family='sans-serif' font-size='14' fill='{TEXT}'>",
            "<title>Points of accuracy over uniform sampling, by rounds and by the clock</title>",
            *parts,
            *_legend(height - 34),
            "</svg>\n",
        ]
    )


def write_picture(published: Published, path: Path = PICTURE) -> None:
    """Write the picture where both tracks have standings."""
    if all(track in published.tracks for track in SHOWN_TRACKS):
        path.write_text(top_picture(published), encoding="utf-8")


def _scale(places: list[Place]) -> Callable[[float], float]:
    """Return where a number of points is drawn; both tracks have one scale."""
    lowest = min(0.0, *(place.row.low for place in places))
    highest = max(1.0, *(place.row.high for place in places))
    room = WIDTH - NAMES - FIGURES - 20
    return lambda points: NAMES + room * (points - lowest) / (highest - lowest)


def _panel(track: PublishedTrack, title: str, *, top: int, x: Callable[[float], float]) -> list[str]:
    places = best_places(track)
    bottom = top + TITLE + LINE * len(places)
    parts = [
        f"<text x='4' y='{top + 22}' font-weight='bold'>{escape(title)}: {track.cells} federations</text>",
        f"<path d='M{x(0):.1f} {top + TITLE - 8}V{bottom - 6}' stroke='{TEXT}' stroke-dasharray='3 3'/>",
    ]
    for line, place in enumerate(places):
        parts += _line(place, y=top + TITLE + LINE * line + 8, x=x)
    return parts


def _line(place: Place, *, y: int, x: Callable[[float], float]) -> list[str]:
    row = place.row
    name = f"{row.row} (ours)" if row.row == OWN else row.row
    names = [
        f"<text x='28' y='{y + 5}' text-anchor='end'>{place.number}</text>",
        f"<text x='38' y='{y + 5}'>{escape(name)}</text>",
    ]
    if row.row == BASELINE:
        return [*names, f"<circle cx='{x(0):.1f}' cy='{y}' r='4' fill='{TEXT}'/>"]
    colour = SEPARATED if row.separated else NOT_SEPARATED
    return [
        *names,
        f"<path d='M{x(row.low):.1f} {y}H{x(row.high):.1f}' stroke='{colour}' stroke-width='3'/>",
        f"<circle cx='{x(row.gain):.1f}' cy='{y}' r='5' fill='{colour}'/>",
        f"<text x='{WIDTH - 4}' y='{y + 5}' text-anchor='end'>{row.gain_text}</text>",
    ]


def _legend(y: int) -> list[str]:
    return [
        f"<path d='M4 {y - 5}h16' stroke='{SEPARATED}' stroke-width='3'/>",
        f"<text x='26' y='{y}'>separated from uniform</text>",
        f"<path d='M198 {y - 5}h16' stroke='{NOT_SEPARATED}' stroke-width='3'/>",
        f"<text x='220' y='{y}'>not separated</text>",
        f"<text x='4' y='{y + 22}'>points of accuracy, 95 % interval</text>",
    ]

"""The top of two tracks as one picture, for the README: gains over uniform with their intervals."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from workshop import DOCS
from workshop.leaderboard_data import Data

# Pixels.
WIDTH = 900
PANEL = WIDTH / 2
NAMES = 150  # width of the names
LINE = 26
TOP = 58
MARGIN = 36
STYLE = "font-family='sans-serif' font-size='13'"
PICTURE = DOCS / "images" / "leaderboard-2.svg"
SHOWN_TRACKS = {"rounds": "By rounds", "seconds": "By the clock"}
SEPARATED = "#0072B2"
NOT_SEPARATED = "#8a8f98"


def top_picture(data: Data, places: int = 5, table: str = "default") -> str:
    """Draw the best rows of both main tracks by mean rank; grey where a row is not separated from uniform."""
    height = TOP + LINE * places + MARGIN
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' {STYLE}>",
        f"<rect width='{WIDTH}' height='{height}' fill='white'/>",
    ]
    for number, (track, title) in enumerate(SHOWN_TRACKS.items()):
        content = data["tracks"][track]["tables"].get(table)
        if content:
            parts += _panel(content["rows"][:places], title, left=number * PANEL)
    legend = (
        "Points of accuracy over uniform (mean over families, 95 % interval); grey: not separated from uniform. "
        f"{data['suite']}, held-out cells."
    )
    parts.append(f"<text x='10' y='{height - 10}' font-size='11' fill='#57606a'>{escape(legend)}</text>")
    return "\n".join([*parts, "</svg>\n"])


def write_picture(data: Data, path: Path = PICTURE) -> None:
    """Write the picture where both tracks have standings."""
    if all(data["tracks"][track]["tables"] for track in SHOWN_TRACKS):
        path.write_text(top_picture(data), encoding="utf-8")


def _panel(rows: list[dict[str, Any]], title: str, *, left: float) -> list[str]:
    highest = max([1.0, *(row["high"] or 0.0 for row in rows)])
    lowest = min([0.0, *(row["low"] or 0.0 for row in rows)])

    def x(points: float) -> float:
        return left + NAMES + (PANEL - NAMES - 30) * (points - lowest) / (highest - lowest)

    bottom = TOP + LINE * len(rows)
    parts = [
        f"<text x='{left + 10}' y='24' font-weight='bold'>{escape(title)}</text>",
        f"<path d='M{x(0):.1f} {TOP - 14}V{bottom}' stroke='#57606a'/>",
        f"<text x='{x(0):.1f}' y='{TOP - 18}' text-anchor='middle' font-size='11'>uniform</text>",
    ]
    for place, row in enumerate(rows, start=1):
        y = TOP + LINE * (place - 1) + 8
        is_separated = bool(row["baseline"] and row["baseline"]["separated"])
        colour = SEPARATED if is_separated else NOT_SEPARATED
        parts += [
            f"<text x='{left + 10}' y='{y + 5}'>{place}</text>",
            f"<text x='{left + 28}' y='{y + 5}'>{escape(row['row'])}</text>",
            f"<path d='M{x(row['low']):.1f} {y}H{x(row['high']):.1f}' stroke='{colour}' stroke-width='3'/>",
            f"<circle cx='{x(row['gain']):.1f}' cy='{y}' r='5' fill='{colour}'/>",
        ]
    return parts

"""The critical-difference diagram (Demšar 2006) as SVG: mean ranks on a line, bars over those that do not differ."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from sortition.results.ranking import groups

WIDTH, MARGIN, NAMES, LINE, BAR = 900, 30, 210, 18, 9
TOP = 62  # of the axis, below the length that is the critical difference
STYLE = "font-family='sans-serif' font-size='12'"


def diagram(ranks: Mapping[str, float], critical: float, title: str) -> str:
    """The whole picture; the best method is at the left."""
    order = sorted(ranks, key=lambda name: ranks[name])
    last = max(2, round(max(ranks.values()) + 0.5))

    def x(rank: float) -> float:
        return NAMES + (WIDTH - 2 * NAMES) * (rank - 1) / (last - 1)

    joined = groups(ranks, critical)
    first = TOP + 12 + BAR * len(joined)
    half = (len(order) + 1) // 2
    height = first + LINE * half + MARGIN
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' {STYLE}>",
        f"<rect width='{WIDTH}' height='{height}' fill='white'/>",
        f"<text x='{WIDTH / 2}' y='18' text-anchor='middle' font-weight='bold'>{escape(title)}</text>",
        _line(x(1), 36, x(1 + critical), 36, 3),
        f"<text x='{x(1 + critical) + 6:.1f}' y='40'>critical difference {critical:.2f}</text>",
        _line(x(1), TOP, x(last), TOP, 1.5),
    ]
    for rank in range(1, last + 1):
        parts += [_line(x(rank), TOP - 5, x(rank), TOP, 1.5)]
        parts += [f"<text x='{x(rank):.1f}' y='{TOP - 8}' text-anchor='middle'>{rank}</text>"]
    for row, group in enumerate(joined):
        y = TOP + 8 + BAR * row
        parts.append(_line(x(ranks[group[0]]) - 3, y, x(ranks[group[-1]]) + 3, y, 4))
    for at, name in enumerate(order):
        parts += _label(name, ranks[name], x(ranks[name]), first, at if at < half else len(order) - 1 - at, at < half)
    return "\n".join([*parts, "</svg>\n"])


def _line(x1: float, y1: float, x2: float, y2: float, width: float) -> str:
    return f"<path d='M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}' stroke='black' stroke-width='{width}'/>"


def _label(name: str, rank: float, at: float, first: float, row: int, left: bool) -> list[str]:
    y = first + LINE * (row + 1)
    edge, anchor = (NAMES - 8, "end") if left else (WIDTH - NAMES + 8, "start")
    path = f"M{at:.1f} {TOP}L{at:.1f} {y - 4:.1f}L{edge} {y - 4:.1f}"
    text = f"{escape(name)} ({rank:.1f})" if left else f"({rank:.1f}) {escape(name)}"
    return [
        f"<path d='{path}' stroke='grey' fill='none'/>",
        f"<text x='{edge - 4 if left else edge + 4}' y='{y}' text-anchor='{anchor}'>{text}</text>",
    ]

"""The critical-difference diagram (Demšar 2006) as SVG: mean ranks on a line, bars over those that do not differ."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from sortition.results.ranking import find_groups

# Pixels.
WIDTH = 900
MARGIN = 30  # below the last name
NAMES = 210  # width of the names at either side
LINE = 18  # height of a name
BAR = 9  # distance of two bars
AXIS = 62  # y of the axis, below the length that shows the critical difference
STYLE = "font-family='sans-serif' font-size='12'"


def draw_diagram(ranks: Mapping[str, float], critical: float, title: str) -> str:
    """Draw the whole picture; the best method is at the left."""
    methods = sorted(ranks, key=lambda name: ranks[name])
    last_rank = max(2, round(max(ranks.values()) + 0.5))

    def x(rank: float) -> float:
        return NAMES + (WIDTH - 2 * NAMES) * (rank - 1) / (last_rank - 1)

    bars = find_groups(ranks, critical)
    names_top = AXIS + 12 + BAR * len(bars)
    n_left = (len(methods) + 1) // 2
    height = names_top + LINE * n_left + MARGIN
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' {STYLE}>",
        f"<rect width='{WIDTH}' height='{height}' fill='white'/>",
        f"<text x='{WIDTH / 2}' y='18' text-anchor='middle' font-weight='bold'>{escape(title)}</text>",
        _draw_line(x1=x(1), y1=36, x2=x(1 + critical), y2=36, width=3),
        f"<text x='{x(1 + critical) + 6:.1f}' y='40'>critical difference {critical:.2f}</text>",
        _draw_line(x1=x(1), y1=AXIS, x2=x(last_rank), y2=AXIS, width=1.5),
    ]
    for rank in range(1, last_rank + 1):
        parts.append(_draw_line(x1=x(rank), y1=AXIS - 5, x2=x(rank), y2=AXIS, width=1.5))
        parts.append(f"<text x='{x(rank):.1f}' y='{AXIS - 8}' text-anchor='middle'>{rank}</text>")
    for row, group in enumerate(bars):
        y = AXIS + 8 + BAR * row
        parts.append(_draw_line(x1=x(ranks[group[0]]) - 3, y1=y, x2=x(ranks[group[-1]]) + 3, y2=y, width=4))
    for position, name in enumerate(methods):
        on_left = position < n_left
        row = position if on_left else len(methods) - 1 - position
        baseline = names_top + LINE * (row + 1)
        parts += _draw_label(name=name, rank=ranks[name], x=x(ranks[name]), y=baseline, on_left=on_left)
    return "\n".join([*parts, "</svg>\n"])


def _draw_line(*, x1: float, y1: float, x2: float, y2: float, width: float) -> str:
    return f"<path d='M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}' stroke='black' stroke-width='{width}'/>"


def _draw_label(*, name: str, rank: float, x: float, y: float, on_left: bool) -> list[str]:
    """Draw a method's name at one side, and a line from it to the method's rank on the axis."""
    if on_left:
        edge = NAMES - 8
        text_x = edge - 4
        anchor = "end"
        text = f"{escape(name)} ({rank:.1f})"
    else:
        edge = WIDTH - NAMES + 8
        text_x = edge + 4
        anchor = "start"
        text = f"({rank:.1f}) {escape(name)}"
    path = f"M{x:.1f} {AXIS}L{x:.1f} {y - 4:.1f}L{edge} {y - 4:.1f}"
    return [
        f"<path d='{path}' stroke='grey' fill='none'/>",
        f"<text x='{text_x}' y='{y}' text-anchor='{anchor}'>{text}</text>",
    ]

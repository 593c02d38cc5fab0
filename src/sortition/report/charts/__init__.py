"""Charts: one definition each, for the page and for PNG, SVG and PDF.

A chart names its tables instead of holding them: checking rows against a schema is what makes large charts slow, and
the page stores tables by column, each text once. On the page a chart fills its column; in files it has a fixed width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt
import numpy as np

from sortition.core.arrays import Floats

WIDTH = 660  # in files
FILL = "container"  # on the page
GAP = "gap"  # the style of marks in the colour of the paper, which page and files give
Rows = Sequence[dict[str, Any]]


@dataclass
class Chart:
    """A chart with its texts and its data.

    Attributes:
        name: of its files, when exported.
        title: above it, on the page.
        caption: below it: how to read it.
        drawing: an Altair chart on named data.
        tables: the rows behind each name.
        span: how many of the page's six columns it takes where there is room.
    """

    name: str
    title: str
    caption: str
    drawing: Any
    tables: Mapping[str, Rows] = field(default_factory=dict)
    span: int = 6

    def bare(self) -> dict[str, Any]:
        """The specification without its rows."""
        return dict(self.drawing.to_dict(validate=False))

    def spec(self) -> dict[str, Any]:
        """The whole specification, of a fixed width."""
        bare = self.bare()
        if bare.get("width") == FILL:
            bare["width"] = WIDTH * max(self.span, 3) // 6  # names need half the width
        return {**bare, "datasets": {name: list(rows) for name, rows in self.tables.items()}}

    def columns(self) -> dict[str, Any]:
        """The tables by column, texts as positions in a list of distinct ones."""
        return {
            name: {key: _column([row.get(key) for row in rows]) for key in _keys(rows)}
            for name, rows in self.tables.items()
        }


def on(name: str) -> alt.Chart:
    """An empty chart on a named table."""
    return alt.Chart(alt.NamedData(name=name))


def filling(drawing: Any, height: int) -> Any:
    """A drawing as wide as its place."""
    return drawing.properties(width=FILL, height=height, autosize=alt.AutoSizeParams(type="fit-x", contains="padding"))


def headed(drawing: Any, first: str | alt.ExprRef, second: str = "") -> Any:
    """A drawing with one or two small lines above it, on the page and in files: what its lines and bands are."""
    title = alt.TitleParams(
        first, subtitle=second or alt.Undefined, anchor="start", fontSize=11, fontWeight="normal", subtitleFontSize=11
    )
    return drawing.properties(title=title)


def spread_out(values: Sequence[float], gap: float, low: float = -np.inf, high: float = np.inf) -> Floats:
    """Positions near the values, at least ``gap`` from each other: for labels beside the ends of lines.

    They lie between ``low`` and ``high`` as far as there is room.
    """
    order = np.argsort(values, kind="stable")
    placed = np.asarray(values, np.float64)[order]
    for _ in range(500):
        short = np.maximum(gap - np.diff(placed), 0.0) / 2
        if not (short > gap * 1e-3).any():
            break
        placed[:-1] -= short
        placed[1:] += short
    steps = gap * np.arange(placed.size)
    placed = np.minimum(placed, high - steps[::-1])
    placed = np.maximum(placed, low + steps)
    found: Floats = np.empty_like(placed)
    found[order] = placed
    return found


def whole_rounds(title: str = "round") -> alt.X:
    """An axis of rounds: whole numbers."""
    return alt.X("round:Q", title=title, axis=alt.Axis(format="d", tickMinStep=1), scale=alt.Scale(nice=False))


def amounts(**options: Any) -> alt.Axis:
    """An axis of costs: 12k for thousands, and below one as it is; SI's m for thousandths reads as millions."""
    return alt.Axis(labelExpr="format(datum.value, abs(datum.value) < 1 ? '~r' : '~s')", **options)


def signed_axis() -> alt.Axis:
    """Differences: with their sign, zero without one."""
    return alt.Axis(labelExpr="datum.value === 0 ? '0' : format(datum.value, '+~r')")


def _keys(rows: Rows) -> list[str]:
    return list(dict.fromkeys(key for row in rows[:50] for key in row))


def _column(values: list[Any]) -> Any:
    if values and all(isinstance(value, str) for value in values):
        distinct = list(dict.fromkeys(values))
        at = {text: position for position, text in enumerate(distinct)}
        return {"texts": distinct, "at": [at[value] for value in values]}
    return values

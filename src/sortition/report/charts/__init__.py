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
Row = dict[str, Any]  # column → text, number or truth value
Rows = Sequence[Row]


@dataclass
class Chart:
    """A chart with its texts and its data.

    Attributes:
        name: the name of its files, when exported.
        title: above it, on the page.
        caption: below it: how to read it.
        drawing: an Altair chart on named data.
        tables: the rows behind each name.
        span: how many of the page's six columns it takes where there is room.
        reading: a sentence on what lines and bands are, which the page writes into the chart.
        hint: a sentence on what a reader can do on the page.
    """

    name: str
    title: str
    caption: str
    drawing: Any
    tables: Mapping[str, Rows] = field(default_factory=dict)
    span: int = 6
    reading: str = ""
    hint: str = ""

    def spec_without_rows(self) -> dict[str, Any]:
        """Return the specification without its rows."""
        return dict(self.drawing.to_dict(validate=False))

    def spec(self, width: int | None = None) -> dict[str, Any]:
        """Return the whole specification, of a fixed width: this one in pixels, or one by the chart's span."""
        bare = self.spec_without_rows()
        if bare.get("width") == FILL:
            bare["width"] = width or WIDTH * max(self.span, 3) // 6  # names need half the width
        return {**bare, "datasets": {name: list(rows) for name, rows in self.tables.items()}}

    def columns(self) -> dict[str, Any]:
        """Return the tables by column; a column of texts is a list of distinct ones, and positions in it."""
        return {
            name: {key: _encode_column([row.get(key) for row in rows]) for key in _column_names(rows)}
            for name, rows in self.tables.items()
        }


def chart_on(name: str) -> alt.Chart:
    """Return an empty chart on a named table."""
    return alt.Chart(alt.NamedData(name=name))


def fill_width(drawing: Any, height: int) -> Any:
    """Return a drawing that is as wide as its place on the page."""
    return drawing.properties(width=FILL, height=height, autosize=alt.AutoSizeParams(type="fit-x", contains="padding"))


def with_title_lines(drawing: Any, first: str | alt.ExprRef, second: str = "") -> Any:
    """Return a drawing with one or two small lines above it, which say what is drawn or chosen."""
    title = alt.TitleParams(
        first,
        subtitle=second or alt.Undefined,
        anchor="start",
        fontSize=11,
        fontWeight="normal",
        subtitleFontSize=11,
    )
    return drawing.properties(title=title)


def spread_out(values: Sequence[float], gap: float, low: float = -np.inf, high: float = np.inf) -> Floats:
    """Return positions near the values, at least ``gap`` from each other: for labels beside the ends of lines.

    They lie between ``low`` and ``high`` as far as there is room.
    """
    order = np.argsort(values, kind="stable")
    positions = np.asarray(values, np.float64)[order]
    for _ in range(500):
        shortfall = np.maximum(gap - np.diff(positions), 0.0) / 2
        if not (shortfall > gap * 1e-3).any():
            break
        positions[:-1] -= shortfall
        positions[1:] += shortfall
    steps = gap * np.arange(positions.size)
    positions = np.minimum(positions, high - steps[::-1])
    positions = np.maximum(positions, low + steps)
    in_the_order_of_values: Floats = np.empty_like(positions)
    in_the_order_of_values[order] = positions
    return in_the_order_of_values


def rounds_axis(title: str = "round") -> alt.X:
    """Return an axis of rounds: whole numbers."""
    return alt.X("round:Q", title=title, axis=alt.Axis(format="d", tickMinStep=1), scale=alt.Scale(nice=False))


def cost_axis(**options: Any) -> alt.Axis:
    """Return an axis of costs: 12k for thousands, and below one as it is; SI's m for thousandths reads as millions."""
    return alt.Axis(labelExpr="format(datum.value, abs(datum.value) < 1 ? '~r' : '~s')", **options)


def signed_axis() -> alt.Axis:
    """Return an axis of differences: with their sign, zero without one."""
    return alt.Axis(labelExpr="datum.value === 0 ? '0' : format(datum.value, '+~r')")


def _column_names(rows: Rows) -> list[str]:
    """Return the columns of rows; the first rows are enough to know them."""
    return list(dict.fromkeys(key for row in rows[:50] for key in row))


def _encode_column(values: list[Any]) -> Any:
    """Return a column as it is; one of texts as the distinct ones, and the position of each value among them."""
    if not values or not all(isinstance(value, str) for value in values):
        return values
    distinct = list(dict.fromkeys(values))
    positions = {text: position for position, text in enumerate(distinct)}
    return {"texts": distinct, "at": [positions[value] for value in values]}

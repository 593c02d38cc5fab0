"""Charts: one definition each, for the page and for PNG, SVG and PDF.

A chart names its tables instead of holding them: checking rows against a schema is what makes large charts slow, and
the page stores tables by column, each text once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

WIDTH = 660
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
    """

    name: str
    title: str
    caption: str
    drawing: Any
    tables: dict[str, Rows] = field(default_factory=dict)

    def bare(self) -> dict[str, Any]:
        """The specification without its rows."""
        return dict(self.drawing.to_dict(validate=False))

    def spec(self) -> dict[str, Any]:
        """The whole specification."""
        return {**self.bare(), "datasets": {name: list(rows) for name, rows in self.tables.items()}}

    def columns(self) -> dict[str, Any]:
        """The tables by column, texts as positions in a list of distinct ones."""
        return {
            name: {key: _column([row.get(key) for row in rows]) for key in _keys(rows)}
            for name, rows in self.tables.items()
        }


def on(name: str) -> alt.Chart:
    """An empty chart on a named table."""
    return alt.Chart(alt.NamedData(name=name))


def _keys(rows: Rows) -> list[str]:
    return list(dict.fromkeys(key for row in rows[:50] for key in row))


def _column(values: list[Any]) -> Any:
    if values and all(isinstance(value, str) for value in values):
        distinct = list(dict.fromkeys(values))
        at = {text: position for position, text in enumerate(distinct)}
        return {"texts": distinct, "at": [at[value] for value in values]}
    return values

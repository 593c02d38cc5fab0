"""Pieces of HTML: tables that can be sorted, figures, and texts with everything escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from sortition.results.table import Table

CONTROLS = {code: "\ufffd" for code in [*range(32), *range(127, 160)] if chr(code) not in "\t\n\r"}


def replace_control_characters(page: str) -> str:
    """Return the page with a mark in place of control characters, which foreign labels and titles may hold."""
    return page.translate(CONTROLS)


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: what it says.
        value: what it sorts by; None where that is the text.
        bold: whether the text is.
        kind: a class for its look; empty for none.
        prefix: markup that stands before the text.
    """

    text: str
    value: float | None = None
    bold: bool = False
    kind: str = ""
    prefix: str = ""

    def html(self) -> str:
        """Return one ``td``."""
        attributes = ""
        if self.kind:
            attributes += f' class="{self.kind}"'
        if self.value is not None and math.isfinite(self.value):
            attributes += f' data-value="{self.value:.6g}"'
        if self.bold:
            text = f"<b>{escape(self.text)}</b>"
        else:
            text = escape(self.text)
        return f"<td{attributes}>{self.prefix}{text}</td>"


def sortable_table_html(columns: Sequence[str], rows: Sequence[Sequence[Cell]], kind: str = "wide") -> str:
    """Return a table whose first column stays in view and whose headings sort it."""
    head = "".join(f'<th scope="col" tabindex="0">{escape(column)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(cell.html() for cell in row)}</tr>" for row in rows)
    parts = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table class="sortable {kind}">{parts}</table></div>'


def table_html(table: Table) -> str:
    """Return a table of texts with its title and notes."""
    rows = [[Cell(row[0], kind="name"), *map(Cell, row[1:])] for row in table.rows]
    title = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in table.notes)
    return f"{title}{sortable_table_html(table.columns, rows, 'plain')}{notes}"


def list_html(kinds: Sequence[tuple[str, str]]) -> str:
    """Return a list of sentences, each in the colour of its kind."""
    return "<ul>" + "".join(f'<li class="{kind}">{escape(text)}</li>' for kind, text in kinds) + "</ul>"


def duration_text(seconds: float) -> str:
    """Write a duration in the unit that people use."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 90:
        return f"{seconds:.3g} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"

"""Pieces of HTML: tables that can be sorted, figures, and texts with everything escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from sortition.results.table import Table

CONTROLS = {code: "\ufffd" for code in [*range(32), *range(127, 160)] if chr(code) not in "\t\n\r"}


def printable(page: str) -> str:
    """The page with a mark in place of control characters, which foreign labels and titles may hold."""
    return page.translate(CONTROLS)


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, what it sorts by, whether it is bold, and a class for its look."""

    text: str
    value: float | None = None
    bold: bool = False
    kind: str = ""
    before: str = ""  # markup that stands before the text

    def html(self) -> str:
        """One ``td``."""
        sort = "" if self.value is None or not math.isfinite(self.value) else f' data-value="{self.value:.6g}"'
        kind = f' class="{self.kind}"' if self.kind else ""
        text = f"<b>{escape(self.text)}</b>" if self.bold else escape(self.text)
        return f"<td{kind}{sort}>{self.before}{text}</td>"


def sortable(columns: Sequence[str], rows: Sequence[Sequence[Cell]], kind: str = "wide") -> str:
    """A table whose first column stays in view and whose headings sort it."""
    head = "".join(f'<th scope="col" tabindex="0">{escape(column)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(cell.html() for cell in row)}</tr>" for row in rows)
    parts = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table class="sortable {kind}">{parts}</table></div>'


def plain(table: Table) -> str:
    """A table of texts with its title and notes."""
    rows = [[Cell(row[0], kind="name"), *map(Cell, row[1:])] for row in table.rows]
    title = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in table.notes)
    return f"{title}{sortable(table.columns, rows, 'plain')}{notes}"


def items(kinds: Sequence[tuple[str, str]]) -> str:
    """A list of sentences, each in the colour of its kind."""
    return "<ul>" + "".join(f'<li class="{kind}">{escape(text)}</li>' for kind, text in kinds) + "</ul>"

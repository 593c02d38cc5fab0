"""A table of texts that can be printed, put on a Markdown page and shown in a notebook."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sortition.results.statistics import Centre

if TYPE_CHECKING:
    import rich.table


@dataclass
class Table:
    """Rows under columns, with a title above and notes below."""

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """A GitHub table."""
        widths = [max(len(row[at]) for row in [self.columns, *self.rows]) for at in range(len(self.columns))]

        def line(cells: list[str]) -> str:
            padded = (cell.replace("|", "\\|").ljust(width) for cell, width in zip(cells, widths, strict=True))
            return f"| {' | '.join(padded)} |"

        rule = f"|{'|'.join('-' * (width + 2) for width in widths)}|"
        head = [f"**{self.title}**", ""] if self.title else []
        notes = ["", *[f"*{note}*" for note in self.notes]] if self.notes else []
        return "\n".join([*head, line(self.columns), rule, *map(line, self.rows), *notes])

    def html(self) -> str:
        """A table for a notebook."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows)
        notes = "".join(f"<p><i>{html.escape(note)}</i></p>" for note in self.notes)
        return f"<table><caption>{html.escape(self.title)}</caption><tr>{head}</tr>{body}</table>{notes}"

    def rich(self) -> rich.table.Table:
        """A table for the terminal."""
        from rich import box
        from rich.markup import escape
        from rich.table import Table as RichTable

        caption = escape("\n".join(self.notes)) or None
        table = RichTable(title=escape(self.title), caption=caption, box=box.SIMPLE_HEAD, title_justify="left")
        table.caption_justify = "left"
        for at, column in enumerate(self.columns):
            table.add_column(escape(column), justify="left" if at == 0 else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*map(escape, row))
        return table


def mean_and_sd(value: Centre | None, digits: int = 3, *, scale: float = 1.0, total: int = 0) -> str:
    """``0.712 ± 0.010``; with how many seeds count where not all do: ``84.0 ± 8.1 (7/10)``, ``– (0/10)``."""
    if value is None:
        return f"– (0/{total})" if total else ""
    spread = "" if math.isnan(value.sd) else f" ± {value.sd * scale:.{digits}f}"
    counted = "" if value.known == value.total else f" ({value.known}/{value.total})"
    return f"{value.mean * scale:.{digits}f}{spread}{counted}"

"""Markdown in the terminal, with tables as everywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.markdown import Markdown, TableElement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions

    from sortition.results.table import Table


class _TableInProse(TableElement):
    """A Markdown table in the style of all tables."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        from sortition.results.table import Table

        columns: list[str] = []
        rows: list[list[str]] = []
        if self.header and self.header.row:
            columns = [cell.content.plain for cell in self.header.row.cells]
        if self.body:
            rows = [[cell.content.plain for cell in row.cells] for row in self.body.rows]
        yield Table("", columns, rows, prose=tuple(columns))


class Prose(Markdown):
    """A text in Markdown."""

    elements: ClassVar = {**Markdown.elements, "table_open": _TableInProse}

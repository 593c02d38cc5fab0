"""Markdown in the terminal, with tables as everywhere else; no blanks at the ends of lines where it is piped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from rich.markdown import Markdown, TableElement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions

    from sortition.results.table import Table

ROLE = re.compile(r":\w+:(?=`)")  # :func:`name` is Sphinx's; a terminal shows the name


class _TableInProse(TableElement):
    """A Markdown table in the style of all tables."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        from sortition.results.table import Table

        head = [cell.content.plain for cell in self.header.row.cells] if self.header and self.header.row else []
        rows = [[cell.content.plain for cell in row.cells] for row in self.body.rows] if self.body else []
        yield Table("", head, rows, prose=tuple(head))


class Prose(Markdown):
    """A text in Markdown."""

    elements: ClassVar = {**Markdown.elements, "table_open": _TableInProse}


def bare(text: str) -> str:
    """A line of a docstring without the marks of code and roles."""
    return ROLE.sub("", text).replace("`", "")


def print_prose(text: str, screen: Console) -> None:
    """Print Markdown."""
    prose = Prose(ROLE.sub("", text), hyperlinks=False)
    if screen.is_terminal:
        screen.print(prose)
        return
    with screen.capture() as shown:
        screen.print(prose)
    for line in shown.get().splitlines():
        screen.print(line.rstrip(), markup=False, highlight=False, soft_wrap=True)

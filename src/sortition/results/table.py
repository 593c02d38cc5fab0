"""A table of texts: for the terminal, a Markdown page, a notebook and LaTeX."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sortition.results.statistics import Centre

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

GAP = "  "
NARROWEST = 20
ESCAPES = str.maketrans(
    {
        **{letter: f"\\{letter}" for letter in "&%_#$"},
        **{"{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"},
        **{"±": r"$\pm$", "×": r"$\times$", "−": "$-$", "–": "--", "σ": r"$\sigma$", "→": r"$\to$", "<": "$<$"},
    }
)


@dataclass
class Table:
    """Rows under columns, with a title above and notes below."""

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """A GitHub table."""
        widths = self._widths()

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

    def latex(self, bold: frozenset[tuple[int, int]] = frozenset()) -> str:
        """A booktabs tabular; cells (row, column) in ``bold`` are set so."""
        lines = [
            " & ".join(
                rf"\textbf{{{cell.translate(ESCAPES)}}}" if (at, column) in bold else cell.translate(ESCAPES)
                for column, cell in enumerate(row)
            )
            + r" \\"
            for at, row in enumerate([self.columns, *self.rows], -1)
        ]
        head = [r"\begin{tabular}{l" + "r" * (len(self.columns) - 1) + "}", r"\toprule", lines[0], r"\midrule"]
        return "\n".join([*head, *lines[1:], r"\bottomrule", r"\end{tabular}", ""])

    def text(self, width: int = 80) -> str:
        """Plain lines of at most ``width`` characters where the names allow it; no blanks at their ends."""
        return "\n".join(line for line, _ in self._lines(width)).rstrip()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        from rich.text import Text

        for line, style in self._lines(options.max_width):
            yield Text(line, style, overflow="fold")

    def _lines(self, width: int) -> Iterator[tuple[str, str]]:
        """Each line with its style: the title, blocks of columns that fit, the notes."""
        yield "", ""
        if self.title:
            yield self.title, "bold"
        for at, block in enumerate(self._blocks(width)):
            if at:
                yield "", ""
            yield from block._plain()
        for note in self.notes:
            yield from ((line, "dim") for line in textwrap.wrap(note, max(width, NARROWEST)))

    def _plain(self) -> Iterator[tuple[str, str]]:
        widths = self._widths()

        def line(cells: list[str]) -> str:
            first = cells[0].ljust(widths[0])
            rest = (cell.rjust(space) for cell, space in zip(cells[1:], widths[1:], strict=True))
            return GAP.join([first, *rest]).rstrip()

        yield line(self.columns), "bold"
        yield "─" * (sum(widths) + len(GAP) * (len(widths) - 1)), "dim"
        yield from ((line(row), "") for row in self.rows)

    def _blocks(self, width: int) -> Iterator[Table]:
        """Columns side by side as long as they fit, each block with the first column before it."""
        widths, chosen = self._widths(), [0]
        for at in range(1, len(widths)):
            if len(chosen) > 1 and sum(widths[i] + len(GAP) for i in (*chosen, at)) - len(GAP) > width:
                yield self._part(chosen)
                chosen = [0]
            chosen.append(at)
        yield self._part(chosen)

    def _part(self, chosen: list[int]) -> Table:
        columns, *rows = ([row[at] for at in chosen] for row in (self.columns, *self.rows))
        return replace(self, columns=columns, rows=rows)

    def _widths(self) -> list[int]:
        return [max(len(row[at]) for row in (self.columns, *self.rows)) for at in range(len(self.columns))]


def mean_and_sd(value: Centre | None, digits: int = 3, *, scale: float = 1.0, total: int = 0) -> str:
    """``0.712 ± 0.010``; with how many seeds count where not all do: ``84.0 ± 8.1 (7/10)``, ``– (0/10)``."""
    if value is None:
        return f"– (0/{total})" if total else ""
    spread = "" if math.isnan(value.sd) else f" ± {value.sd * scale:.{digits}f}"
    counted = "" if value.known == value.total else f" ({value.known}/{value.total})"
    return f"{value.mean * scale:.{digits}f}{spread}{counted}"

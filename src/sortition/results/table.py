"""A table of texts: for the terminal, a Markdown page, a notebook and LaTeX."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from sortition.results.statistics import Centre

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

GAP = "  "
NARROWEST = 20
NOT_FINITE = "not finite"  # of a run that diverged
GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "µ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho",
    "σ": "sigma", "ς": "varsigma", "τ": "tau", "υ": "upsilon", "φ": "varphi", "χ": "chi", "ψ": "psi", "ω": "omega",
    "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Φ": "Phi",
    "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip
ESCAPES = str.maketrans(
    {
        **{letter: f"\\{letter}" for letter in "&%_#$"},
        **{"{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"},
        **{"±": r"$\pm$", "×": r"$\times$", "−": "$-$", "–": "--", "→": r"$\to$", "<": "$<$", ">": "$>$"},
        **{"|": r"\textbar{}", "≤": r"$\leq$", "≥": r"$\geq$", "≠": r"$\neq$", "∞": r"$\infty$", "·": r"$\cdot$"},
        **{letter: rf"$\{name}$" for letter, name in GREEK.items()},
        **dict.fromkeys([*range(32), *range(127, 160)], ""),  # control characters
    }
)


@dataclass
class Table:
    """Rows under columns, with a title above and notes below.

    Attributes:
        title: above the table; empty for none.
        columns: the headings.
        rows: the cells, one a column.
        notes: sentences below the table.
        prose: the columns of words: the terminal aligns them left and breaks them into lines where they must.
    """

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    prose: tuple[str, ...] = ()

    def markdown(self) -> str:
        """Return a GitHub table."""
        widths = self._widths()

        def line(cells: list[str]) -> str:
            padded = (cell.replace("|", "\\|").ljust(width) for cell, width in zip(cells, widths, strict=True))
            return f"| {' | '.join(padded)} |"

        lines = []
        if self.title:
            lines += [f"**{self.title}**", ""]
        lines.append(line(self.columns))
        lines.append(f"|{'|'.join('-' * (width + 2) for width in widths)}|")
        lines += map(line, self.rows)
        if self.notes:
            lines += ["", *[f"*{note}*" for note in self.notes]]
        return "\n".join(lines)

    def html(self) -> str:
        """Return a table for a notebook."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows)
        notes = "".join(f"<p><i>{html.escape(note)}</i></p>" for note in self.notes)
        return f"<table><caption>{html.escape(self.title)}</caption><tr>{head}</tr>{body}</table>{notes}"

    def latex(self, bold: frozenset[tuple[int, int]] = frozenset()) -> str:
        """Return a booktabs tabular with its notes below; cells (row, column) in ``bold`` are set so."""

        def line(row: int, cells: list[str]) -> str:
            texts = []
            for column, cell in enumerate(cells):
                text = cell.translate(ESCAPES)
                texts.append(rf"\textbf{{{text}}}" if (row, column) in bold else text)
            return " & ".join(texts) + r" \\"

        heading = line(-1, self.columns)
        body = [line(row, cells) for row, cells in enumerate(self.rows)]
        notes = [
            rf"\multicolumn{{{len(self.columns)}}}{{l}}{{\footnotesize {note.translate(ESCAPES)}}} \\"
            for note in self.notes
        ]
        begin = r"\begin{tabular}{l" + "r" * (len(self.columns) - 1) + "}"
        lines = [begin, r"\toprule", heading, r"\midrule", *body, r"\bottomrule", *notes, r"\end{tabular}", ""]
        return "\n".join(lines)

    def text(self, width: int = 80) -> str:
        """Return plain lines of at most ``width`` characters where the names allow it; no blanks at their ends."""
        return "\n".join(line for line, _ in self._lines(width)).rstrip()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        from rich.text import Text

        for line, style in self._lines(options.max_width):
            yield Text(line, style, overflow="fold")

    def _lines(self, width: int) -> Iterator[tuple[str, str]]:
        """Yield each line with its style: the title, blocks of columns that fit, the notes."""
        yield "", ""
        if self.title:
            yield self.title, "bold"
        for number, block in enumerate(self._wrapped(width)._blocks(width)):
            if number > 0:
                yield "", ""
            yield from block._plain()
        for note in self.notes:
            yield from ((line, "dim") for line in textwrap.wrap(note, max(width, NARROWEST)))

    def _plain(self) -> Iterator[tuple[str, str]]:
        """Yield the lines of a block: the headings, a rule, the rows. Names and words stand left, numbers right."""
        widths = self._widths()
        left_aligned = (self.columns[0], *self.prose)

        def line(cells: list[str]) -> str:
            padded = [
                cell.ljust(width) if column in left_aligned else cell.rjust(width)
                for column, cell, width in zip(self.columns, cells, widths, strict=True)
            ]
            return GAP.join(padded).rstrip()

        yield line(self.columns), "bold"
        yield "─" * _line_width(widths), "dim"
        yield from ((line(row), "") for row in self.rows)

    def _blocks(self, width: int) -> Iterator[Table]:
        """Yield columns side by side as long as they fit, each block with the first column before it."""
        widths = self._widths()
        block = [0]
        for column in range(1, len(widths)):
            widened = [*block, column]
            if len(block) > 1 and _line_width([widths[position] for position in widened]) > width:
                yield self._part(block)
                block = [0]
            block.append(column)
        yield self._part(block)

    def _wrapped(self, width: int) -> Table:
        """Return the table with its words broken into lines, the widest column first, until all columns fit."""
        widths = self._widths()
        prose = [self.columns.index(name) for name in self.prose]
        narrowest = {column: self._narrowest(column) for column in prose}
        while _line_width(widths) > width:
            breakable = [column for column in prose if widths[column] > narrowest[column]]
            if not breakable:
                break
            widest = max(breakable, key=lambda column: widths[column])
            widths[widest] -= 1
        rows: list[list[str]] = []
        for row in self.rows:
            cells = [_broken(cell, widths[column]) if column in prose else [cell] for column, cell in enumerate(row)]
            rows += map(list, zip_longest(*cells, fillvalue=""))
        return replace(self, rows=rows)

    def _narrowest(self, column: int) -> int:
        """Return the width of a column's longest word, its heading included."""
        words = " ".join(row[column] for row in self.rows).split()
        return max([len(self.columns[column]), *map(len, words)])

    def _part(self, columns: list[int]) -> Table:
        """Return the table with these columns alone."""
        names = [self.columns[column] for column in columns]
        rows = [[row[column] for column in columns] for row in self.rows]
        return replace(self, columns=names, rows=rows, prose=tuple(name for name in self.prose if name in names))

    def _widths(self) -> list[int]:
        """Return the width of each column: that of the longest line in it."""
        rows = (self.columns, *self.rows)
        return [
            max(len(line) for row in rows for line in row[column].split("\n")) for column in range(len(self.columns))
        ]


def _line_width(widths: list[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _broken(cell: str, width: int) -> list[str]:
    """Return the lines of a cell; breaks that it has already are kept, words stay whole."""
    lines = []
    for line in cell.splitlines() or [""]:
        lines += textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""]
    return lines


def mean_and_sd(value: Centre | None, digits: int = 3, *, scale: float = 1.0, total: int = 0) -> str:
    """Write ``0.712 ± 0.010``, with how many seeds count where not all do: ``84.0 ± 8.1 (7/10)``, ``– (0/10)``."""
    if value is None:
        if total:
            return f"– (0/{total})"
        return ""
    if not math.isfinite(value.mean):
        return NOT_FINITE
    text = f"{value.mean * scale:.{digits}f}"
    if not math.isnan(value.sd):
        text += f" ± {value.sd * scale:.{digits}f}"
    if value.n_known < value.total:
        text += f" ({value.n_known}/{value.total})"
    return text

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

    ``prose`` names the columns of words: the terminal aligns them left and breaks them into lines where they must.
    """

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    prose: tuple[str, ...] = ()

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
        """A booktabs tabular with its notes below; cells (row, column) in ``bold`` are set so."""
        lines = [
            " & ".join(
                rf"\textbf{{{cell.translate(ESCAPES)}}}" if (at, column) in bold else cell.translate(ESCAPES)
                for column, cell in enumerate(row)
            )
            + r" \\"
            for at, row in enumerate([self.columns, *self.rows], -1)
        ]
        head = [r"\begin{tabular}{l" + "r" * (len(self.columns) - 1) + "}", r"\toprule", lines[0], r"\midrule"]
        notes = [
            rf"\multicolumn{{{len(self.columns)}}}{{l}}{{\footnotesize {note.translate(ESCAPES)}}} \\"
            for note in self.notes
        ]
        return "\n".join([*head, *lines[1:], r"\bottomrule", *notes, r"\end{tabular}", ""])

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
        for at, block in enumerate(self._wrapped(width)._blocks(width)):
            if at:
                yield "", ""
            yield from block._plain()
        for note in self.notes:
            yield from ((line, "dim") for line in textwrap.wrap(note, max(width, NARROWEST)))

    def _plain(self) -> Iterator[tuple[str, str]]:
        widths, left = self._widths(), (self.columns[0], *self.prose)

        def line(cells: list[str]) -> str:
            padded = (
                cell.ljust(space) if name in left else cell.rjust(space)
                for name, cell, space in zip(self.columns, cells, widths, strict=True)
            )
            return GAP.join(padded).rstrip()

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

    def _wrapped(self, width: int) -> Table:
        """The same table with its words broken into lines, the widest column first, until all columns fit."""
        widths, words = self._widths(), {self.columns.index(name) for name in self.prose}
        longest = (max(map(len, " ".join(row[at] for row in self.rows).split()), default=0) for at in words)
        least = {at: max(word, len(self.columns[at])) for at, word in zip(words, longest, strict=True)}
        while sum(widths) + len(GAP) * (len(widths) - 1) > width:
            if not (wide := [at for at in words if widths[at] > least[at]]):
                break
            widths[max(wide, key=widths.__getitem__)] -= 1
        rows: list[list[str]] = []
        for row in self.rows:
            cells = [_broken(cell, widths[at]) if at in words else [cell] for at, cell in enumerate(row)]
            rows += map(list, zip_longest(*cells, fillvalue=""))
        return replace(self, rows=rows)

    def _part(self, chosen: list[int]) -> Table:
        columns, *rows = ([row[at] for at in chosen] for row in (self.columns, *self.rows))
        return replace(self, columns=columns, rows=rows, prose=tuple(name for name in self.prose if name in columns))

    def _widths(self) -> list[int]:
        rows = (self.columns, *self.rows)
        return [max(len(line) for row in rows for line in row[at].split("\n")) for at in range(len(self.columns))]


def _broken(cell: str, width: int) -> list[str]:
    """The lines of a cell; those that it has already are kept, words stay whole."""
    lines = cell.splitlines() or [""]
    whole = (textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""] for line in lines)
    return [line for lines in whole for line in lines]


def mean_and_sd(value: Centre | None, digits: int = 3, *, scale: float = 1.0, total: int = 0) -> str:
    """``0.712 ± 0.010``; with how many seeds count where not all do: ``84.0 ± 8.1 (7/10)``, ``– (0/10)``."""
    if value is None:
        return f"– (0/{total})" if total else ""
    if not math.isfinite(value.mean):
        return NOT_FINITE
    spread = "" if math.isnan(value.sd) else f" ± {value.sd * scale:.{digits}f}"
    counted = "" if value.known == value.total else f" ({value.known}/{value.total})"
    return f"{value.mean * scale:.{digits}f}{spread}{counted}"

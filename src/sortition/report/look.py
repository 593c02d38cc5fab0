"""How charts look: colours of methods, where their names stand, and the size of a figure in a paper or on a slide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import altair as alt

from sortition.core.errors import bad, unknown
from sortition.report.palette import Palette

POINTS_AN_INCH = 72
TEXT_PIXELS = 11  # height of the page's texts; a figure is scaled so that this becomes the size that is asked for
NARROWEST = 1.0  # inches
WIDEST = 40.0
SMALLEST_TEXT = 4.0  # points
LARGEST_TEXT = 72.0
LONGEST_NAME = 150  # pixels: a longer name would leave no room for the lines
LETTER_WIDTH = 6.2  # pixels of a letter, about
SYMBOL_WIDTH = 30  # pixels of a legend's symbol and the gap after a name
AXIS_WIDTH = 30  # pixels left of a chart that a legend above it does not reach
PLACES = ("lines", "top", "bottom", "right", "none")
GENERIC_FONTS = ("serif", "sans-serif", "monospace")


@dataclass(frozen=True)
class FigureStyle:
    """The look of figures in files.

    Attributes:
        column: inches that a figure of one column is wide.
        page: inches that a figure as wide as the page is.
        width: inches of this figure, all its texts included.
        font: family of all texts.
        text_size: points of names and axis titles; numbers at axes are a tenth smaller.
        legend: where the names of methods stand: beside the ``lines``, at the ``top``, ``bottom`` or ``right``, or
            ``none``.
        ratio: height of a chart of lines over its width.
        title: whether the lines above a chart are drawn, which say what its lines and bands are.
        dots: pixels an inch of a PNG.
    """

    column: float
    page: float
    width: float
    font: str
    text_size: float
    legend: str
    ratio: float
    dots: int
    title: bool = False

    @property
    def scale(self) -> float:
        """Points in the file for each pixel of the layout."""
        return self.text_size / TEXT_PIXELS

    @property
    def layout_width(self) -> int:
        """Pixels of the layout that become the width of the figure."""
        return round(self.width * POINTS_AN_INCH / self.scale)


STYLES = {
    "paper": FigureStyle(
        column=3.3, page=6.9, width=3.3, font="sans-serif", text_size=8, legend="top", ratio=0.57, dots=300
    ),
    "slides": FigureStyle(
        column=6.0, page=12.0, width=12.0, font="sans-serif", text_size=20, legend="top", ratio=0.45, dots=160
    ),
}


def figure_style(
    style: str = "paper",
    *,
    width: str | float | None = None,
    font: str | None = None,
    text_size: float | None = None,
    legend: str | None = None,
    title: bool = False,
) -> FigureStyle:
    """Return a style by name, with what is given in place of its own.

    Args:
        style: ``paper`` or ``slides``.
        width: inches, or ``column`` or ``page``. Default: a column of a paper, the width of a slide.
        font: a family that this machine has, or ``serif``, ``sans-serif`` or ``monospace``, which all have.
        text_size: points of the texts.
        legend: ``lines``, ``top``, ``bottom``, ``right`` or ``none``.
        title: whether the lines above a chart are drawn; a caption says the same.
    """
    if style not in STYLES:
        raise unknown("style", style, list(STYLES))
    chosen = STYLES[style]
    if width is not None:
        chosen = replace(chosen, width=_width_in_inches(width, chosen))
    if text_size is not None:
        if not SMALLEST_TEXT <= text_size <= LARGEST_TEXT:
            raise bad("text size", f"from {SMALLEST_TEXT:g} to {LARGEST_TEXT:g} points", text_size)
        chosen = replace(chosen, text_size=text_size)
    if legend is not None:
        if legend not in PLACES:
            raise unknown("place of the legend", legend, list(PLACES))
        chosen = replace(chosen, legend=legend)
    if font is not None:
        if not _has_font(font):
            raise bad("font", "a family that this machine has", font, f"Everywhere: {', '.join(GENERIC_FONTS)}.")
        chosen = replace(chosen, font=font)
    return replace(chosen, title=title)


def _width_in_inches(width: str | float, style: FigureStyle) -> float:
    """Return a width in inches: a number, or the name of one."""
    inches_by_name = {"column": style.column, "page": style.page}
    if width in inches_by_name:
        return inches_by_name[str(width)]
    try:
        inches = float(width)
    except ValueError:
        inches = 0.0
    if not NARROWEST <= inches <= WIDEST:
        raise bad("width", f"column, page, or from {NARROWEST:g} to {WIDEST:g} inches", width)
    return inches


@lru_cache(maxsize=32)
def _has_font(font: str) -> bool:
    """Tell whether texts in this font are drawn; those of a family that is not installed would be missing."""
    if font in GENERIC_FONTS:
        return True
    if not font.strip() or not font.isprintable() or set(font) & set("<>\"'&,"):
        return False
    import vl_convert

    picture = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="60" height="20">'
        f'<text x="2" y="15" font-family="{font}">text</text></svg>'
    )
    return b"/BaseFont" in vl_convert.svg_to_pdf(picture)


@dataclass(frozen=True)
class FigureFiles:
    """The files of a paper or of slides: which, where, and how they look.

    Attributes:
        folder: where they go.
        style: how figures look.
        charts: names of the charts; empty for all.
        formats: of ``png``, ``svg`` and ``pdf``; empty for all three.
        columns: headings of the LaTeX tables' columns; empty for those that decide.
    """

    folder: Path
    style: FigureStyle = STYLES["paper"]
    charts: Sequence[str] = ()
    formats: Sequence[str] = ()
    columns: Sequence[str] = ()


@dataclass(frozen=True)
class Look:
    """How the charts of a page or of files are drawn.

    Attributes:
        palette: the colours and dashes of methods.
        legend: where the names of methods stand; on the page beside the lines.
        width: pixels of a figure in a file; None on the page, where a chart fills its place.
        ratio: height of a chart of lines over its width, in files.
    """

    palette: Palette
    legend: str = "lines"
    width: int | None = None
    ratio: float = 0.5

    @classmethod
    def of_files(cls, palette: Palette, style: FigureStyle) -> Look:
        """Return the look of files in a style."""
        return cls(palette=palette, legend=style.legend, width=style.layout_width, ratio=style.ratio)

    def height(self, on_the_page: int) -> int:
        """Return the height of a chart of lines, in pixels."""
        if self.width is None:
            return on_the_page
        return min(round(self.ratio * self.width), on_the_page)

    @property
    def names_at_lines(self) -> bool:
        """Whether the name of each method stands beside the end of its line."""
        return self.legend == "lines"

    @property
    def line_legend(self) -> alt.Legend | None:
        """The legend of lines; None where their names stand beside them, or nowhere."""
        if self.names_at_lines:
            return None
        return self.method_legend("stroke")

    def method_legend(self, symbol: str) -> alt.Legend | None:
        """Return a legend of the methods; None where there is to be none. It stands right where names are at lines."""
        if self.legend == "none":
            return None
        options: dict[str, Any] = {}
        if self.legend in ("top", "bottom"):
            options = {"orient": self.legend, "direction": "horizontal", "columns": self._legend_columns()}
        return alt.Legend(
            title=None,
            labelLimit=LONGEST_NAME,
            symbolType=symbol,
            symbolOpacity=1,
            symbolStrokeWidth=3,
            **options,
        )

    def _legend_columns(self) -> int:
        """Return how many names fit beside each other; a column is as wide as its longest name."""
        widths = [min(len(label) * LETTER_WIDTH, LONGEST_NAME) + SYMBOL_WIDTH for label in self.palette.labels]
        for columns in range(len(widths), 1, -1):
            if sum(max(widths[column::columns]) for column in range(columns)) <= (self.width or 0) - AXIS_WIDTH:
                return columns
        return 1

"""Figures for papers and slides: each chart as PNG, SVG and PDF, without a browser; tables for LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sortition.core.errors import bad, unknown
from sortition.core.storage.snapshot import write_atomically
from sortition.report.charts import GAP, Chart
from sortition.report.document import ALL_SETTINGS, Canvas
from sortition.report.gather import Gathered, Setting
from sortition.report.look import POINTS_AN_INCH, FigureFiles, FigureStyle
from sortition.report.page import Page
from sortition.report.tables import BOLD, bold_cells, method_columns, method_rows
from sortition.results.table import ESCAPES, Table

FORMATS = ("png", "svg", "pdf")
PADDING = 2  # pixels around a figure
CAPTIONS = "figures.tex"
HOW_TO_SHOW = r"""% Each figure stands alone: copy the ones you need. Say where the files are: \graphicspath{{figures/}}
% If pdfTeX warns of PDF 1.7, write \pdfminorversion=7 before \documentclass. Its warnings of page groups do no harm.
"""
NOT_IN_PRINT = ("speed-up", "Jain", "client passes")  # with them the table is wider than a page of a paper
CONFIG: dict[str, Any] = {
    "background": "white",
    "view": {"stroke": "transparent"},
    "axis": {"gridColor": "#e3e7eb", "labelFlush": False, "labelPadding": 3, "titleFontWeight": "normal"},
    "legend": {"titleFontWeight": "normal", "labelFontSize": 11, "offset": 8},
    "style": {GAP: {"color": "white", "stroke": "white"}},
}


@dataclass(frozen=True)
class Figure:
    """One chart, drawn in a style. A notebook shows it.

    Attributes:
        name: the name of the chart, and of its files.
        caption: what a reader must know: what is drawn, what lines and bands are.
        svg: the drawing, as wide as the style says.
        style: how it is drawn.
    """

    name: str
    caption: str
    svg: str = field(repr=False)
    style: FigureStyle = field(repr=False)

    def save(self, path: str | Path) -> Path:
        """Write the figure as PNG, SVG or PDF, by the ending of the path."""
        file = Path(path)
        write_atomically(file, self.content(check_format(file.suffix.removeprefix("."))))
        return file

    def content(self, format_: str) -> bytes:
        """Return the figure as ``png``, ``svg`` or ``pdf``."""
        import vl_convert

        if format_ == "svg":
            return self.svg.encode()
        in_points = _set_width(self.svg, self.style.width * POINTS_AN_INCH)
        if format_ == "pdf":
            return bytes(vl_convert.svg_to_pdf(in_points))
        return bytes(vl_convert.svg_to_png(in_points, ppi=self.style.dots))

    def latex(self, format_: str = "pdf") -> str:
        """Return the environment that shows the file of this format in a paper, with the caption."""
        return "\n".join(
            [
                r"\begin{figure}",
                r"  \centering",
                rf"  \includegraphics[width={self.style.width:g}in]{{{self.name}.{format_}}}",
                rf"  \caption{{{self.caption.translate(ESCAPES)}}}",
                rf"  \label{{fig:{self.name}}}",
                r"\end{figure}",
                "",
            ]
        )

    def _repr_svg_(self) -> str:
        return self.svg


def draw_figure(chart: Chart, style: FigureStyle, name: str = "", *, setting: str = "") -> Figure:
    """Draw a chart in a style.

    Args:
        chart: what is drawn.
        style: how it is drawn.
        name: the name of its files; by default the chart's.
        setting: which one the caption names; empty where there is only one.
    """
    import vl_convert

    spec = chart.spec(style.layout_width)
    if not style.title:
        spec.pop("title", None)
    spec["padding"] = PADDING
    spec["config"] = {**spec.get("config", {}), **CONFIG, "font": style.font}
    svg = str(vl_convert.vegalite_to_svg(spec))
    title = f"{chart.title}."
    if setting:
        title = f"{chart.title} (setting {setting})."
    return Figure(
        name=slug(name or chart.name),
        caption=" ".join(sentence for sentence in (title, chart.reading, chart.caption) if sentence),
        svg=_set_width(svg, style.width, "in"),
        style=style,
    )


def _set_width(svg: str, width: float, unit: str = "") -> str:
    """Return the drawing with this width in its first tag; its height follows."""
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    if box is None:
        raise ValueError("vl-convert draws no viewBox.")
    height = width * float(box[2]) / float(box[1])
    tag, drawing = svg.split(">", 1)
    tag = re.sub(r' width="[^"]*"', f' width="{width:.6g}{unit}"', tag)
    tag = re.sub(r' height="[^"]*"', f' height="{height:.6g}{unit}"', tag)
    return f"{tag}>{drawing}"


def check_format(format_: str) -> str:
    """Return the format of a figure, or refuse one that is not known."""
    if format_ not in FORMATS:
        raise unknown("format of a figure", format_, list(FORMATS))
    return format_


def export_figures(gathered: Gathered, files: FigureFiles) -> list[Path]:
    """Write the charts of a report, drawn for files, and its tables; return their paths."""
    settings = gathered.settings
    tables = {setting.name: latex_table(setting, files.columns) for setting in settings}  # a bad column stops here
    if not files.columns:
        tables |= {f"{setting.name}-column": latex_table(setting, narrow_titles(setting)) for setting in settings}
    page = Page(gathered, files.style)
    page.render()
    paths = export_charts(page.canvas, files, one_setting=len(settings) == 1)
    for name, text in tables.items():
        path = files.folder / f"{slug(name)}.tex"
        write_atomically(path, text.encode())
        paths.append(path)
    return paths


def export_charts(canvas: Canvas, files: FigureFiles, *, one_setting: bool) -> list[Path]:
    """Write each chart in each format, and ``figures.tex``, which shows them with their captions; return the paths.

    A file has the name of its chart, after that of its setting where there are several settings.
    """
    formats = [check_format(format_) for format_ in files.formats] or FORMATS
    _check_names(canvas, files.charts)
    paths = []
    latex_figures = []
    for setting, chart in canvas.charts:
        if files.charts and chart.name not in files.charts:
            continue
        figure = _draw_of_report(chart, setting, files.style, one_setting=one_setting)
        for format_ in formats:
            path = files.folder / f"{figure.name}.{format_}"
            write_atomically(path, figure.content(format_))
            paths.append(path)
        latex_figures.append(figure.latex(_latex_format(formats)))
    captions_path = files.folder / CAPTIONS
    write_atomically(captions_path, "\n".join([HOW_TO_SHOW, *latex_figures]).encode())
    return [*paths, captions_path]


def _draw_of_report(chart: Chart, setting: str, style: FigureStyle, *, one_setting: bool) -> Figure:
    """Draw a chart of a report; where there are several settings, file name and caption name its setting."""
    if one_setting:
        return draw_figure(chart, style)
    if setting == ALL_SETTINGS:
        return draw_figure(chart, style, f"{setting}-{chart.name}")
    return draw_figure(chart, style, f"{setting}-{chart.name}", setting=setting)


def _latex_format(formats: Sequence[str]) -> str:
    """Return the format that LaTeX shows: PDF where it is written, else PNG where that is."""
    if "png" in formats and "pdf" not in formats:
        return "png"
    return "pdf"


def draw_named_chart(gathered: Gathered, chart_name: str, style: FigureStyle, setting: str | None = None) -> Figure:
    """Draw one chart of a report; a setting must be named where several have the chart."""
    page = Page(gathered, style)
    page.render()
    _check_names(page.canvas, [chart_name])
    charts = {name: chart for name, chart in page.charts if chart.name == chart_name}
    if setting is None and len(charts) > 1:
        raise bad("setting", "given where several have the chart", f"none of {', '.join(charts)}")
    if setting is None:
        setting = next(iter(charts))
    if setting not in charts:
        raise unknown("setting", setting, list(charts))
    if len(gathered.settings) == 1 or setting == ALL_SETTINGS:
        return draw_figure(charts[setting], style)
    return draw_figure(charts[setting], style, setting=setting)


def _check_names(canvas: Canvas, chart_names: Sequence[str]) -> None:
    """Refuse the name of a chart that the page does not have."""
    drawn_names = list(dict.fromkeys(chart.name for _, chart in canvas.charts))
    for name in chart_names:
        if name not in drawn_names:
            raise unknown("chart", name, drawn_names)


def latex_table(setting: Setting, column_titles: Sequence[str] = ()) -> str:
    """Return a booktabs table of the columns that decide and fit a page, or of those with these titles.

    A note says what is bold. A title may have the minus of a keyboard.
    """
    titles = _known_titles(setting, column_titles)
    table_rows = method_rows(setting, whole=bool(titles))
    if not titles:
        titles = [title for title in (*table_rows[0].cells, "verdict") if title not in NOT_IN_PRINT]
    bold = bold_cells(setting, table_rows)
    table = Table(setting.name, ["method", *titles])
    bold_places = set()
    for row_number, row in enumerate(table_rows):
        cells = {**row.cells, "verdict": row.verdict, "seeds": str(row.seeds)}
        table.rows.append([row.label, *[cells.get(title, "") for title in titles]])
        bold_places |= {(row_number, column) for column, title in enumerate(titles, 1) if (row.label, title) in bold}
    if bold_places:
        table.notes.append(BOLD)
    return table.latex(frozenset(bold_places))


def narrow_titles(setting: Setting) -> list[str]:
    """Return the headings of a table that fits one column of a paper: the figure, its difference and p."""
    figure, difference, p = method_columns(setting)[:3]
    return [figure.title, difference.title, p.title]


def _known_titles(setting: Setting, column_titles: Sequence[str]) -> list[str]:
    """Return the titles as the table has them, or refuse one that it has not."""
    known_titles = [*[column.title for column in method_columns(setting)], "verdict", "seeds"]
    by_keyboard = {title.replace("−", "-"): title for title in known_titles}
    titles = [by_keyboard.get(title, title) for title in column_titles]
    for title in titles:
        if title not in known_titles:
            raise unknown("column", title, known_titles)
    return titles


def slug(text: str) -> str:
    """Return the text as a file name that every file system takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "figure"

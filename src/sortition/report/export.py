"""Figures for papers: each chart of the page as PNG, SVG and PDF, without a browser; tables for LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sortition.core.errors import unknown
from sortition.core.storage.snapshot import write_atomically
from sortition.report.charts import GAP
from sortition.report.document import Canvas
from sortition.report.gather import Setting
from sortition.report.page import Page
from sortition.report.tables import BOLD, bold_cells, columns, rows
from sortition.results.table import Table

STYLE = {
    "background": "white",
    "font": "DejaVu Sans",
    "view": {"stroke": "transparent"},
    "axis": {"gridColor": "#e3e7eb", "labelFlush": False},
    "style": {GAP: {"color": "white", "stroke": "white"}},
}


def export(page: Page, folder: Path, column_titles: Sequence[str] = ()) -> list[Path]:
    """Write all charts and tables of a page that has been rendered, and return their paths."""
    settings = page.gathered.settings
    tables = {setting.name: latex(setting, column_titles) for setting in settings}  # a bad column stops here
    paths = export_charts(page.canvas, folder, one_setting=len(settings) == 1)
    for name, text in tables.items():
        path = folder / f"{slug(name)}.tex"
        write_atomically(path, text.encode())
        paths.append(path)
    return paths


def export_charts(canvas: Canvas, folder: Path, *, one_setting: bool) -> list[Path]:
    """Write every chart in each format, named after itself, and after its setting where there are several."""
    import vl_convert

    paths = []
    for setting, chart in canvas.charts:
        spec: dict[str, Any] = chart.spec()
        spec["config"] = {**spec.get("config", {}), **STYLE}
        name = slug(chart.name if one_setting else f"{setting}-{chart.name}")
        contents = {
            "png": vl_convert.vegalite_to_png(spec, scale=2.0),
            "svg": vl_convert.vegalite_to_svg(spec).encode(),
            "pdf": vl_convert.vegalite_to_pdf(spec),
        }
        for ending, content in contents.items():
            path = folder / f"{name}.{ending}"
            write_atomically(path, content)
            paths.append(path)
    return paths


def latex(setting: Setting, column_titles: Sequence[str] = ()) -> str:
    """Return a booktabs table of the columns that decide, or of those with these titles.

    A note says what is bold. A title may have the minus of a keyboard.
    """
    titles = _known_titles(setting, column_titles)
    table_rows = rows(setting, whole=bool(titles))
    if not titles:
        titles = [*table_rows[0].cells, "verdict"]
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


def _known_titles(setting: Setting, column_titles: Sequence[str]) -> list[str]:
    """Return the titles as the table has them, or refuse one that it has not."""
    known_titles = [*[column.title for column in columns(setting)], "verdict", "seeds"]
    by_keyboard = {title.replace("−", "-"): title for title in known_titles}
    titles = [by_keyboard.get(title, title) for title in column_titles]
    for title in titles:
        if title not in known_titles:
            raise unknown("column", title, known_titles)
    return titles


def slug(text: str) -> str:
    """A name that every file system takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "figure"

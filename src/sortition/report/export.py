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

FORMATS = ("png", "svg", "pdf")
STYLE = {
    "background": "white",
    "font": "DejaVu Sans",
    "view": {"stroke": "transparent"},
    "axis": {"gridColor": "#e3e7eb", "labelFlush": False},
    "style": {GAP: {"color": "white", "stroke": "white"}},
}


def export(page: Page, folder: Path, chosen: Sequence[str] = ()) -> list[Path]:
    """Write all of them; the page must have been rendered."""
    tables = {setting.name: latex(setting, chosen) for setting in page.gathered.settings}  # a bad column stops here
    made = export_charts(page.canvas, folder, one_setting=len(page.gathered.settings) == 1)
    for name, text in tables.items():
        made.append(folder / f"{slug(name)}.tex")
        write_atomically(made[-1], text.encode())
    return made


def export_charts(canvas: Canvas, folder: Path, *, one_setting: bool) -> list[Path]:
    """Write every chart in each format, named after itself, and after its setting where there are several."""
    import vl_convert

    made = []
    for setting, chart in canvas.charts:
        spec: dict[str, Any] = chart.spec()
        spec["config"] = {**spec.get("config", {}), **STYLE}
        name = slug(chart.name if one_setting else f"{setting}-{chart.name}")
        contents = {
            "svg": vl_convert.vegalite_to_svg(spec).encode(),
            "png": vl_convert.vegalite_to_png(spec, scale=2.0),
            "pdf": vl_convert.vegalite_to_pdf(spec),
        }
        for kind in FORMATS:
            made.append(folder / f"{name}.{kind}")
            write_atomically(made[-1], contents[kind])
    return made


def latex(setting: Setting, chosen: Sequence[str] = ()) -> str:
    """A booktabs table of the columns that decide, or of those chosen, with a note that says what is bold."""
    known = [column.title for column in columns(setting)]
    by_keyboard = {title.replace("−", "-"): title for title in known}  # a minus sign as keyboards have it
    chosen = [by_keyboard.get(title, title) for title in chosen]
    for title in chosen:
        if title not in (*known, "verdict", "seeds"):
            raise unknown("column", title, [*known, "verdict", "seeds"])
    made = rows(setting, whole=bool(chosen))
    bold = bold_cells(setting, made)
    heads = list(chosen) or [*made[0].cells, "verdict"]
    cells = [{**row.cells, "verdict": row.verdict, "seeds": str(row.seeds)} for row in made]
    body = [[row.label, *[texts.get(title, "") for title in heads]] for row, texts in zip(made, cells, strict=True)]
    places = {
        (at, place) for at, row in enumerate(made) for place, title in enumerate(heads, 1) if (row.label, title) in bold
    }
    return Table(setting.name, ["method", *heads], body, [BOLD] if places else []).latex(frozenset(places))


def slug(text: str) -> str:
    """A name that every file system takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "figure"

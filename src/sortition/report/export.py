"""Figures for papers: each chart of the page as PNG, SVG and PDF, without a browser; tables for LaTeX."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sortition.core.storage.snapshot import write_atomically
from sortition.report import tables
from sortition.report.page import Page

FORMATS = ("png", "svg", "pdf")
STYLE = {
    "background": "white",
    "font": "DejaVu Sans",
    "view": {"stroke": "transparent"},
    "axis": {"gridColor": "#e3e7eb"},
}


def export(page: Page, folder: Path) -> list[Path]:
    """Write all of them; the page must have been rendered."""
    import vl_convert

    made = []
    for setting, figure in page.figures:
        spec: dict[str, Any] = figure.spec()
        spec["config"] = {**spec.get("config", {}), **STYLE}
        name = slug(figure.name if len(page.gathered.settings) == 1 else f"{setting}-{figure.name}")
        contents = {
            "svg": vl_convert.vegalite_to_svg(spec).encode(),
            "png": vl_convert.vegalite_to_png(spec, scale=2.0),
            "pdf": vl_convert.vegalite_to_pdf(spec),
        }
        for kind in FORMATS:
            made.append(folder / f"{name}.{kind}")
            write_atomically(made[-1], contents[kind])
    for group in page.gathered.settings:
        made.append(folder / f"{slug(group.name)}.tex")
        write_atomically(made[-1], tables.latex(group).encode())
    return made


def slug(text: str) -> str:
    """A name that every file system takes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or "figure"

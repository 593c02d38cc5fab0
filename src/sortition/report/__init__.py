"""Run folders in, one self-contained page out; and figures and LaTeX tables for papers. Trains nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sortition.core.errors import bad
from sortition.core.storage.snapshot import write_atomically
from sortition.report.gather import gather, title_of
from sortition.report.page import Page

__all__ = ["place", "write"]


def write(
    folders: Sequence[str | Path],
    out: str | Path | None = None,
    *,
    figures: str | Path | None = None,
    columns: Sequence[str] = (),
    margin: float | None = None,
    baseline: str | None = None,
    all_pairs: bool | None = None,
) -> Path:
    """Write the page, atomically; with ``figures`` also PNG, SVG, PDF and LaTeX files into that folder.

    Args:
        folders: run folders, or folders that hold some.
        out: the page. Default: inside the first folder, named after the study.
        figures: a folder for the charts and tables of a paper.
        columns: of the LaTeX tables, which need ``figures``; default: those that decide.
        margin: points of accuracy (% of the baseline's loss) that are practically none; default: the study's.
        baseline: label or name of the method that others are compared with; default: the study's, else uniform.
        all_pairs: whether every pair of methods is compared; default: as the study says.
    """
    if columns and figures is None:
        raise bad(
            "--column", "given with --figures", f"{columns[0]!r} alone", "It chooses columns of the LaTeX tables."
        )
    page = Page(gather(folders, margin=margin, baseline=baseline, all_pairs=all_pairs))
    text = page.render()
    path = place(folders) if out is None else Path(out)
    if path.is_dir():
        raise bad("--out", "a file", f"the folder {path}")
    write_atomically(path, text.encode())
    if figures is not None:
        from sortition.report.export import export

        export(page, Path(figures), columns)
    return path


def place(folders: Sequence[str | Path]) -> Path:
    """Where the page goes by default: into the first folder, named after the study."""
    from sortition.report.export import slug

    name = slug(title_of(folders))[:60].rstrip("-.").lower()
    return Path(folders[0]) / f"{name}.html"

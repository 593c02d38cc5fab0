"""``sortition report`` and ``sortition watch``: run folders into one page, figures and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folders = Annotated[list[Path], typer.Argument(help="run folders, or folders that hold some", show_default=False)]
Out = Annotated[Path, typer.Option("-o", "--out", help="the page")]


def report(
    folders: Folders,
    out: Out = Path("report.html"),
    figures: Annotated[Path | None, typer.Option(help="also write PNG, SVG, PDF and LaTeX files here")] = None,
) -> None:
    """Turn runs into one self-contained page: is a method better than uniform here, by how much, at what cost?

    Example: sortition report runs/first -o first.html --figures figures/
    """
    from sortition.report import write

    typer.echo(f"open: {write(folders, out, figures=figures)}")
    if figures is not None:
        typer.echo(f"figures: {figures}")


def watch(
    folders: Folders,
    out: Out = Path("report.html"),
    every: Annotated[float, typer.Option(min=1.0, help="seconds between two looks")] = 10.0,
) -> None:
    """Rewrite the page while runs go on; the page loads itself anew. Ends when all are done.

    Example: sortition watch runs/first -o first.html
    """
    from sortition.report import watch

    watch(folders, out, every=every, say=typer.echo)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(report)
    app.command()(watch)

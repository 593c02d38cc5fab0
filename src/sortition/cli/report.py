"""``sortition report``, ``watch`` and ``export``: run folders or a history into one page, figures and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Folders = Annotated[list[Path], typer.Argument(help="run folders, or folders that hold some", show_default=False)]
Sources = Annotated[
    list[Path],
    typer.Argument(
        help="run folders, or folders that hold some; or one federation's history, checkpoint or folder",
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", help="the page", show_default="in the first folder, named after the study"),
]
Margin = Annotated[
    float | None,
    typer.Option(
        help="points of accuracy (% of the baseline's loss) that are practically no difference",
        show_default="the study's margin",
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        help="the method that others are compared with, by label or name", show_default="the study's, or uniform"
    ),
]
AllPairs = Annotated[
    bool | None,
    typer.Option("--all-pairs/--only-baseline", help="compare every pair of methods", show_default="as the study says"),
]
Open = Annotated[bool, typer.Option("--open", help="show the page in the browser")]


def report(
    folders: Sources,
    out: Out = None,
    figures: Annotated[Path | None, typer.Option(help="also write PNG, SVG, PDF and LaTeX files here")] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="a column of the LaTeX tables; with --figures", show_default="those that decide"),
    ] = None,
    margin: Margin = None,
    baseline: Baseline = None,
    all_pairs: AllPairs = None,
    open_: Open = False,
) -> None:
    """Turn runs into one self-contained page: is a method better than the baseline, by how much, at what cost?

    Of a federation (Flower, NVIDIA FLARE, your own server): who was chosen, and what became of them.

    Example: sortition report runs/first --open

    Of a federation: sortition report run.npz --open

    Another baseline: sortition report runs/first --baseline oort

    For a paper: sortition report runs/first --figures figures/ --column 'last 10, %' --column MB
    """
    from sortition.report import write

    page = write(
        folders,
        out,
        figures=figures,
        columns=column or (),
        margin=margin,
        baseline=baseline,
        all_pairs=all_pairs,
    )
    typer.echo(f"open: {page}")
    if figures is not None:
        typer.echo(f"figures: {figures}")
    if open_:
        typer.launch(page.resolve().as_uri())


def watch(
    folders: Folders,
    out: Out = None,
    every: Annotated[float, typer.Option(min=1.0, help="seconds between two looks")] = 10.0,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="port of the live page on this machine; 0: any that is free")
    ] = 0,
    serve: Annotated[bool, typer.Option(help="serve the live page; else only rewrite the file")] = True,
    margin: Margin = None,
    baseline: Baseline = None,
    open_: Open = False,
) -> None:
    """Show the page live while runs go on, with progress and the time left. Ends when all are done.

    Example: sortition watch runs/first --open
    """
    from sortition.report.watch import watch
    from sortition.results.history import refuse_histories

    refuse_histories("watch", folders)

    def ready(address: str) -> None:
        typer.echo(f"live: {address}")
        if open_:
            typer.launch(address if serve else Path(address).resolve().as_uri())

    watch(
        folders,
        out,
        every=every,
        port=port if serve else None,
        margin=margin,
        baseline=baseline,
        say=typer.echo,
        ready=ready,
    )


def export(
    folders: Folders,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="folder of the tables", show_default="FOLDER/tables")
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="csv or parquet")] = "csv",
    margin: Margin = None,
    baseline: Baseline = None,
    all_pairs: AllPairs = None,
) -> None:
    """Write every table as CSV or Parquet: rounds, runs, methods, comparisons.

    Example: sortition export runs/first --format parquet
    """
    from sortition.results import frames, run_folder, summary
    from sortition.results.comparisons import check_baseline, criteria_of
    from sortition.results.history import refuse_histories

    refuse_histories("export", folders)
    criteria = criteria_of(folders, margin=margin, baseline=baseline, all_pairs=all_pairs)
    runs = run_folder.find(*folders)
    finished = summary.finished(runs)
    check_baseline(baseline or "", [summary.names_of(methods) for methods in finished.groups.values()])
    tables = frames.frames(runs, criteria)
    for copy in finished.copies:
        typer.echo(f"note: {copy.text}", err=True)
    for path in frames.write(tables, out or folders[0] / "tables", format_):
        typer.echo(path)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (report, watch, export):
        app.command()(command)

"""``sortition report``, ``watch`` and ``export``: run folders or a history into one page, figures and tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sortition.report.method_choice import MethodChoice

METHODS = "Methods on the page and in figures and tables"
FIGURES = "Figures and LaTeX tables"
Folders = Annotated[list[Path], typer.Argument(help="run folders, or folders that hold some", show_default=False)]
Sources = Annotated[
    list[Path],
    typer.Argument(
        help="run folders, or folders that hold some, or packs; or one federation's history, checkpoint or folder",
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "-o", "--out", help="write the page to this file", show_default="in the first folder, named after the study"
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(
        help="count smaller differences as equal: points of accuracy, or % of the baseline's loss",
        show_default="the study's margin",
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(help="compare the methods with this one, by label or name", show_default="the study's, or uniform"),
]
AllPairs = Annotated[
    bool | None,
    typer.Option("--all-pairs/--only-baseline", help="compare every pair of methods", show_default="as the study says"),
]
Cost = Annotated[
    str | None,
    typer.Option(
        help="compare at equal rounds, seconds, megabytes or passes",
        show_default="the study's, or seconds where devices differ, or rounds",
    ),
]
Open = Annotated[bool, typer.Option("--open", help="open the page in the browser")]


def report(
    folders: Sources,
    out: Out = None,
    margin: Margin = None,
    baseline: Baseline = None,
    all_pairs: AllPairs = None,
    cost: Cost = None,
    open_: Open = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="show only this method; may be repeated", show_default="all", rich_help_panel=METHODS),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="leave this method out; may be repeated", rich_help_panel=METHODS)
    ] = None,
    order: Annotated[
        list[str] | None,
        typer.Option(
            help="show this method first; repeat it for those that follow",
            show_default="the study's",
            rich_help_panel=METHODS,
        ),
    ] = None,
    rename: Annotated[
        list[str] | None, typer.Option(help="show a method under another name: oort=Oort", rich_help_panel=METHODS)
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(help="also write PNG, SVG, PDF and LaTeX files into this folder", rich_help_panel=FIGURES),
    ] = None,
    chart: Annotated[
        list[str] | None,
        typer.Option(
            help="write only this chart, by the name of its file", show_default="all", rich_help_panel=FIGURES
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            help="put only this column into the LaTeX tables", show_default="those that decide", rich_help_panel=FIGURES
        ),
    ] = None,
    format_: Annotated[
        list[str] | None,
        typer.Option("--format", help="png, svg or pdf", show_default="all three", rich_help_panel=FIGURES),
    ] = None,
    style: Annotated[
        str | None,
        typer.Option(help="look of the figures: paper or slides", show_default="paper", rich_help_panel=FIGURES),
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(
            help="width of a figure: inches, column or page",
            show_default="a column, or a whole slide",
            rich_help_panel=FIGURES,
        ),
    ] = None,
    font: Annotated[
        str | None,
        typer.Option(
            help="font of the text: a family that is installed here, serif, sans-serif or monospace",
            show_default="sans-serif",
            rich_help_panel=FIGURES,
        ),
    ] = None,
    text_size: Annotated[
        float | None,
        typer.Option(help="size of the text in points", show_default="8, on slides 20", rich_help_panel=FIGURES),
    ] = None,
    legend: Annotated[
        str | None,
        typer.Option(
            help="where to put the names of methods: lines, top, bottom, right or none",
            show_default="top",
            rich_help_panel=FIGURES,
        ),
    ] = None,
    title: Annotated[
        bool,
        typer.Option(
            "--title", help="write a title above each chart that says what its lines are", rich_help_panel=FIGURES
        ),
    ] = False,
) -> None:
    """Turn runs into one self-contained page: is a method better than the baseline, by how much, at what cost?

    Of a federation (Flower, NVIDIA FLARE, your own server): who was chosen, and what became of them.

    Example: sortition report runs/first --open

    Of a federation: sortition report run.npz --open

    Another baseline: sortition report runs/first --baseline oort

    At equal time: sortition report runs/first --cost seconds

    For a paper: sortition report runs/first --figures figures/ --only uniform --only oort --rename oort=Oort

    One figure: sortition report runs/first --figures figures/ --chart accuracy --format pdf --width 3.3 --font serif
    """
    from sortition.report import write
    from sortition.report.look import FigureFiles, figure_style

    of_figures = {
        "--chart": chart,
        "--column": column,
        "--format": format_,
        "--style": style,
        "--width": width,
        "--font": font,
        "--text-size": text_size,
        "--legend": legend,
        "--title": title,
    }
    files = None
    if figures is None:
        _refuse_without_figures(of_figures)
    else:
        look = figure_style(style or "paper", width=width, font=font, text_size=text_size, legend=legend, title=title)
        files = FigureFiles(folder=figures, style=look, charts=chart or (), formats=format_ or (), columns=column or ())
    page = write(
        folders,
        out,
        figures=files,
        methods=_method_choice(only=only, exclude=exclude, order=order, rename=rename),
        margin=margin,
        baseline=baseline,
        all_pairs=all_pairs,
        cost=cost,
    )
    typer.echo(f"open: {page}")
    if figures is not None:
        typer.echo(f"figures: {figures}")
    if open_:
        typer.launch(page.resolve().as_uri())


def _method_choice(
    *, only: list[str] | None, exclude: list[str] | None, order: list[str] | None, rename: list[str] | None
) -> MethodChoice | None:
    """Return the choice among the methods of a study; None where there is none."""
    from sortition.report.method_choice import MethodChoice, parse_renames

    if not (only or exclude or order or rename):
        return None
    return MethodChoice(
        only=only or (),
        exclude=exclude or (),
        order=order or (),
        rename=parse_renames(rename or ()),
    )


def _refuse_without_figures(options: Mapping[str, object]) -> None:
    """Refuse an option of figures and LaTeX tables where none are written."""
    from sortition.core.errors import bad

    for option, value in options.items():
        if value:
            raise bad(option, "given with --figures", f"{option} alone", "It is of figures and LaTeX tables.")


def watch(
    folders: Folders,
    out: Out = None,
    every: Annotated[float, typer.Option(min=1.0, help="seconds between two updates of the page")] = 10.0,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="port of the live page on this machine; 0: any that is free")
    ] = 0,
    serve: Annotated[bool, typer.Option(help="serve the live page, or only rewrite the file")] = True,
    margin: Margin = None,
    baseline: Baseline = None,
    cost: Cost = None,
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
            url = address if serve else Path(address).resolve().as_uri()
            typer.launch(url)

    watch(
        folders,
        out,
        every=every,
        port=port if serve else None,
        margin=margin,
        baseline=baseline,
        cost=cost,
        say=typer.echo,
        ready=ready,
    )


def pack(
    folder: Annotated[Path, typer.Argument(help="the folder of a study's runs", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", help="write the archive to this file", show_default="FOLDER.zip, beside the folder"
        ),
    ] = None,
) -> None:
    """Put a study into one file for a co-author: page, records, configurations, hashes of data and code.

    Models (checkpoints) are left out. sortition report FILE.zip opens it, and makes the page anew from the records.

    Example: sortition pack runs/first -o first.zip
    """
    from sortition.report.pack_with_page import pack_study as write_study

    path = write_study(folder, out)
    typer.echo(f"pack: {path} ({path.stat().st_size / 1e6:.2g} MB)")


def export(
    folders: Folders,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="write the tables into this folder", show_default="FOLDER/tables")
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="csv or parquet")] = "csv",
    margin: Margin = None,
    baseline: Baseline = None,
    all_pairs: AllPairs = None,
    cost: Cost = None,
) -> None:
    """Write every table as CSV or Parquet: rounds, runs, methods, comparisons.

    Example: sortition export runs/first --format parquet
    """
    from sortition.results import frames, run_folder, summary
    from sortition.results.comparisons import check_baseline, criteria_of
    from sortition.results.history import refuse_histories

    refuse_histories("export", folders)
    criteria = criteria_of(folders, margin=margin, baseline=baseline, all_pairs=all_pairs, cost=cost)
    runs = run_folder.find(*folders)
    finished = summary.sort_finished(runs)
    check_baseline(baseline or "", [summary.names_of(methods) for methods in finished.groups.values()])
    tables = frames.make_frames(runs, criteria)
    for copy in finished.copies:
        typer.echo(f"note: {copy.text}", err=True)
    for path in frames.write_frames(tables, out or folders[0] / "tables", format_):
        typer.echo(path)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (report, watch, export, pack):
        app.command()(command)

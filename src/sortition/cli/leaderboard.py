"""``sortition leaderboard``: run what is missing of the frozen suite, and say where every method stands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sortition.cli.options import Jobs, Quiet, allowing, console

OUT = Path("runs") / "leaderboard"


def leaderboard(
    method: Annotated[
        list[str] | None,
        typer.Option(help="only these: a name, package.module:Class, or with parameters: fedgs,alpha=2"),
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="folder of the runs and of runs.parquet")] = OUT,
    half: Annotated[str | None, typer.Option(help="only the half 'tuning' or 'held-out'")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="six cells and three seeds, in some minutes")] = False,
    seeds: Annotated[int | None, typer.Option(min=2, help="fewer or more paired seeds [default: the suite's]")] = None,
    jobs: Jobs = None,
    page: Annotated[Path | None, typer.Option(help="write the page here as well, such as docs/leaderboard.md")] = None,
    show: Annotated[bool, typer.Option("--show", help="run nothing; read what is finished")] = False,
    quiet: Quiet = False,
) -> None:
    """Compare all methods on a frozen suite of federations; only what is missing is run.

    Example: sortition leaderboard --quick

    A method of your own: sortition leaderboard --method mymethods.neglected:Neglected
    """
    from sortition.cli.run import finish
    from sortition.leaderboard import entries, results
    from sortition.leaderboard.board import Board
    from sortition.leaderboard.page import standing_of, standings_table, write_page
    from sortition.leaderboard.suite import load_suite
    from sortition.studies.runs import runner
    from sortition.studies.runs.progress import showing

    own = [text.partition(",")[0].partition(":")[0] for text in method or () if ":" in text]
    with allowing(own):
        suite, screen = load_suite(), console()
        cells = suite.cells(half, quick=quick)
        chosen = entries.chosen_entries(method) if method else entries.default_entries()
        plan = suite.study(cells, chosen, range(seeds or (3 if quick else suite.seeds)))
        execution = None
        if not show:
            progress = showing(screen, quiet=quiet)
            execution = runner.execute(plan, out, jobs=jobs, resume=True, progress=progress)
        rows = results.collected(suite, plan, out, results.stored(out / results.RUNS))
        results.write_runs(rows, out / results.RUNS)
        board = Board(suite, cells, rows)
        if not quiet and board.ranked:
            screen.print(standings_table(board))
        for line in standing_of(board, [entries.label_of(one) for one in chosen]) if method else ():
            typer.echo(line)
        if page is not None:
            typer.echo(f"page: {write_page(suite, rows, page)}")
        if execution is not None:
            finish(execution, f"the same command goes on: {out}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(leaderboard)

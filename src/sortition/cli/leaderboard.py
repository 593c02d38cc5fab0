"""``sortition leaderboard``: run what is missing of the frozen suite, and say where every method stands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sortition.cli.options import Jobs, Quiet, allowing, console

if TYPE_CHECKING:
    import polars as pl

    from sortition.leaderboard.suite import Suite
    from sortition.studies.plan import StudyPlan
    from sortition.studies.runs.runner import Execution
    from sortition.studies.types import TomlTable

OUT = Path("runs") / "leaderboard"
QUICK_SEEDS = 3
Tune = Annotated[
    bool, typer.Option("--tune", help="try each method's alternatives on the tuning half, the best on the held-out one")
]
Seeds = Annotated[int | None, typer.Option(min=2, help="fewer or more paired seeds", show_default="the suite's")]


def leaderboard(
    method: Annotated[
        list[str] | None,
        typer.Option(help="only these: a name, package.module:Class, or with parameters: fedgs,alpha=2"),
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="folder of the runs and of runs.parquet")] = OUT,
    half: Annotated[str | None, typer.Option(help="only the half 'tuning' or 'held-out'")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="six federations and three seeds, in some minutes")] = False,
    tune: Tune = False,
    weights: Annotated[str | None, typer.Option(help="give all methods the same weights, such as 'size'")] = None,
    seeds: Seeds = None,
    jobs: Jobs = None,
    show: Annotated[bool, typer.Option("--show", help="run nothing; read what is finished")] = False,
    quiet: Quiet = False,
) -> None:
    """Compare all methods on a frozen suite of federations; only what is missing is run.

    Example: sortition leaderboard --quick

    A method of your own: sortition leaderboard --method mymethods.neglected:Neglected
    """
    from sortition.cli.exit_codes import exit_for
    from sortition.leaderboard.board import Board
    from sortition.leaderboard.standings import standing_lines, standings_table
    from sortition.leaderboard.suite import load_suite
    from sortition.leaderboard.variants import plain_rows
    from sortition.studies.overlay import label_of

    _exclude(method=method, tune=tune, weights=weights, half=half, quick=quick)
    users_modules = [text.partition(",")[0].partition(":")[0] for text in method or () if ":" in text]
    with allowing(users_modules):
        suite = load_suite()
        play = None
        if not show:
            play = partial(_play, out=out, jobs=jobs, quiet=quiet)
        run = partial(_run, suite, out, play)
        if tune:
            cells = suite.cells("held-out", quick=quick)
            entries = _tuned(suite, run)
        else:
            cells = suite.cells(half, quick=quick)
            entries = _entries(method, weights)
        default_seeds = QUICK_SEEDS if quick else suite.seeds
        execution, rows = run(suite.study(cells, entries, range(seeds or default_seeds)))
        labels = [label_of(entry) for entry in entries]
        board = Board(suite, cells, plain_rows(rows, labels))
        if not quiet and board.ranked:
            console().print(standings_table(board))
        if method or tune or weights:
            for line in standing_lines(board, labels):
                typer.echo(line)
        if execution is not None:
            exit_for(execution, f"the same command goes on: {out}")


def _exclude(*, method: list[str] | None, tune: bool, weights: str | None, half: str | None, quick: bool) -> None:
    """Refuse options that exclude each other."""
    from sortition.core.errors import bad

    if sum(map(bool, (method, tune, weights))) > 1 or (tune and (half or quick)):
        raise bad("leaderboard", "given --method, --tune or --weights", "several", "--tune runs both halves, in whole.")


def _entries(method: list[str] | None, weights: str | None) -> list[TomlTable]:
    from sortition.leaderboard.entries import chosen_entries, default_entries, weighed_entries

    if weights is not None:
        return weighed_entries(weights)
    if method:
        return chosen_entries(method)
    return default_entries()


def _tuned(suite: Suite, run: Callable[[StudyPlan], tuple[Execution | None, pl.DataFrame]]) -> list[TomlTable]:
    """Return the best alternative of each method, after those that are missing have run on the tuning half."""
    from sortition.leaderboard.entries import chosen_entries
    from sortition.leaderboard.variants import candidates, tuned

    labels = [label for alternatives in candidates().values() for label in alternatives]
    _, rows = run(suite.study(suite.cells("tuning"), chosen_entries(labels), range(QUICK_SEEDS)))
    return chosen_entries(list(tuned(suite, rows).values()))


def _run(
    suite: Suite, out: Path, play: Callable[[StudyPlan], Execution] | None, plan: StudyPlan
) -> tuple[Execution | None, pl.DataFrame]:
    """Run what is missing of a plan, unless nothing shall run, and read everything that is finished."""
    execution = None
    if play is not None:
        execution = play(plan)
    return execution, _stored(suite, plan, out)


def _play(plan: StudyPlan, out: Path, jobs: int | None, quiet: bool) -> Execution:
    from sortition.studies.runs import runner
    from sortition.studies.runs.progress import showing

    return runner.execute(plan, out, jobs=jobs, resume=True, progress=showing(console(), quiet=quiet))


def _stored(suite: Suite, plan: StudyPlan, out: Path) -> pl.DataFrame:
    """Return all runs of the suite that are finished in the folder, which keeps them as one file."""
    from sortition.leaderboard import results

    rows = results.collected(suite, plan, out, results.stored(out / results.RUNS))
    results.write_runs(rows, out / results.RUNS)
    return rows


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(leaderboard)

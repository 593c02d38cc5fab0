"""``sortition leaderboard``: run what is missing of the frozen suite, and say where every method stands."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sortition.cli.shared_options import Jobs, Quiet, allowing_imports, console

if TYPE_CHECKING:
    import polars as pl

    from sortition.cli.leaderboard_tracks import TrackOptions
    from sortition.leaderboard.suite import Suite
    from sortition.studies.plan import StudyPlan
    from sortition.studies.runs.runner import Execution
    from sortition.studies.types import TomlTable

OUT = Path("runs") / "leaderboard"
QUICK_SEEDS = 3
Tune = Annotated[
    bool, typer.Option("--tune", help="try each method's alternatives on the tuning half, the best on the held-out one")
]
Seeds = Annotated[int | None, typer.Option(min=2, help="number of paired seeds", show_default="the suite's")]


def leaderboard(
    method: Annotated[
        list[str] | None,
        typer.Option(help="only these: a name, package.module:Class, or (suite 1) with parameters: fedgs,alpha=2"),
    ] = None,
    suite: Annotated[str, typer.Option(help="1, 2, or the file of a suite like suite 2")] = "1",
    track: Annotated[
        list[str] | None,
        typer.Option(help="suite 2: only 'rounds', 'seconds', 'overlap' or 'adversaries'"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="folder of the results", show_default="runs/leaderboard, runs/leaderboard-2"),
    ] = None,
    half: Annotated[str | None, typer.Option(help="only the half 'tuning' or 'held-out'")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="run only a few small federations and seeds")] = False,
    tune: Tune = False,
    configurations: Annotated[
        Path | None,
        typer.Option(help="suite 2: a file like suite-2-tuning.toml, which is added to it"),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="suite 1: give all methods the same weights, such as 'size'")
    ] = None,
    seeds: Seeds = None,
    jobs: Jobs = None,
    retry: Annotated[bool, typer.Option("--retry", help="suite 2: play failed runs again")] = False,
    hours: Annotated[
        float | None,
        typer.Option(min=0, help="suite 2: start no more runs after this many hours", show_default="no limit"),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="run nothing; read what is finished")] = False,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="suite 2: run nothing; say how many hours the missing runs take")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="suite 2: check stored results, and play a random tenth again")
    ] = False,
    verify_share: Annotated[
        float, typer.Option(min=0, max=1, help="share of the runs that --verify plays again")
    ] = 0.1,
    verify_seed: Annotated[int, typer.Option(min=0, help="seed by which --verify draws these runs")] = 0,
    quiet: Quiet = False,
) -> None:
    """Compare all methods on a frozen suite of federations; only what is missing is run.

    Example: sortition leaderboard --suite 2 --quick --method oort

    A method of your own: sortition leaderboard --suite 2 --method mymethods.neglected:Neglected
    """
    users_modules = [text.partition(",")[0].partition(":")[0] for text in method or () if ":" in text]
    if suite == "1":
        _refuse_options_of_suite_2(
            {
                "--track": track,
                "--configurations": configurations,
                "--retry": retry,
                "--hours": hours,
                "--estimate": estimate,
                "--verify": verify,
            }
        )
        first_suite = _FirstSuite(
            method=method,
            out=out or OUT,
            half=half,
            quick=quick,
            tune=tune,
            weights=weights,
            seeds=seeds,
            jobs=jobs,
            show=show,
            quiet=quiet,
        )
        with allowing_imports(users_modules):
            first_suite.run()
        return
    from sortition.cli.leaderboard_tracks import OUT as TRACKS_OUT
    from sortition.cli.leaderboard_tracks import TrackOptions

    _refuse_options_of_suite_1(weights, jobs)
    options = TrackOptions(
        suite=suite,
        configurations=configurations,
        methods=method or [],
        tracks=track or [],
        half=half,
        out=out or TRACKS_OUT,
        quick=quick,
        seeds=seeds,
        tune=tune,
        retry=retry,
        quiet=quiet,
        stop_at=_moment_after(hours),
    )
    with allowing_imports(users_modules):
        _run_suite_2(options, show=show, estimate=estimate, verify=verify, share=verify_share, seed=verify_seed)


def _moment_after(hours: float | None) -> float:
    """Return the moment of the monotonic clock after so many hours; infinite without a limit."""
    if hours is None:
        return math.inf
    return time.monotonic() + 3600 * hours


def _run_suite_2(options: TrackOptions, *, show: bool, estimate: bool, verify: bool, share: float, seed: int) -> None:
    """Do what the command line asks of suite 2: one thing of estimating, verifying, showing and running."""
    from sortition.cli import leaderboard_tracks
    from sortition.core.errors import bad

    if sum((show, estimate, verify, options.tune)) > 1:
        raise bad("leaderboard", "given one of --show, --estimate, --verify and --tune", "several")
    if options.tune and (options.quick or options.half):
        hint = "It runs what decides on the tuning half, and all of the held-out half."
        raise bad("leaderboard --tune", "without --quick and --half", "both", hint)
    if estimate:
        leaderboard_tracks.estimate_tracks(options)
    elif verify:
        leaderboard_tracks.verify_tracks(options, share=share, seed=seed)
    elif show:
        leaderboard_tracks.show_tracks(options)
    else:
        leaderboard_tracks.run_tracks(options)


def _refuse_options_of_suite_2(given: dict[str, object]) -> None:
    """Refuse options that only suite 2 has."""
    from sortition.core.errors import bad

    for option, value in given.items():
        if value:
            raise bad(option, "given with --suite 2", value)


def _refuse_options_of_suite_1(weights: str | None, jobs: int | None) -> None:
    """Refuse options that only suite 1 has."""
    from sortition.core.errors import bad

    if weights is not None:
        raise bad("--weights", "left out in suite 2", weights)
    if jobs not in (None, 1):
        raise bad("--jobs", "1 in suite 2", jobs, "It runs in the background on one core, with low priority.")


@dataclass(frozen=True)
class _FirstSuite:
    """What the command line asks of suite 1."""

    method: list[str] | None
    out: Path
    half: str | None
    quick: bool
    tune: bool
    weights: str | None
    seeds: int | None
    jobs: int | None
    show: bool
    quiet: bool

    def run(self) -> None:
        """Run what is missing, and print the standings."""
        from sortition.cli.exit_codes import exit_for
        from sortition.leaderboard.board import Board
        from sortition.leaderboard.standings import standing_lines, standings_table
        from sortition.leaderboard.suite import load_suite
        from sortition.leaderboard.variants import plain_rows
        from sortition.studies.overlay import label_of

        _refuse_excluding_options(
            method=self.method, tune=self.tune, weights=self.weights, half=self.half, quick=self.quick
        )
        suite = load_suite()
        play = None
        if not self.show:
            play = partial(_execute_plan, out=self.out, jobs=self.jobs, quiet=self.quiet)
        run = partial(_run_and_collect, suite, self.out, play)
        if self.tune:
            cells = suite.cells("held-out", quick=self.quick)
            entries = _tune_entries(suite, run)
        else:
            cells = suite.cells(self.half, quick=self.quick)
            entries = _choose_entries(self.method, self.weights)
        default_seeds = QUICK_SEEDS if self.quick else suite.seeds
        execution, rows = run(suite.study(cells, entries, range(self.seeds or default_seeds)))
        labels = [label_of(entry) for entry in entries]
        board = Board(suite, cells, plain_rows(rows, labels))
        if not self.quiet and board.ranked:
            console().print(standings_table(board))
        if self.method or self.tune or self.weights:
            for line in standing_lines(board, labels):
                typer.echo(line)
        if execution is not None:
            exit_for(execution, f"the same command goes on: {self.out}")


def _refuse_excluding_options(
    *, method: list[str] | None, tune: bool, weights: str | None, half: str | None, quick: bool
) -> None:
    """Refuse options that exclude each other."""
    from sortition.core.errors import bad

    if sum(map(bool, (method, tune, weights))) > 1 or (tune and (half or quick)):
        raise bad("leaderboard", "given --method, --tune or --weights", "several", "--tune runs both halves, in whole.")


def _choose_entries(method: list[str] | None, weights: str | None) -> list[TomlTable]:
    """Return the entries that the options name; without any, every method with its defaults."""
    from sortition.leaderboard.entries import chosen_entries, default_entries, weighed_entries

    if weights is not None:
        return weighed_entries(weights)
    if method:
        return chosen_entries(method)
    return default_entries()


def _tune_entries(suite: Suite, run: Callable[[StudyPlan], tuple[Execution | None, pl.DataFrame]]) -> list[TomlTable]:
    """Return the best alternative of each method, after those that are missing have run on the tuning half."""
    from sortition.leaderboard.entries import chosen_entries
    from sortition.leaderboard.variants import candidate_labels, choose_tuned_labels

    labels = [label for alternatives in candidate_labels().values() for label in alternatives]
    _, rows = run(suite.study(suite.cells("tuning"), chosen_entries(labels), range(QUICK_SEEDS)))
    return chosen_entries(list(choose_tuned_labels(suite, rows).values()))


def _run_and_collect(
    suite: Suite, out: Path, play: Callable[[StudyPlan], Execution] | None, plan: StudyPlan
) -> tuple[Execution | None, pl.DataFrame]:
    """Run what is missing of a plan, unless nothing shall run, and read everything that is finished."""
    execution = None
    if play is not None:
        execution = play(plan)
    return execution, _collect_runs(suite, plan, out)


def _execute_plan(plan: StudyPlan, out: Path, jobs: int | None, quiet: bool) -> Execution:
    """Run what is missing of a plan, and show the progress."""
    from sortition.studies.runs import runner
    from sortition.studies.runs.progress import showing

    return runner.execute(plan, out, jobs=jobs, resume=True, progress=showing(console(), quiet=quiet))


def _collect_runs(suite: Suite, plan: StudyPlan, out: Path) -> pl.DataFrame:
    """Return all runs of the suite that are finished in the folder, which keeps them as one file."""
    from sortition.leaderboard import results

    rows = results.collect_runs(suite, plan, out, results.read_stored_runs(out / results.RUNS))
    results.write_runs(rows, out / results.RUNS)
    return rows


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(leaderboard)

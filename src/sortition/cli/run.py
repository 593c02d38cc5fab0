"""``sortition run``, ``schema`` and ``demo``: studies from a file."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from sortition.cli.lint import announce
from sortition.cli.options import Allow, Jobs, On, Quiet, Set, allowing, console, naming

if TYPE_CHECKING:
    from sortition.studies.plan import StudyPlan
    from sortition.studies.runs.runner import Execution

File = Annotated[Path, typer.Argument(help="a study's TOML file", show_default=False)]
Out = Annotated[Path | None, typer.Option("-o", "--out", help="folder of the runs", show_default="runs/NAME")]


def run(
    file: File,
    out: Out = None,
    set_: Set = None,
    jobs: Jobs = None,
    on: On = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with the runs that are in the folder")] = False,
    only: Annotated[list[str] | None, typer.Option(help="only these settings or methods; wildcards allowed")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print what would run and how long; run nothing")] = False,
    allow: Allow = None,
    quiet: Quiet = False,
) -> None:
    """Run a study: every method on every seed of every setting, then a table.

    Ctrl-C ends the rounds in progress; the same command with --resume goes on, to the very same records.

    Example: sortition run examples/first.toml -o runs/first --set seeds=3

    Many machines: sortition run examples/first.toml --on ray://head:10001
    """
    from sortition.reproduction.preset import OURS
    from sortition.studies.plan import plan, read
    from sortition.studies.run_filter import matching_runs

    with allowing(allow):
        table = {key: value for key, value in read(file).items() if key not in OURS}
        with naming(file):
            whole = plan(table, tuple(set_ or ()), owner=file.name)
        chosen = matching_runs(whole, tuple(only or ()))
        if dry_run:
            _estimate(chosen, jobs)
        else:
            place = out or Path("runs") / file.stem
            play(chosen, place, whole=whole, jobs=jobs, resume=resume, quiet=quiet, on=on)


def play(
    plan: StudyPlan,
    out: Path,
    *,
    whole: StudyPlan,
    jobs: int | None,
    resume: bool,
    quiet: bool,
    on: str | None = None,
) -> None:
    """Run a plan, print the table of the whole study that it is part of, and what failed, which sets the exit code."""
    from sortition.studies.runs import runner
    from sortition.studies.runs.progress import showing

    screen = console()
    if not quiet:
        announce(plan)
    outcome = runner.execute(plan, out, jobs=jobs, resume=resume, progress=showing(screen, quiet=quiet), on=on)
    if not quiet:
        print_summary(out, screen, asked=runner.places(out, whole))
    finish(outcome, f"add --resume to go on: {out}")


def print_summary(out: Path, screen: Console, page: Path | None = None, asked: Collection[Path] | None = None) -> None:
    """Print the tables of the runs in a folder, or of those ``asked`` for, and what follows in plain words."""
    from sortition.results import run_folder, summary
    from sortition.results.comparisons import criteria_of
    from sortition.studies.study_result import left_out_note, notes_of

    found = run_folder.find(out)
    criteria = criteria_of([out])
    runs = [run for run in found if asked is None or run.path in asked]
    for sentence in summary.inputs(runs):
        screen.print(sentence, soft_wrap=True, markup=False, highlight=False)
    for one in summary.tables(runs, criteria):
        screen.print(one)
    for note in [*notes_of(runs), *([] if asked is None else left_out_note(found, asked))]:
        screen.print(f"note: {note}", soft_wrap=True, markup=False, highlight=False)
    screen.print(f"\nruns: {out}", soft_wrap=True)
    if page is not None:
        screen.print(f"open: {page}", soft_wrap=True)
    conclusions = summary.conclusions(runs, criteria)
    for sentence in ["", summary.heading(runs, criteria), *conclusions] if conclusions else []:
        screen.print(sentence, soft_wrap=True, markup=False, highlight=False)


def finish(outcome: Execution, hint: str) -> None:
    """Print what failed or was stopped, and exit with the code that says so."""
    for path, why in outcome.failed.items():
        log = Path(path) / "failure.log"
        where = f" (log: {log})" if log.exists() else ""
        typer.echo(f"failed: {path}: {why.strip().splitlines()[-1]}{where}", err=True)
    if outcome.interrupted:
        typer.echo(f"stopped; {hint}", err=True)
        raise typer.Exit(130)
    if outcome.failed:
        raise typer.Exit(1)


def _estimate(plan: StudyPlan, jobs: int | None) -> None:
    from sortition.results.table import Table
    from sortition.studies.estimate import estimates
    from sortition.studies.workers.local import cores

    found, side = estimates(plan.runs), jobs or cores()
    listing = Table(f"{len(plan.runs)} runs", ["setting", "method", "runs", "rounds", "ms/round", "core-seconds"])
    for one in found:
        cells = [one.setting, one.method, str(one.runs), str(one.rounds)]
        listing.rows.append([*cells, f"{1000 * one.seconds_per_round:.1f}", f"{one.seconds:.0f}"])
    total = sum(one.seconds for one in found) / min(side, max(1, len(plan.runs)))
    listing.notes.append(f"About {max(total / 60, 0.1):.1f} minutes with {side} side by side, by the first rounds.")
    console().print(listing)


def schema() -> None:
    """Print the JSON schema of a study's file, for completion and checks in an editor."""
    from sortition.studies.study_table import Study

    typer.echo(json.dumps(Study.model_json_schema(), indent=1))


def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="folder of the runs and the report")] = Path("demo"),
    jobs: Jobs = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="fewer or more seeds")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="fewer or more rounds")] = None,
    quiet: Quiet = False,
) -> None:
    """Compare the methods on embedded data in about a minute: 100 clients that come and go, skewed labels."""
    from sortition import selectors
    from sortition.studies.plan import DEMO, plan, read
    from sortition.studies.runs import runner
    from sortition.studies.runs.progress import showing

    study = read(DEMO)
    known = [*selectors.discover(), *selectors.ALIASES]
    study["method"] = [one for one in study["method"] if one["name"] in known]
    screen = console()
    made = plan(study, [f"{key}={value}" for key, value in (("seeds", seeds), ("rounds", rounds)) if value])
    outcome = runner.execute(made, out / "runs", jobs=jobs, resume=True, progress=showing(screen, quiet=quiet))
    page = _report(out)
    if not quiet:
        print_summary(out / "runs", screen, page)
    finish(outcome, "the same command goes on.")


def _report(out: Path) -> Path | None:
    """The page of the runs, where the report is installed."""
    from sortition.core.errors import SortitionError

    try:
        from sortition import report

        made = report.write([out / "runs"], out / "report.html")
    except (ImportError, AttributeError):
        return None
    except SortitionError as error:
        typer.echo(f"report: {error}", err=True)
        return None
    return Path(made)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (run, demo, schema):
        app.command()(command)

"""``sortition run``, ``schema`` and ``demo``: studies from a file."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from sortition.cli.exit_codes import exit_for
from sortition.cli.lint import print_findings
from sortition.cli.shared_options import Allow, Jobs, On, Quiet, Set, allowing_imports, console, naming_file_in_errors

if TYPE_CHECKING:
    from sortition.studies.plan import StudyPlan

File = Annotated[Path, typer.Argument(help="a study's TOML file", show_default=False)]
Out = Annotated[
    Path | None, typer.Option("-o", "--out", help="write the runs into this folder", show_default="runs/NAME")
]


def run(
    file: File,
    out: Out = None,
    set_: Set = None,
    jobs: Jobs = None,
    on: On = None,
    resume: Annotated[bool, typer.Option("--resume", help="continue the runs that are in the folder")] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="run only these settings or methods; wildcards are allowed")
    ] = None,
    cost: Annotated[
        str | None,
        typer.Option(help="compare at equal rounds, seconds, megabytes or passes", show_default="what the study says"),
    ] = None,
    policy_costs: Annotated[
        bool, typer.Option("--policy-costs", help="also run each setting without each rule of its policy")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="print what would run and how long it would take; run nothing")
    ] = False,
    allow: Allow = None,
    quiet: Quiet = False,
) -> None:
    """Run a study: every method on every seed of every setting, then a table.

    Ctrl-C ends the rounds in progress. The same command with --resume continues, and writes the very same records.

    Example: sortition run examples/first.toml -o runs/first --set seeds=3

    Many machines: sortition run examples/first.toml --on ray://head:10001
    """
    from sortition.reproduction.preset import PRESET_KEYS
    from sortition.studies.plan import plan, read
    from sortition.studies.policy_cost_runs import with_policy_costs
    from sortition.studies.run_filter import matching_runs

    with allowing_imports(allow):
        table = {key: value for key, value in read(file).items() if key not in PRESET_KEYS}
        with naming_file_in_errors(file):
            if policy_costs:
                table = with_policy_costs(table)
            if cost is not None:
                table["cost"] = cost
            whole_plan = plan(table, tuple(set_ or ()), subject=file.name)
        chosen_plan = matching_runs(whole_plan, tuple(only or ()))
        if dry_run:
            _print_estimate(chosen_plan, jobs)
        else:
            folder = out or Path("runs") / file.stem
            run_plan(chosen_plan, folder, whole_plan=whole_plan, jobs=jobs, resume=resume, quiet=quiet, on=on)


def run_plan(
    plan: StudyPlan,
    out: Path,
    *,
    whole_plan: StudyPlan,
    jobs: int | None,
    resume: bool,
    quiet: bool,
    on: str | None = None,
) -> None:
    """Run a plan, print the table of the whole study that it is part of, and exit with a code where a run failed."""
    from sortition.studies.runs import runner
    from sortition.studies.runs.progress import showing

    screen = console()
    if not quiet:
        print_findings(plan)
    execution = runner.execute(plan, out, jobs=jobs, resume=resume, progress=showing(screen, quiet=quiet), on=on)
    if not quiet:
        print_summary(out, screen, run_folders=runner.places(out, whole_plan))
    exit_for(execution, f"add --resume to go on: {out}")


DEMO_DEVICES = {"speed": 100.0, "speed_spread": 1.0}  # of ``--seconds``: the slowest tenth take 3.6 times the median
AFTER_DEMO = "Next: 'sortition init mine.toml' writes a study to change, 'sortition run mine.toml' runs it."


def print_summary(
    out: Path, screen: Console, page: Path | None = None, run_folders: Collection[Path] | None = None
) -> None:
    """Print the tables of the runs in a folder, or of ``run_folders`` in it, and what follows in plain words."""
    from sortition.results import run_folder, summary
    from sortition.results.comparisons import criteria_of
    from sortition.studies.study_result import left_out_note, notes_of

    stored_runs = run_folder.find(out)
    criteria = criteria_of([out])
    runs = stored_runs
    notes_on_others = []
    if run_folders is not None:
        runs = [run for run in stored_runs if run.path in run_folders]
        notes_on_others = left_out_note(stored_runs, run_folders)
    for sentence in summary.input_sentences(runs):
        _print_line(screen, sentence)
    for table in summary.tables(runs, criteria):
        screen.print(table)
    for note in [*notes_of(runs), *notes_on_others]:
        _print_line(screen, f"note: {note}")
    screen.print(f"\nruns: {out}", soft_wrap=True)
    if page is not None:
        screen.print(f"open: {page}", soft_wrap=True)
    conclusions = summary.conclusions(runs, criteria)
    if conclusions:
        for sentence in ["", summary.heading(runs, criteria), *conclusions]:
            _print_line(screen, sentence)


def _print_line(screen: Console, text: str) -> None:
    """Print a text as it is, on one line however long."""
    screen.print(text, soft_wrap=True, markup=False, highlight=False)


def _print_estimate(plan: StudyPlan, jobs: int | None) -> None:
    """Print how long the runs of a plan would take, by their first rounds."""
    from sortition.results.table import Table
    from sortition.studies.estimate import estimate_runs
    from sortition.studies.runs.runner import check_runs
    from sortition.studies.workers.local import cores

    columns = ["setting", "method", "runs", "rounds", "ms/round", "core-seconds"]
    table = Table(f"{len(plan.runs)} runs", columns)
    remarks = check_runs(plan.runs)
    total_seconds = 0.0
    for estimate in estimate_runs(plan.runs):
        table.rows.append(
            [
                estimate.setting,
                estimate.method,
                str(estimate.runs),
                str(estimate.rounds),
                f"{1000 * estimate.seconds_per_round:.1f}",
                f"{estimate.seconds:.0f}",
            ]
        )
        total_seconds += estimate.seconds
    processes = jobs or cores()
    minutes = total_seconds / min(processes, max(1, len(plan.runs))) / 60
    table.notes.append(f"About {max(minutes, 0.1):.1f} minutes with {processes} side by side, by the first rounds.")
    table.notes += [f"Note: {remark}" for remark in remarks]
    console().print(table)


def schema() -> None:
    """Print the JSON schema of a study's file, for completion and checks in an editor."""
    from sortition.studies.study_table import Study

    typer.echo(json.dumps(Study.model_json_schema(), indent=1))


def demo(
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            help="write the runs and the report into this folder",
            show_default="demo, or demo-seconds",
        ),
    ] = None,
    jobs: Jobs = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="number of seeds")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="number of rounds")] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=1.0, help="give devices different speeds, end runs after so many simulated seconds, and compare by them"
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Compare eight methods on embedded data in about a minute: 100 clients with two labels each, which come and go."""
    from sortition.studies.plan import DEMO, plan, read
    from sortition.studies.runs import runner
    from sortition.studies.runs.progress import showing

    overrides = []
    if seeds:
        overrides.append(f"seeds={seeds}")
    if rounds:
        overrides.append(f"rounds={rounds}")
    folder = Path("demo")
    table = read(DEMO)
    if seconds is not None:
        if not rounds:
            del table["rounds"]  # seconds end a run, however many rounds they are
        overrides += [f"until.seconds={seconds}", *(f"devices.{key}={value}" for key, value in DEMO_DEVICES.items())]
        folder = Path("demo-seconds")
    if out is not None:
        folder = out
    screen = console()
    runs = folder / "runs"
    demo_plan = plan(table, overrides)
    execution = runner.execute(demo_plan, runs, jobs=jobs, resume=True, progress=showing(screen, quiet=quiet))
    page = _write_report(folder)
    if not quiet:
        print_summary(runs, screen, page)
        _print_line(screen, f"\n{AFTER_DEMO}")
    exit_for(execution, "the same command goes on.")


def _write_report(out: Path) -> Path | None:
    """Write the page of the demo's runs; None where there is nothing to write about."""
    from sortition import report
    from sortition.core.errors import SortitionError

    try:
        return Path(report.write([out / "runs"], out / "report.html"))
    except SortitionError as error:
        typer.echo(f"report: {error}", err=True)
        return None


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (demo, run, schema):
        app.command()(command)

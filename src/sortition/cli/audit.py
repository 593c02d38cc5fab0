"""``sortition audit`` and ``sortition why``: is a run what it says, and why was a client chosen?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sortition.cli.exit_codes import FAILED, INCOMPLETE
from sortition.cli.shared_options import Allow, allowing_imports, console

if TYPE_CHECKING:
    from sortition.results.table import Table
    from sortition.studies.audit.finding import Finding

Folders = Annotated[
    list[Path],
    typer.Argument(
        help="run folders, folders that hold some, or federations: audit logs, histories, checkpoints",
        show_default=False,
    ),
]
Names = Annotated[
    Path | None,
    typer.Option(
        "--names",
        help="file of the clients' names: a JSON list by id, or NAME.about.json",
        show_default="those beside the log",
    ),
]
AS_LOGGED = (
    "Believed where answers are as logged: what clients answered and reported, who completed, whose updates "
    "were refused, test figures and costs. --replay replays the runs and compares them."
)
FEDERATED = (
    "Believed of federations, since only the log records it: who was available, the budget, what clients "
    "answered and reported, who completed, whose updates were refused."
)


def audit(
    folders: Folders,
    replay: Annotated[
        bool, typer.Option("--replay", help="play the runs again, and compare all their records")
    ] = False,
    names: Names = None,
    allow: Allow = None,
) -> None:
    """Check audit logs: the hash chain, the committed seed, the records, and every choice by recomputing it.

    Choices are recomputed from the availability and budget of the configuration and from the answers in the log. With
    --replay (always where a method uses vectors, of which the log has digests) the run is replayed: answers,
    completions and every figure of rounds.jsonl are compared, too. A federation's history is compared with its log.

    Exit code 1 if anything differs; 3 if nothing does, but a run is unfinished or not all of it could be checked.

    Example: sortition audit runs/first
    """
    findings = []
    for examine in _examinations(folders, replay, names):
        with allowing_imports(allow):
            findings.append(examine())
    screen = console()
    screen.print(_findings_table(findings))
    for line in (*_remark_lines(findings), *_belief_lines(findings)):
        screen.print(line, soft_wrap=True, highlight=False, markup=False)
    if any(finding.faults for finding in findings):
        raise typer.Exit(FAILED)
    if any(finding.verdict != "holds" for finding in findings):
        raise typer.Exit(INCOMPLETE)
    logs_hold = "log holds" if len(findings) == 1 else "logs hold"
    screen.print(f"{len(findings)} {logs_hold}: chains, seeds, records and choices agree.", highlight=False)


def _examinations(folders: list[Path], replay: bool, names_file: Path | None) -> list[Callable[[], Finding]]:
    """Return one examination for each run below the folders, then one for each federation."""
    from sortition.core.errors import InputError
    from sortition.results import run_folder
    from sortition.results.history import find_history
    from sortition.results.names import read_names
    from sortition.studies.audit.audit_run import examine, examine_history, examine_log

    names = None
    if names_file is not None:
        names = read_names(names_file)
    federations: list[Callable[[], Finding]] = []
    run_folders = []
    for path in folders:
        history = find_history(path)
        if history is not None:
            federations.append(partial(examine_history, history, names))
        elif path.is_file():
            federations.append(partial(examine_log, path, names))
        else:
            run_folders.append(path)
    runs = run_folder.find(*run_folders)
    if not runs and not federations:
        raise InputError(f"{folders[0]} must be a folder of runs, or a federation's audit log or history; got neither.")
    return [*(partial(examine, run, replay=replay) for run in runs), *federations]


def _log_name(finding: Finding) -> str:
    return "/".join(finding.run.parts[-3:])


def _findings_table(findings: list[Finding]) -> Table:
    """Return a row for each log."""
    from sortition.results.table import Table

    table = Table("", ["run", "rounds", "recomputed", "answers", "verdict"], prose=("run", "answers", "verdict"))
    for finding in findings:
        answers = "replayed" if finding.replayed else "as logged"
        table.rows.append(
            [_log_name(finding), str(finding.rounds), str(finding.n_recomputed), answers, finding.verdict],
        )
    return table


def _remark_lines(findings: list[Finding]) -> list[str]:
    """Return faults and remarks, each with its run."""
    return [f"{_log_name(finding)}: {text}" for finding in findings for text in (*finding.faults, *finding.remarks)]


def _belief_lines(findings: list[Finding]) -> list[str]:
    """Return a line for each thing that was taken as logged, since nothing could be compared with it."""
    checked = [finding for finding in findings if finding.n_recomputed]
    lines = []
    if any(not finding.replayed and not finding.federated for finding in checked):
        lines.append(AS_LOGGED)
    if any(finding.federated for finding in checked):
        lines.append(FEDERATED)
    return lines


def why(
    source: Annotated[
        Path,
        typer.Argument(
            help="one run's folder, or a federation's audit log, history or checkpoint",
            show_default=False,
        ),
    ],
    round_: Annotated[int, typer.Option("--round", help="the round, from 0 as in the records")],
    client: Annotated[
        str | None,
        typer.Option("--client", help="a client's name or id (id:7, name:7)", show_default="the whole cohort"),
    ] = None,
    names: Names = None,
) -> None:
    """Explain why a client was chosen in a round, or was not: availability, guards, answers, weight, history.

    A federation's history answers without an audit log as far as it can, and says what only a log could tell.

    Example: sortition why run.npz --round 3 --client hospital-2
    """
    from sortition.studies.audit.why import why as reasons

    for line in reasons(source, round_, client, names):
        typer.echo(line)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(audit)
    app.command()(why)

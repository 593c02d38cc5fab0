"""``sortition audit`` and ``sortition why``: is a run what it says, and why was somebody chosen?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from sortition.cli.run import Allow, allowing, console
from sortition.core.errors import InputError

if TYPE_CHECKING:
    from sortition.studies.audit.finding import Finding

Folders = Annotated[
    list[Path],
    typer.Argument(help="run folders, folders that hold some, or audit logs of federations", show_default=False),
]


def audit(
    folders: Folders,
    replay: Annotated[bool, typer.Option("--replay", help="play runs again, and compare all that they tell")] = False,
    allow: Allow = None,
) -> None:
    """Check audit logs: the chain of hashes, the seed that was committed to, the records, and every choice, made again.

    Choices are recomputed from the availability and budget of the configuration and from the answers in the log. With
    --replay (always where a method uses vectors, of which the log has digests) the run is played again: answers,
    completions and every figure of rounds.jsonl are compared, too.

    Exit code 1 if anything differs; 3 if nothing does, but a run is unfinished or not all of it could be checked.

    Example: sortition audit runs/first
    """
    from sortition.results import run_folder
    from sortition.studies.audit import run as audit

    logs = [path for path in folders if path.is_file()]
    runs = run_folder.find(*(path for path in folders if path not in logs))
    if not runs and not logs:
        raise InputError(f"{folders[0]} must be a folder of runs, or an audit log; got neither.")
    table = Table("run", "rounds", "recomputed", "answers", "verdict", box=box.SIMPLE_HEAD)
    looks = [partial(audit.examine, run, replay=replay) for run in runs] + [partial(audit.examine_log, p) for p in logs]
    found: list[Finding] = []
    said: list[str] = []
    for look in looks:
        with allowing(allow):
            one = look()
        name = "/".join(one.run.parts[-3:])
        answers = "played again" if one.replayed else "as logged"
        table.add_row(escape(name), str(one.rounds), str(one.recomputed), answers, one.verdict)
        said += [f"{name}: {text}" for text in (*one.faults, *one.remarks)]
        found.append(one)
    screen = console()
    screen.print(table)
    for line in (*said, *_reach(found)):
        screen.print(line, soft_wrap=True, highlight=False, markup=False)
    if any(one.verdict != "holds" for one in found):
        raise typer.Exit(1 if any(one.faults for one in found) else 3)
    many = "log holds" if len(found) == 1 else "logs hold"
    screen.print(f"{len(found)} {many}: chains, seeds, records and choices agree.", highlight=False)


def _reach(found: list[Finding]) -> list[str]:
    """What was believed, not compared."""
    said = []
    if any(one.recomputed and not one.replayed and not one.federated for one in found):
        said.append(
            "Believed where answers are as logged: what clients answered and reported, who completed, whose updates "
            "were refused, test figures and costs. --replay plays the runs again and compares them."
        )
    if any(one.recomputed and one.federated for one in found):
        said.append(
            "Believed of federations, since only the log tells of it: who was available, the budget, what clients "
            "answered and reported, who completed, whose updates were refused."
        )
    return said


def why(
    run: Annotated[Path, typer.Argument(help="one run's folder, or a federation's audit log", show_default=False)],
    round_: Annotated[int, typer.Option("--round", help="the round, from 0 as in rounds.jsonl")],
    client: Annotated[int | None, typer.Option("--client", help="a client's id [default: the whole cohort]")] = None,
) -> None:
    """Tell in sentences why a client was chosen in a round, or was not: availability, guards, answers, weight, history.

    Example: sortition why runs/first/main/fedgs/seed-0 --round 42 --client 17
    """
    from sortition.results import run_folder
    from sortition.studies.audit import explain

    log = explain.Log(run if run.is_file() else run_folder.Run(run))
    said = explain.cohort(log, round_) if client is None else explain.client(log, round_, client)
    for line in (*log.warnings, *said):
        typer.echo(line)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(audit)
    app.command()(why)

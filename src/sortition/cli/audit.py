"""``sortition audit`` and ``sortition why``: is a run what it says, and why was somebody chosen?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from sortition.cli.run import Allow, allowing, console
from sortition.core.errors import InputError

Folders = Annotated[
    list[Path],
    typer.Argument(help="run folders, folders that hold some, or audit logs of federations", show_default=False),
]


def audit(
    folders: Folders,
    replay: Annotated[bool, typer.Option("--replay", help="compute clients' scalar answers again, too")] = False,
    allow: Allow = None,
) -> None:
    """Check audit logs: the chain of hashes, the seed that was committed to, the records, and every choice, made again.

    Choices are recomputed from the availability and the answers in the log. Vectors stand there as digests: for
    methods that use some the run is played again and its vectors compared with them. Exit code 1 if anything differs.

    Example: sortition audit runs/first
    """
    from sortition.experiments import audit, records

    logs = [path for path in folders if path.is_file()]
    runs = records.find(*(path for path in folders if path not in logs))
    if not runs and not logs:
        raise InputError(f"{folders[0]} must be a folder of runs, or an audit log; got neither.")
    table = Table("run", "rounds", "recomputed", "answers", "verdict", box=box.SIMPLE_HEAD)
    faults, found = [], []
    looks = [partial(audit.examine, run, replay=replay) for run in runs] + [partial(audit.examine_log, p) for p in logs]
    for look in looks:
        with allowing(allow):
            one = look()
        name = "/".join(one.run.parts[-3:])
        verdict = "holds" if not one.faults and one.recounted == one.rounds else "DIFFERS" if one.faults else "partly"
        answers = "played again" if one.replayed else "as logged"
        table.add_row(escape(name), str(one.rounds), str(one.recounted), answers, verdict)
        faults += [f"{name}: {fault}" for fault in one.faults]
        if one.recounted < one.rounds:
            found.append(f"{name}: rounds {one.recounted} to {one.rounds - 1} were not recomputed: {one.left}.")
    screen = console()
    screen.print(table)
    for line in (*faults, *found):
        screen.print(line, soft_wrap=True, highlight=False, markup=False)
    if faults or found:
        raise typer.Exit(1)
    total = len(runs) + len(logs)
    many = "log holds" if total == 1 else "logs hold"
    screen.print(f"{total} {many}: chains, seeds, records and choices agree.", highlight=False)


def why(
    run: Annotated[Path, typer.Argument(help="one run's folder", show_default=False)],
    round_: Annotated[int, typer.Option("--round", help="the round, from 0 as in rounds.jsonl")],
    client: Annotated[int | None, typer.Option("--client", help="a client's id [default: the whole cohort]")] = None,
) -> None:
    """Tell in sentences why a client was chosen in a round, or was not: availability, answers, weight, notes, history.

    Example: sortition why runs/first/main/fedgs/seed-0 --round 42 --client 17
    """
    from sortition.experiments import records, why

    log = why.Log(records.Run(run))
    said = why.cohort(log, round_) if client is None else why.client(log, round_, client)
    for line in said:
        typer.echo(line)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(audit)
    app.command()(why)

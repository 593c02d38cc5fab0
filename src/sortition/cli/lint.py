"""``sortition lint``: whether selections keep promises of privacy; the exit code is for CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sortition.cli.options import Allow, allowing

if TYPE_CHECKING:
    from sortition.privacy import PrivacyFinding, Promises
    from sortition.studies.plan import StudyPlan

Findings = dict[str, "list[PrivacyFinding]"]
HELD = "no promise is broken."


def lint(
    what: Annotated[list[str], typer.Argument(help="a study's TOML file, or methods by name", show_default=False)],
    secure_aggregation: Annotated[
        bool, typer.Option("--secure-aggregation", help="the server sees sums of updates only")
    ] = False,
    dp: Annotated[str | None, typer.Option(help="differential privacy: central or local")] = None,
    amplification: Annotated[
        bool, typer.Option("--amplification", help="the budget is computed with amplification by sampling")
    ] = False,
    clients: Annotated[int | None, typer.Option(min=1, help="how many clients, for methods by name")] = None,
    cohort: Annotated[int | None, typer.Option(min=1, help="how many train in a round")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="how many rounds")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="exit with 1 for notes, too")] = False,
    allow: Allow = None,
) -> None:
    """Say which promises of privacy a selection breaks, with references: the exit code is 1 if it breaks any.

    The promises come from the table `privacy` of a study, or from these options.

    Example: sortition lint hics uniform --secure-aggregation --dp central
    """
    from sortition.privacy import Deployment, Promises

    promised = Promises(secure_aggregation, "none" if dp is None else dp, amplification)  # type: ignore[arg-type]
    with allowing(allow):
        if len(what) == 1 and what[0].endswith(".toml"):
            found = _study(Path(what[0]), promised)
        else:
            found = _methods(what, promised, Deployment(clients, cohort, rounds))
    failed = False
    for label, findings in found.items():
        for text in map(str, findings) if findings else [HELD]:
            typer.echo(f"{label}: {text}")
        failed |= any(finding.unsound or strict for finding in findings)
    raise typer.Exit(1 if failed else 0)


def _methods(names: list[str], promises: Promises, deployment: Any) -> Findings:
    from sortition.cli.methods import default_instance
    from sortition.core.errors import InputError
    from sortition.privacy import Promises, lint
    from sortition.studies.methods import selector_class

    if promises == Promises():
        raise InputError(
            "sortition lint must be given a promise: --secure-aggregation, --dp or a study with [privacy]."
        )
    return {name: lint(default_instance(selector_class(name)), promises, deployment) for name in names}


def _study(path: Path, promises: Promises) -> Findings:
    from sortition.core.errors import InputError
    from sortition.privacy import Promises
    from sortition.reproduction.preset import OURS
    from sortition.studies.plan import plan, read
    from sortition.studies.promises import linted

    made = plan({key: value for key, value in read(path).items() if key not in OURS}, owner=path.name)
    given = None if promises == Promises() else promises
    if given is None and not any(run.privacy for run in made.runs):
        raise InputError(f"{path.name} must have a table [privacy]; got none. Or give --secure-aggregation or --dp.")
    return linted(made, given)


def announce(made: StudyPlan) -> None:
    """Print what is unsound about a study that is about to run, where it promises anything."""
    from sortition.studies.promises import linted

    for label, findings in linted(made).items():
        for finding in findings:
            typer.echo(f"privacy: {label}: {finding}", err=True)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(lint)

"""``sortition lint``: whether selections keep promises of privacy; the exit code is for CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sortition.cli.exit_codes import FAILED
from sortition.cli.shared_options import Allow, allowing_imports

if TYPE_CHECKING:
    from sortition.privacy import Deployment, PrivacyFinding, Promises
    from sortition.studies.plan import StudyPlan

FindingsByLabel = dict[str, "list[PrivacyFinding]"]
NOTHING_BROKEN = "no promise is broken."


def lint(
    what: Annotated[list[str], typer.Argument(help="a study's TOML file, or methods by name", show_default=False)],
    secure_aggregation: Annotated[
        bool, typer.Option("--secure-aggregation", help="promise that the server sees only sums of updates")
    ] = False,
    dp: Annotated[str | None, typer.Option(help="differential privacy: central or local")] = None,
    amplification: Annotated[
        bool, typer.Option("--amplification", help="promise a budget that counts on amplification by sampling")
    ] = False,
    clients: Annotated[int | None, typer.Option(min=1, help="number of clients, for a method that you name")] = None,
    cohort: Annotated[int | None, typer.Option(min=1, help="number of clients that train in a round")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="number of rounds")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="exit with 1 also if there are only notes")] = False,
    allow: Allow = None,
) -> None:
    """Say which promises of privacy a selection breaks, with references; exit with 1 if it breaks any.

    The promises come from the table `privacy` of a study, or from these options.

    Example: sortition lint hics uniform --secure-aggregation --dp central
    """
    from sortition.privacy import Deployment, Promises

    promises = Promises(
        secure_aggregation=secure_aggregation,
        differential_privacy=dp or "none",  # type: ignore[arg-type]
        amplification=amplification,
    )
    with allowing_imports(allow):
        if len(what) == 1 and what[0].endswith(".toml"):
            findings_by_label = _lint_study(Path(what[0]), promises)
        else:
            deployment = Deployment(clients=clients, cohort=cohort, rounds=rounds)
            findings_by_label = _lint_methods(what, promises, deployment)
    failed = False
    for label, findings in findings_by_label.items():
        if not findings:
            typer.echo(f"{label}: {NOTHING_BROKEN}")
        for finding in findings:
            typer.echo(f"{label}: {finding}")
            failed |= finding.unsound or strict
    if failed:
        raise typer.Exit(FAILED)


def _lint_methods(names: list[str], promises: Promises, deployment: Deployment) -> FindingsByLabel:
    """Lint methods with their defaults under the promises of the command line, of which there must be one."""
    from sortition.cli.methods import default_instance
    from sortition.core.errors import InputError
    from sortition.privacy import Promises, lint
    from sortition.studies.method_entries import selector_class

    if promises == Promises():
        raise InputError(
            "sortition lint must be given a promise: --secure-aggregation, --dp or a study with [privacy]."
        )
    return {name: lint(default_instance(selector_class(name)), promises, deployment) for name in names}


def _lint_study(path: Path, promises: Promises) -> FindingsByLabel:
    """Lint the methods of a study under the promises of the command line, or else under those of the study."""
    from sortition.core.errors import InputError
    from sortition.privacy import Promises
    from sortition.reproduction.preset import PRESET_KEYS
    from sortition.studies.plan import plan, read
    from sortition.studies.study_promises import lint_plan

    table = {key: value for key, value in read(path).items() if key not in PRESET_KEYS}
    study_plan = plan(table, subject=path.name)
    if promises != Promises():
        return lint_plan(study_plan, promises)
    if not any(run.privacy for run in study_plan.runs):
        raise InputError(f"{path.name} must have a table [privacy]; got none. Or give --secure-aggregation or --dp.")
    return lint_plan(study_plan)


def print_findings(plan: StudyPlan) -> None:
    """Print what is unsound about a study that is about to run, where it promises anything."""
    from sortition.studies.study_promises import lint_plan

    for label, findings in lint_plan(plan).items():
        for finding in findings:
            typer.echo(f"privacy: {label}: {finding}", err=True)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(lint)

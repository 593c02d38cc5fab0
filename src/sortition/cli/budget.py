"""``sortition budget``: ε and δ of a federation under the way in which a method samples clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sortition.cli.exit_codes import FAILED
from sortition.cli.shared_options import Allow, allowing_imports

if TYPE_CHECKING:
    from sortition.core.selector import AnySelector
    from sortition.privacy import Deployment

Cases = dict[str, "tuple[AnySelector, Deployment]"]


def budget(
    what: Annotated[list[str], typer.Argument(help="a study's TOML file, or methods by name", show_default=False)],
    noise: Annotated[float, typer.Option(help="noise multiplier: its standard deviation over one client's influence")],
    delta: Annotated[float, typer.Option(help="δ, well below one over the number of clients")] = 1e-5,
    clients: Annotated[int | None, typer.Option(min=1, help="number of clients, for a method that you name")] = None,
    cohort: Annotated[
        int | None, typer.Option(min=1, help="number of clients that are chosen in a round, stand-bys included")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="number of rounds")] = None,
    q: Annotated[
        float | None, typer.Option(help="sampling probability of the method poisson", show_default="cohort / clients")
    ] = None,
    accountant: Annotated[str, typer.Option(help="rdp, or pld: tighter and slower")] = "rdp",
    allow: Allow = None,
) -> None:
    """Compute ε of a federation with central noise, amplified by sampling; methods without a bound are refused.

    The numbers are those of the library dp-accounting. The exit code is 1 if a method has no bound.

    Example: sortition budget poisson uniform --clients 1000 --cohort 20 --rounds 500 --noise 1.0
    """
    from sortition.core.errors import InputError
    from sortition.privacy.epsilon import privacy_budget

    with allowing_imports(allow):
        if len(what) == 1 and what[0].endswith(".toml"):
            cases = _cases_of_study(Path(what[0]))
        else:
            cases = _cases_of_methods(what, clients=clients, cohort=cohort, rounds=rounds, q=q)
        refused = False
        for label, (selector, deployment) in cases.items():
            try:
                result = privacy_budget(
                    selector,
                    deployment,
                    noise=noise,
                    delta=delta,
                    accountant=accountant,  # type: ignore[arg-type]  # checked there
                )
            except InputError as error:
                if selector.sampling is not None or len(cases) == 1:
                    raise
                typer.echo(f"{label}: {error}")
                refused = True
                continue
            typer.echo(f"{label}: {result}.")
            for condition in result.conditions:
                typer.echo(f"  if {condition}")
    if refused:
        raise typer.Exit(FAILED)


def _cases_of_methods(
    names: list[str], *, clients: int | None, cohort: int | None, rounds: int | None, q: float | None
) -> Cases:
    """Return each named method, with its defaults, in the deployment that the options describe."""
    from sortition.cli.methods import default_instance
    from sortition.core.errors import bad
    from sortition.privacy import Deployment
    from sortition.selectors import load
    from sortition.studies.method_entries import selector_class

    if q is not None and "poisson" not in names:
        raise bad("--q", "left out where no method is poisson", q)
    deployment = Deployment(clients=clients, cohort=cohort, rounds=rounds)
    cases: Cases = {}
    for name in names:
        if name == "poisson":
            selector = load("poisson", q=q)
        else:
            selector = default_instance(selector_class(name))
        cases[name] = (selector, deployment)
    return cases


def _cases_of_study(path: Path) -> Cases:
    """Return the methods of a study, each in its deployment."""
    from sortition.reproduction.preset import PRESET_KEYS
    from sortition.studies.plan import plan, read
    from sortition.studies.study_promises import deployments

    table = {key: value for key, value in read(path).items() if key not in PRESET_KEYS}
    return deployments(plan(table, subject=path.name))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(budget)

"""``sortition advise`` and ``sortition replay``: which method for this federation, and whom methods would choose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sortition.cli.shared_options import Allow, Quiet, allowing_imports, console, line_printer

Source = Annotated[
    Path,
    typer.Argument(
        help="a profile (.toml), a run's folder, a federation's checkpoint, history or audit log (.jsonl), or label "
        "counts (.csv, .npy)",
        show_default=False,
    ),
]
Cohort = Annotated[int | None, typer.Option(min=1, help="clients a round, if the source does not say")]


def advise(
    source: Source,
    cohort: Cohort = None,
    seconds: Annotated[float, typer.Option(min=1.0, help="about how many seconds to simulate")] = 60.0,
    quiet: Quiet = False,
    allow: Allow = None,
) -> None:
    """Recommend a method: simulate the ones that your limits allow in small federations like yours, and rank them.

    Example: sortition advise profile.toml
    """
    from sortition.advice import simulated_ranking as advisor
    from sortition.advice.read_description import known_federation

    with allowing_imports(allow):
        federation = known_federation(source, cohort=cohort)
        advice = advisor.advise(federation, seconds=seconds, say=line_printer(quiet=quiet))
    if not quiet:
        console().print(advice.table())
        _print_left_out(advice.ruled_out)
    typer.echo(advice.sentence())


def replay(
    source: Source,
    cohort: Cohort = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="number of rounds, if none were recorded")] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of the methods' random draws")] = 0,
    allow: Allow = None,
) -> None:
    """Show whom each method would have chosen in recorded rounds, beside who was chosen; nothing is trained.

    Where the rounds had shadows (`shadow=["oort"]`), a second table says what these did.

    Example: sortition replay run.npz.history.jsonl
    """
    from sortition.advice.read_description import known_federation
    from sortition.advice.replay import replay as replayed
    from sortition.advice.replay import replay_table
    from sortition.advice.shadows import shadow_table

    with allowing_imports(allow):
        recorded = known_federation(source, cohort=cohort)
        replays, reason_by_label = replayed(recorded, rounds, seed)
    console().print(replay_table(replays, recorded, rounds))
    if recorded.shadows:
        console().print(shadow_table(dict(recorded.shadows)))
    _print_left_out(reason_by_label)


def _print_left_out(reason_by_label: dict[str, str]) -> None:
    """Print why methods were left out, one line for each reason."""
    labels_by_reason: dict[str, list[str]] = {}
    for label, reason in reason_by_label.items():
        labels_by_reason.setdefault(reason, []).append(label)
    for reason, labels in labels_by_reason.items():
        typer.echo(f"left out, {reason}: {', '.join(labels)}")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(advise)
    app.command()(replay)

"""``sortition advise`` and ``sortition replay``: which method for this federation, and whom methods would choose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sortition.cli.options import Allow, Quiet, allowing, console

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
    seconds: Annotated[float, typer.Option(min=1.0, help="seconds to simulate, about")] = 60.0,
    quiet: Quiet = False,
    allow: Allow = None,
) -> None:
    """Recommend a method: simulate the ones that your limits allow in small federations like yours, and rank them.

    Example: sortition advise profile.toml
    """
    from sortition.advice import advise as advisor
    from sortition.advice.sources import known_federation

    with allowing(allow):
        described = known_federation(source, cohort=cohort)
        found = advisor.advise(described, seconds=seconds, say=(lambda text: None) if quiet else typer.echo)
    if not quiet:
        console().print(found.table())
        _excluded(found.ruled_out)
    typer.echo(found.sentence())


def replay(
    source: Source,
    cohort: Cohort = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="number of rounds, if none were recorded")] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of the methods' random draws")] = 0,
    allow: Allow = None,
) -> None:
    """Show whom each method would have chosen in recorded rounds, beside who was chosen; nothing is trained.

    Example: sortition replay run.npz.history.jsonl
    """
    from sortition.advice.replay import replay as replayed
    from sortition.advice.replay import replay_table
    from sortition.advice.sources import known_federation

    with allowing(allow):
        recorded = known_federation(source, cohort=cohort)
        found, left = replayed(recorded, rounds, seed)
    console().print(replay_table(found, recorded, rounds))
    _excluded(left)


def _excluded(reasons: dict[str, str]) -> None:
    by: dict[str, list[str]] = {}
    for label, why in reasons.items():
        by.setdefault(why, []).append(label)
    for why, labels in by.items():
        typer.echo(f"left out, {why}: {', '.join(labels)}")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(advise)
    app.command()(replay)

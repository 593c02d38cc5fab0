"""The command line: ``app`` gathers one module per group of commands; ``main`` is what the shell calls.

Commands import what they need when they are called, so that ``--help`` and completion answer at once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sortition.cli import advise, audit, begin, budget, data, leaderboard, lint, methods, report, reproduce, run
from sortition.cli.commands import Commands
from sortition.cli.exit_codes import errors_as_exit_codes

__all__ = ["app", "main"]

app = Commands(
    name="sortition",
    help="Select clients for federated learning: compare methods, choose one, run it. Begin with: sortition demo",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
PANELS = {  # of the help → the modules whose commands it lists
    "Compare methods": (run, begin, report),
    "Choose a method": (methods, advise, leaderboard, reproduce),
    "Keep promises, and show it": (lint, budget, audit),
}
for panel, groups in PANELS.items():
    app.panel = panel
    for group in groups:
        group.register(app)
app.add_typer(data.app, name="data", rich_help_panel="Compare methods")


def _print_version(wanted: bool) -> None:
    """Print the version and exit, where ``--version`` is given."""
    if wanted:
        from sortition import __version__

        typer.echo(f"sortition {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Select clients for federated learning: compare methods, choose one, run it. Begin with: sortition demo"""


def main() -> None:
    """Run the command line; a mistake of the user is one line on stderr and exit code 2."""
    with errors_as_exit_codes():
        app()

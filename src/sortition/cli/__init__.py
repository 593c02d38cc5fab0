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
    help="Client selection for federated learning: methods, simulator, report.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for group in (begin, run, report, reproduce, leaderboard, advise, methods, lint, budget, audit):
    group.register(app)
app.add_typer(data.app, name="data")


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
    """Client selection for federated learning: methods, simulator, report."""


def main() -> None:
    """Run the command line; a mistake of the user is one line on stderr and exit code 2."""
    with errors_as_exit_codes():
        app()

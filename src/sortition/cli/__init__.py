"""The command line: ``app`` gathers one module per group of commands; ``main`` is what the shell calls.

Commands import what they need when they are called, so that ``--help`` and completion answer at once.
"""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from sortition.cli import advise, audit, begin, data, leaderboard, lint, methods, report, reproduce, run
from sortition.cli.commands import Commands

__all__ = ["app", "main"]

app = Commands(
    name="sortition",
    help="Client selection for federated learning: methods, simulator, report.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for group in (begin, run, report, reproduce, leaderboard, advise, methods, lint, audit):
    group.register(app)
app.add_typer(data.app, name="data")


def _print_version(wanted: bool) -> None:
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
    try:
        app()
    except MemoryError as error:
        _leave(f"this needs more memory than there is: {error or 'no more was given'}.", 2)
    except KeyboardInterrupt:
        _leave("stopped.", 130)
    except Exception as error:
        from sortition.core.errors import SortitionError

        if not isinstance(error, SortitionError):
            raise
        _leave(str(error), 2)


def _leave(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"sortition: {message}\n")
    raise SystemExit(code) from None

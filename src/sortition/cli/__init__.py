"""The command line: ``app`` gathers one module per group of commands; ``main`` is what the shell calls."""

from __future__ import annotations

import sys

import typer

from sortition.cli import audit, data, methods, report, reproduce, run
from sortition.core.errors import SortitionError

app = typer.Typer(
    name="sortition",
    help="Client selection for federated learning: methods, simulator, report.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for group in (run, report, reproduce, methods, audit):
    group.register(app)
app.add_typer(data.app, name="data")


@app.callback()
def root() -> None:
    """Client selection for federated learning: methods, simulator, report."""


def main() -> None:
    """Run the command line; a mistake of the user is one line on stderr and exit code 2."""
    try:
        app()
    except SortitionError as error:
        sys.stderr.write(f"sortition: {error}\n")
        raise SystemExit(2) from None
    except MemoryError as error:
        sys.stderr.write(f"sortition: this needs more memory than there is: {error or 'no more was given'}.\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        sys.stderr.write("sortition: stopped.\n")
        raise SystemExit(130) from None

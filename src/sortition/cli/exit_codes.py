"""Exit codes of the command line: what each means, and which error leads to which."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

if TYPE_CHECKING:
    from sortition.studies.runs.runner import Execution

FAILED = 1  # a run failed, an audit found a difference, a promise of privacy is broken
USER_ERROR = 2  # a mistake of the user: one line on stderr says which
INCOMPLETE = 3  # an audit found no difference, but could not check everything
STOPPED = 130  # Ctrl-C


@contextmanager
def errors_as_exit_codes() -> Iterator[None]:
    """Turn a user's mistake, a lack of memory and Ctrl-C into one line on stderr and an exit code."""
    try:
        yield
    except MemoryError as error:
        _leave(f"this needs more memory than there is: {error or 'no more was given'}.", USER_ERROR)
    except KeyboardInterrupt:
        _leave("stopped.", STOPPED)
    except Exception as error:
        from sortition.core.errors import SortitionError

        if not isinstance(error, SortitionError):
            raise
        _leave(str(error), USER_ERROR)


def _leave(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"sortition: {message}\n")
    raise SystemExit(code) from None


def exit_for(execution: Execution, hint: str) -> None:
    """Print which runs failed or were stopped, and exit with the code that says so; ``hint`` says how to go on."""
    for folder, reason in execution.failed.items():
        last_line = reason.strip().splitlines()[-1]
        log = Path(folder) / "failure.log"
        message = f"failed: {folder}: {last_line}"
        if log.exists():
            message += f" (log: {log})"
        typer.echo(message, err=True)
    if execution.interrupted:
        typer.echo(f"stopped; {hint}", err=True)
        raise typer.Exit(STOPPED)
    if execution.failed:
        raise typer.Exit(FAILED)

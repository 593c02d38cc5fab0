"""What several commands share: their options, the console, and which modules a file may import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

Set = Annotated[
    list[str] | None, typer.Option("--set", help="override a key, such as cohort=5 or method.fedgs.alpha=1")
]
Jobs = Annotated[
    int | None,
    typer.Option("-j", "--jobs", min=1, help="number of runs to play at the same time", show_default="all cores"),
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        help="run on a Ray cluster: ray (on this machine) or ray://host:port",
        show_default="no cluster, this machine",
    ),
]
Allow = Annotated[
    list[str] | None, typer.Option(help="allow the file to import this module of yours, such as mypkg.mymodule")
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="show no progress and no table")]
PACKAGE_MODULES = (
    "sortition.reproduction.figures",
    "sortition.reproduction.theory",
    "sortition.selectors",
)  # any file may name what these define


def console(*, stderr: bool = False) -> Console:
    """Return standard output, as wide as its terminal; 80 columns, or COLUMNS, where it is none.

    Texts are printed as they are, since folders and labels may have brackets and colons, which rich would interpret.
    """
    return Console(stderr=stderr, markup=False, emoji=False)


def line_printer(*, quiet: bool) -> Callable[[str], object]:
    """Return what prints lines of progress; nothing is printed where ``quiet`` is set."""
    if quiet:
        return _print_nothing
    return typer.echo


def _print_nothing(line: str) -> None:
    """Leave a line out."""


@contextmanager
def naming_file_in_errors(file: Path) -> Iterator[None]:
    """Let a mistake that is found meanwhile name the study's file."""
    from sortition.core.errors import InputError

    try:
        yield
    except InputError as error:
        if file.name in str(error):
            raise
        raise InputError(f"{file.name}: {error}") from None


@contextmanager
def allowing_imports(modules: list[str] | None) -> Iterator[None]:
    """Let a file that is read meanwhile import these modules, from the current folder too, and no others."""
    from sortition.core import import_policy

    if modules:
        sys.path.insert(0, str(Path.cwd()))
    with import_policy.allow_only(modules or (), own=PACKAGE_MODULES):
        yield

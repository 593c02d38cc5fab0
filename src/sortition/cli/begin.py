"""``sortition init`` and ``sortition models``: a study to begin with, and the models that it can name."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated

import typer

from sortition.cli.prose import strip_markup
from sortition.cli.shared_options import console


def init(
    file: Annotated[Path, typer.Argument(help="the file to write")] = Path("study.toml"),
    force: Annotated[bool, typer.Option("--force", help="overwrite an existing file")] = False,
) -> None:
    """Write a study file with comments, which runs in a minute, for you to change.

    Example: sortition init mine.toml && sortition run mine.toml
    """
    from sortition.core.errors import bad
    from sortition.core.storage.snapshot import write_atomically
    from sortition.studies.plan import TEMPLATE

    if file.exists() and not force:
        raise bad("The file", "a new one, or given with --force", str(file))
    text = TEMPLATE.read_text(encoding="utf-8").replace("study.toml", str(file))  # the command that its head names
    write_atomically(file, text.encode())
    typer.echo(f"written: {file}; run it with: sortition run {file}")


def models() -> None:
    """List the models that a study can name, with their options."""
    from sortition.learning.models import MODELS
    from sortition.results.table import Table

    columns = ["model", "what it is", "options"]
    table = Table("", columns, prose=tuple(columns))
    for name, make in MODELS.items():
        parameters = inspect.signature(make).parameters.values()
        options = [
            f"{parameter.name}={parameter.default}"
            for parameter in parameters
            if parameter.default is not parameter.empty
        ]
        summary = (inspect.getdoc(make) or "").splitlines()[0]
        table.rows.append([name, strip_markup(summary), "\n".join(options)])
    table.notes.append('Any other torch.nn.Module by import path: model = { name = "mypackage.mymodule:Net" }.')
    console().print(table)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(init)
    app.command()(models)

"""Commands whose help is whole: every argument says what it is, under every version of Typer and Click."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand
from typer.models import ArgumentInfo

Function = TypeVar("Function", bound=Callable[..., Any])


class ExplainedCommand(TyperCommand):
    """A command whose arguments keep their help: Click 8.5 clears what Typer before 0.26 has set."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.callback is None:
            return
        hints = get_type_hints(inspect.unwrap(self.callback), include_extras=True)
        for parameter in self.params:
            for info in getattr(hints.get(parameter.name or ""), "__metadata__", ()):
                if isinstance(info, ArgumentInfo):
                    vars(parameter)["help"] = info.help


class Commands(typer.Typer):
    """A group of such commands.

    Attributes:
        panel: where the help lists the commands that are registered next; None for no panel of their own.
    """

    panel: str | None = None

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = ExplainedCommand, **options: Any
    ) -> Callable[[Function], Function]:
        """Register a function as a command."""
        return super().command(name, cls=cls, rich_help_panel=self.panel, **options)

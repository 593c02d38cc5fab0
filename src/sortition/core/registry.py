"""Families of named rules (partitions, availability modes): one file, one rule, found by its file's name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from sortition.core.errors import unknown
from sortition.core.validation import translated


class Rule(BaseModel):
    """Typed, validated, frozen parameters; a table of a TOML file maps to them one to one."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


R = TypeVar("R", bound=Rule)


class Family(Generic[R]):
    """The rules in the files of one package; outside, names have hyphens, and underscores are accepted."""

    def __init__(self, package: str, what: str, base: type[R], aliases: Mapping[str, str] | None = None) -> None:
        self.package, self.what, self.base, self.aliases = package, what, base, dict(aliases or {})

    def discover(self) -> list[str]:
        """The names, sorted; nothing is imported but the package."""
        path = importlib.import_module(self.package).__path__
        return sorted(
            item.name.replace("_", "-") for item in pkgutil.iter_modules(path) if not item.name.startswith("_")
        )

    def find(self, name: str) -> type[R]:
        """The rule's class by its name or alias."""
        plain = self.aliases.get(str(name).upper(), str(name)).replace("_", "-")
        if plain not in (names := self.discover()):
            raise unknown(self.what, str(name), [*names, *self.aliases])
        module = importlib.import_module(f"{self.package}.{plain.replace('-', '_')}")
        return next(
            rule
            for rule in vars(module).values()
            if isinstance(rule, type) and issubclass(rule, self.base) and rule.__module__ == module.__name__
        )

    def make(self, name: str, parameters: Mapping[str, Any]) -> R:
        """A rule with these parameters, or an error that says what is wrong with them."""
        rule = self.find(name)
        try:
            return rule(**parameters)
        except ValidationError as error:
            raise translated(error, f"{self.what} {name}", rule.model_fields) from None

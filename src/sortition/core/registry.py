"""Families of named rules (partitions, availability modes): one file, one rule, found by its file's name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from sortition.core.errors import unknown
from sortition.core.validation import translate_error


class Rule(BaseModel):
    """Typed, validated, frozen parameters; a table of a TOML file maps to them one to one."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


R = TypeVar("R", bound=Rule)


class Family(Generic[R]):
    """The rules in the files of one package.

    Outside, names have hyphens; underscores are accepted.

    Args:
        package: the package whose files are searched.
        what: what a rule is called in messages, such as ``partition``.
        base: the class that all rules derive from.
        aliases: short names of rules in capital letters, such as those that papers use.
    """

    def __init__(self, package: str, what: str, base: type[R], aliases: Mapping[str, str] | None = None) -> None:
        self.package = package
        self.what = what
        self.base = base
        self.aliases = dict(aliases or {})

    def discover(self) -> list[str]:
        """List the names, sorted; nothing is imported but the package."""
        path = importlib.import_module(self.package).__path__
        return sorted(
            item.name.replace("_", "-") for item in pkgutil.iter_modules(path) if not item.name.startswith("_")
        )

    def find(self, name: str) -> type[R]:
        """Return the class of a rule by its name or alias."""
        full_name = self.aliases.get(str(name).upper(), str(name)).replace("_", "-")
        names = self.discover()
        if full_name not in names:
            raise unknown(self.what, str(name), [*names, *self.aliases])
        module = importlib.import_module(f"{self.package}.{full_name.replace('-', '_')}")
        return next(
            rule
            for rule in vars(module).values()
            if isinstance(rule, type) and issubclass(rule, self.base) and rule.__module__ == module.__name__
        )

    def make(self, name: str, parameters: Mapping[str, Any]) -> R:
        """Make a rule with these parameters, or raise an error that says what is wrong with them."""
        rule = self.find(name)
        try:
            return rule(**parameters)
        except ValidationError as error:
            raise translate_error(error, f"{self.what} {name}", rule.model_fields) from None

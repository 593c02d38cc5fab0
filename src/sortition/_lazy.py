"""Names that a package offers and imports only when they are first used (PEP 562): importing it stays quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def exports(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose public names are defined in the modules ``homes`` (name → module).

    Where a home ends with the name, the module itself is meant.
    """

    def attribute(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        module = import_module(home)
        if home.endswith(f".{name}"):
            return module
        return getattr(module, name)

    return attribute

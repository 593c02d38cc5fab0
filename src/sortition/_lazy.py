"""Names that a package offers and imports only when they are first used (PEP 562): importing it stays quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def exports(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package whose public names are defined in the modules ``homes`` (name → module).

    A home that ends with the name is meant itself.
    """

    def attribute(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(homes[name])
        return module if homes[name].endswith(f".{name}") else getattr(module, name)

    return attribute

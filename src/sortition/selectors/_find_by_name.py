"""From a method's name to its class: names, aliases, variants and the methods of other packages.

Outside, names have hyphens (``power-of-choice``); files have underscores, and both are accepted. Nothing is imported
before it is found.
"""

from __future__ import annotations

import importlib
import inspect
import json
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from sortition.core.errors import InputError, bad, unknown
from sortition.core.selector import Selector

PACKAGE = "sortition.selectors"
GROUP = PACKAGE  # of entry points
ALIASES = {"auto": "microcosm"}  # the method that fits most federations, in the variant that facts and limits allow

VARIANTS: dict[str, dict[str, str | bool]] = {
    "microcosm-estimate": {"name": "microcosm", "by": "labels", "estimate": True},
    "microcosm-updates": {"name": "microcosm", "by": "updates"},
    "microcosm-bias": {"name": "microcosm", "by": "bias"},
    "microcosm-sizes": {"name": "microcosm", "by": "sizes"},
    "uniform-fedau": {"name": "uniform", "reweight": "fedau"},
}  # what the leaderboard calls an entry of its study that is more than a name


def _our_names() -> list[str]:
    folder = Path(__file__).parent
    files = folder.glob("[!_]*.py")
    packages = (file.parent for file in folder.glob("[!_]*/__init__.py"))
    return sorted(path.stem.replace("_", "-") for path in [*files, *packages])


def _entry_points() -> dict[str, EntryPoint]:
    return {point.name.replace("_", "-"): point for point in entry_points(group=GROUP)}


def discover() -> list[str]:
    """List the names of all methods: ours first, then those of other packages."""
    our_names = _our_names()
    return our_names + sorted(set(_entry_points()) - set(our_names))


def variant_entry(label: str) -> str:
    """Write a variant as a study's file does: ``{ name = "microcosm", by = "sizes" }``."""
    settings = ", ".join(f"{key} = {json.dumps(value)}" for key, value in VARIANTS[label].items())
    return f"{{ {settings} }}"


def find(name: str) -> type[Selector[Any]]:
    """Return the class of a method by its name or alias."""
    if not isinstance(name, str):
        raise bad("name", "the name of a method", name, "sortition.selectors.discover() lists them.")
    hyphenated = name.replace("_", "-")
    method_name = ALIASES.get(hyphenated, hyphenated)
    if method_name in _our_names():
        return _class_in(f"{PACKAGE}.{method_name.replace('-', '_')}")
    points = _entry_points()
    if method_name in points:
        return _class_of(method_name, points[method_name])
    if method_name in VARIANTS:
        raise InputError(f"Unknown method {name!r}; on the leaderboard it stands for {variant_entry(method_name)}.")
    raise unknown("method", name, [*discover(), *ALIASES])


def _class_in(module_name: str) -> type[Selector[Any]]:
    """Import a module of ours and return the one Selector class that it defines."""
    module = importlib.import_module(module_name)
    classes = [
        item
        for item in vars(module).values()
        if inspect.isclass(item) and issubclass(item, Selector) and item.__module__ == module_name
    ]
    if len(classes) != 1:
        raise InputError(f"{module_name} must define one Selector class; got {len(classes)}.")
    return classes[0]


def _class_of(method_name: str, point: EntryPoint) -> type[Selector[Any]]:
    """Load an entry point of another package and check that it is a Selector class."""
    cls = point.load()
    if not (inspect.isclass(cls) and issubclass(cls, Selector)):
        raise InputError(f"Entry point {method_name!r} must be a Selector class; got {cls!r}.")
    return cls


def load(name: str, **parameters: Any) -> Selector[Any]:
    """Make a method by its name, with its parameters: ``load("power-of-choice", d=20)``."""
    return find(name).load(**parameters)

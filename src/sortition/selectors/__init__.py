"""The methods: one paper, one file, one class. ``discover()`` lists them by file name; ``load(name)`` makes one.

Outside, names have hyphens (``power-of-choice``); files have underscores, and both are accepted. Other packages add
methods by the entry point group ``sortition.selectors``. Nothing is imported before it is loaded.
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

__all__ = ["GROUP", "discover", "find", "load"]

GROUP = "sortition.selectors"
ALIASES = {"auto": "microcosm"}  # the method that fits most federations, in the variant that facts and limits allow

VARIANTS: dict[str, dict[str, Any]] = {
    "microcosm-estimate": {"name": "microcosm", "by": "labels", "estimate": True},
    "microcosm-updates": {"name": "microcosm", "by": "updates"},
    "microcosm-bias": {"name": "microcosm", "by": "bias"},
    "microcosm-sizes": {"name": "microcosm", "by": "sizes"},
    "uniform-fedau": {"name": "uniform", "reweight": "fedau"},
}  # what the leaderboard calls an entry of its study that is more than a name


def _ours() -> list[str]:
    folder = Path(__file__).parent
    modules = [*folder.glob("[!_]*.py"), *(package.parent for package in folder.glob("[!_]*/__init__.py"))]
    return sorted(module.stem.replace("_", "-") for module in modules)


def _theirs() -> dict[str, EntryPoint]:
    return {point.name.replace("_", "-"): point for point in entry_points(group=GROUP)}


def discover() -> list[str]:
    """The names of all methods, ours first."""
    ours = _ours()
    return ours + sorted(set(_theirs()) - set(ours))


def variant_entry(label: str) -> str:
    """A variant as a study's file writes it: ``{ name = "microcosm", by = "sizes" }``."""
    return f"{{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in VARIANTS[label].items())} }}"


def find(name: str) -> type[Selector[Any]]:
    """The class of a method."""
    if not isinstance(name, str):
        raise bad("name", "the name of a method", name, "sortition.selectors.discover() lists them.")
    wanted = name.replace("_", "-")
    wanted = ALIASES.get(wanted, wanted)
    if wanted in _ours():
        module = importlib.import_module(f"{__name__}.{wanted.replace('-', '_')}")
        found = [
            item
            for item in vars(module).values()
            if inspect.isclass(item) and issubclass(item, Selector) and item.__module__ == module.__name__
        ]
        if len(found) != 1:
            raise InputError(f"{module.__name__} must be a file with one Selector class; got {len(found)}.")
        return found[0]
    theirs = _theirs()
    if wanted not in theirs and wanted in VARIANTS:
        raise InputError(f"Unknown method {name!r}; on the leaderboard it stands for {variant_entry(wanted)}.")
    if wanted not in theirs:
        raise unknown("method", name, [*discover(), *ALIASES])
    made = theirs[wanted].load()
    if not (inspect.isclass(made) and issubclass(made, Selector)):
        raise InputError(f"Entry point {wanted!r} must be a Selector class; got {made!r}.")
    return made


def load(name: str, **parameters: Any) -> Selector[Any]:
    """A method by name, with its parameters: ``load("power-of-choice", d=20)``."""
    return find(name).load(**parameters)

"""A user's own code that a study names by import path, such as ``mine:Method``: whether it is the code of before.

Objects that Python gave to a study have a digest of their own, see :mod:`sortition.studies.given`. Of a name in a file
the digest is that of the source file that the name leads to, and of those that define it and its base classes.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sortition.core.import_policy import imported
from sortition.data.load import IMPORT_PATH
from sortition.studies import given

OTHERS = {"sortition", "torch", "numpy", *sys.stdlib_module_names}  # manifests have their versions


def fingerprints(table: Mapping[str, Any]) -> dict[str, str]:
    """The SHA-256 of all code that a run's table names and that is not Sortition's, by dotted key."""
    return given.fingerprints(table) | {key: digest(key, path) for key, path in import_paths(table).items()}


def changed(manifest: Mapping[str, Any], table: Mapping[str, Any]) -> list[str]:
    """The keys whose code is not the one that a run's manifest recorded."""
    before, now = manifest.get("python", {}), fingerprints(table)
    return [key for key in now if key in before and before[key] != now[key]]


def import_paths(table: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """The import paths of a run's table that lead out of Sortition, by dotted key."""
    found: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= import_paths(value, f"{prefix}{key}.")
        elif key == "name" and isinstance(value, str) and IMPORT_PATH.fullmatch(value):
            found |= {} if value.startswith("sortition.") or Path(value).exists() else {f"{prefix}{key}": value}
    return found


def digest(key: str, path: str) -> str:
    """The SHA-256 of the source files behind an import path."""
    found, total = imported(path, key), hashlib.sha256()
    bases = inspect.getmro(found) if inspect.isclass(found) else (found,)
    modules = {path.partition(":")[0], *(str(getattr(one, "__module__", "")) for one in bases)}
    for name in sorted(name for name in modules if name.partition(".")[0] not in OTHERS):
        with suppress(OSError, TypeError):  # code without a file, such as that of a prompt
            total.update(Path(inspect.getsourcefile(sys.modules[name]) or "").read_bytes())
    return total.hexdigest()

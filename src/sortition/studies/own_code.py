"""A user's own code that a study names by import path, such as ``mine:Method``: whether it changed since a run began.

Objects that Python gave to a study have a digest of their own, see :mod:`sortition.studies.python_objects`. Of a name
in a file the digest is that of the source file that the name leads to, and of those that define it and its base
classes.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sortition.core.import_policy import import_named
from sortition.data.load import IMPORT_PATH
from sortition.studies import python_objects
from sortition.studies.types import ReadOnlyTable

NAMING_KEYS = ("name", "loss", "metric")  # whose values may be import paths
NOT_USER_CODE = {"sortition", "torch", "numpy", *sys.stdlib_module_names}  # manifests have their versions


def fingerprints(table: ReadOnlyTable) -> dict[str, str]:
    """Return the SHA-256 of all code that a run's table names and that is not Sortition's, by dotted key."""
    digests = python_objects.fingerprints(table)
    for setting, import_path in import_paths(table).items():
        digests[setting] = source_digest(setting, import_path)
    return digests


def changed_keys(manifest: ReadOnlyTable, table: ReadOnlyTable) -> list[str]:
    """Return the keys whose code is not the one that a run's manifest recorded."""
    recorded = manifest.get("python", {})
    return [key for key, digest in fingerprints(table).items() if recorded.get(key, digest) != digest]


def import_paths(table: ReadOnlyTable, prefix: str = "") -> dict[str, str]:
    """Return the import paths of a run's table that lead out of Sortition, by dotted key."""
    paths: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            paths |= import_paths(value, f"{prefix}{key}.")
        elif key in NAMING_KEYS and isinstance(value, str) and _leads_out(value):
            paths[f"{prefix}{key}"] = value
    return paths


def _leads_out(name: str) -> bool:
    """Tell whether a name is an import path of code that is not Sortition's."""
    return bool(IMPORT_PATH.fullmatch(name)) and not name.startswith("sortition.") and not Path(name).exists()


def source_digest(setting: str, import_path: str) -> str:
    """Return the SHA-256 of the source files behind the import path that a setting names."""
    value = import_named(import_path, setting)
    if inspect.isclass(value):
        definitions = inspect.getmro(value)
    else:
        definitions = (value,)
    module_names = {import_path.partition(":")[0]}
    module_names |= {name for name in map(_module_name, definitions) if name in sys.modules}
    sha256 = hashlib.sha256()
    for module_name in sorted(module_names):
        if module_name.partition(".")[0] in NOT_USER_CODE:
            continue
        with suppress(OSError, TypeError):  # code typed at a Python prompt has no source file
            sha256.update(Path(inspect.getsourcefile(sys.modules[module_name]) or "").read_bytes())
    return sha256.hexdigest()


def _module_name(definition: object) -> str:
    """Return the name of the module that defines an object; empty for built-in functions, which do not say it."""
    return str(getattr(definition, "__module__", None) or "")

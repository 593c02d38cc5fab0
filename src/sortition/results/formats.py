"""The format of run folders: newer ones are refused, older ones read as today's, one step per version.

1. Until 0.1: no ``format`` and no ``audit`` in the manifest.
2. ``format``; ``audit`` holds seed and salt where the run keeps an audit log, and is absent where it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sortition.core.errors import StorageError

MANIFEST = 2
Document = dict[str, Any]

STEPS: dict[int, Callable[[Document], Document]] = {
    1: lambda manifest: {"format": 2, **manifest},
}


def migrated(manifest: Document, path: Path) -> Document:
    """A manifest as this version writes it; empty where there is none."""
    if not manifest:
        return manifest
    found = manifest.get("format", 1)
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise StorageError(f"{path} has format {found!r}; it must be a whole number ≥ 1.")
    if found > MANIFEST:
        raise StorageError(f"{path} has format {found}; this version reads up to {MANIFEST}. Update Sortition.")
    for step in range(found, MANIFEST):
        manifest = STEPS[step](manifest)
    return manifest

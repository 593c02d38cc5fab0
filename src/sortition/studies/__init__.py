"""Studies: one TOML file, many runs, published tables."""

from __future__ import annotations

from typing import Any

__all__ = ["study"]


def __getattr__(name: str) -> Any:
    """``study``, imported when first used: reading records needs no training engine."""
    if name == "study":
        from sortition.studies.compare import study

        return study
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""What guards remember of clients, read back from a snapshot."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sortition.core.arrays import Array


def fill_columns(columns: Mapping[str, Array], arrays: Mapping[str, Array]) -> None:
    """Write a snapshot's numbers ≥ 0 into these columns (N,), which may be longer: clients joined since."""
    for name, column in columns.items():
        stored = arrays[name]
        if stored.shape != (stored.size,) or stored.size > column.size or stored.dtype.kind != column.dtype.kind:
            raise ValueError(f"{name} of shape {stored.shape} and type {stored.dtype}")
        if not (np.isfinite(stored).all() and (stored >= 0).all()):
            raise ValueError(f"{name} with numbers that are not ≥ 0")
        column[: stored.size] = stored

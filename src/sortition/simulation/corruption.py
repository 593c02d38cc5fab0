"""Numbers as a broken client sends them: NaN, infinity, the wrong shape, an absurd size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sortition.core.arrays import Array
from sortition.core.guards.screening import Answers
from sortition.core.questions import Reading

if TYPE_CHECKING:
    from sortition.learning.vector import Vector

DAMAGES = ("nan", "infinity", "shape", "norm")
HUGE = 1e20  # beyond any bound, and still a float32


def damaged(reading: Reading, kinds: Array) -> Answers:
    """The rows with their damage; as a mapping where shapes differ, as a server gets them."""
    if not (kinds >= 0).any():
        return reading
    rows = {
        client: _row(row, kind) for client, row, kind in zip(reading.ids.tolist(), reading.values, kinds, strict=True)
    }
    if (kinds == DAMAGES.index("shape")).any():
        return rows
    return Reading(reading.ids, np.stack(list(rows.values())))


def damaged_updates(deltas: Vector, kinds: Array) -> Vector | list[Vector]:
    """The updates with their damage; a list of rows where shapes differ."""
    if not (kinds >= 0).any():
        return deltas
    rows = [np.asarray(_row(row, kind), np.float32) for row, kind in zip(deltas, kinds, strict=True)]
    return rows if (kinds == DAMAGES.index("shape")).any() else np.stack(rows)


def _row(row: Array, kind: int) -> Array:
    if kind < 0:
        return np.asarray(row)
    if DAMAGES[kind] == "shape":
        return np.append(row, 0.0)
    if DAMAGES[kind] == "norm":
        return np.asarray(row) * HUGE + HUGE
    return np.full(np.shape(row), np.nan if DAMAGES[kind] == "nan" else np.inf)

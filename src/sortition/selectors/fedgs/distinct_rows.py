"""Clients of one kind: those whose feature rows are equal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.streams import stream

SORTED_UP_TO = 2_000  # rows; more are hashed, since sorting is slow
DECIMALS = 9  # rows that agree to so many decimals are equal


@dataclass(frozen=True)
class Kinds:
    """The kind of each row (n,), and the first row of each kind (C,)."""

    of_row: Ids
    first_row: Ids

    @property
    def members(self) -> Ids:
        """How many rows are of each kind (C,)."""
        return np.bincount(self.of_row)


def group_equal_rows(rows: Floats) -> Kinds:
    """Group equal rows into kinds."""
    decimals = np.round(rows, DECIMALS) + 0.0  # −0 becomes 0
    if len(rows) <= SORTED_UP_TO:
        return _group_by_sorting(decimals)
    _, first_row, of_row = np.unique(_hashes(decimals), return_index=True, return_inverse=True)
    if not np.array_equal(decimals[first_row][of_row], decimals):  # two different rows share a hash
        return _group_by_sorting(decimals)
    return Kinds(of_row.reshape(-1), first_row)


def _group_by_sorting(rows: Floats) -> Kinds:
    _, first_row, of_row = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return Kinds(of_row.reshape(-1), first_row)


def _hashes(rows: Floats) -> Array:
    """Return one number a row, which is the same for equal rows."""
    n, width = rows.shape
    words: Array = np.ascontiguousarray(rows).view(np.uint64)
    odd: Array = np.asarray(2 * stream(0, "row hash", width).integers(2**62, size=width) + 1, np.uint64)
    hashes: Array = np.zeros(n, np.uint64)
    for column in range(width):
        mixed = words[:, column] * odd[column]
        hashes += mixed ^ (mixed >> np.uint64(29))
    return hashes

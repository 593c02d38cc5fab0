"""Clients of one kind: those whose feature rows are equal."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.streams import stream

FEW = 2_000  # rows that are sorted rather than hashed
DECIMALS = 9  # rows that agree to so many decimals are equal


def row_kinds(rows: Floats, most: int) -> tuple[Ids, Ids] | None:
    """Which kind each row is of (n,), and the first row (C,) of each kind; None if there are more than ``most``."""
    first, of = distinct_rows(rows)
    return (of, first) if first.size <= most else None


def distinct_rows(rows: Floats) -> tuple[Ids, Ids]:
    """The first of each group of equal rows, and each row's group; of many rows by hashing, since sorting is slow."""
    n, width = rows.shape
    whole = np.round(rows, DECIMALS) + 0.0  # −0 becomes 0
    if n <= FEW:
        _, first, of = np.unique(whole, axis=0, return_index=True, return_inverse=True)
        return first, of.reshape(-1)
    words: Array = np.ascontiguousarray(whole).view(np.uint64)
    odd: Array = np.asarray(2 * stream(0, "row hash", width).integers(2**62, size=width) + 1, np.uint64)
    key: Array = np.zeros(n, np.uint64)
    for column in range(width):
        mixed = words[:, column] * odd[column]
        key += mixed ^ (mixed >> np.uint64(29))
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    if not np.array_equal(whole[first][of], whole):  # two different rows share a key
        _, first, of = np.unique(whole, axis=0, return_index=True, return_inverse=True)
    return first, of.reshape(-1)

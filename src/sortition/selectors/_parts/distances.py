"""Euclidean distances between rows of numbers, by one matrix product."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats


def between(a: Array, b: Array) -> Floats:
    """‖a_i − b_j‖, shape (len(a), len(b)).

    Distances do not change when both sides are shifted by the same vector; shifting by the mean keeps the product
    ‖a‖² + ‖b‖² − 2ab from losing digits where the rows lie close together.
    """
    middle = b.mean(axis=0, dtype=np.float64) if len(b) else 0.0
    left, right = a - middle, b - middle
    squared = -2.0 * (left @ right.T)
    squared += np.einsum("ij,ij->i", left, left)[:, None]
    squared += np.einsum("ij,ij->i", right, right)
    return np.asarray(np.sqrt(np.maximum(squared, 0.0, out=squared), out=squared))


def pairwise(rows: Array) -> Floats:
    """d_ij = ‖g_i − g_j‖ (LongFed eq. 4), symmetric with an exact zero diagonal, shape (n, n)."""
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    gram = centred @ centred.T
    squares = np.diagonal(gram)
    squared = squares[:, None] + squares
    squared -= 2.0 * gram
    return np.asarray(np.sqrt(np.maximum(squared, 0.0, out=squared), out=squared))


def grown(table: Floats | None, n: int, fill: float) -> Floats:
    """An (n, n) table that holds what the smaller one held; the same one if it is large enough."""
    before = 0 if table is None else len(table)
    if table is not None and before >= n:
        return table
    larger = np.full((n, n), fill)
    if table is not None:
        larger[:before, :before] = table
    return larger

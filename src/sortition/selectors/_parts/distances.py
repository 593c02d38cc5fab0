"""Euclidean distances between rows of numbers, by one matrix product."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats

EQUAL = 1e-13  # of the squared lengths of two rows: a squared distance below it is a rounding error


def between(a: Array, b: Array) -> Floats:
    """‖a_i − b_j‖, shape (len(a), len(b)).

    Distances do not change when both sides are shifted by the same vector; shifting by the mean keeps the product
    ‖a‖² + ‖b‖² − 2ab from losing digits where the rows lie close together.
    """
    middle = b.mean(axis=0, dtype=np.float64) if len(b) else 0.0
    left, right = a - middle, b - middle
    squared = -2.0 * (left @ right.T)
    size = np.einsum("ij,ij->i", left, left)[:, None] + np.einsum("ij,ij->i", right, right)
    return _roots(squared, size)


def pairwise(rows: Array) -> Floats:
    """d_ij = ‖g_i − g_j‖ (LongFed eq. 4), symmetric with an exact zero diagonal, shape (n, n)."""
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    gram = centred @ centred.T
    squares = np.diagonal(gram)
    size = squares[:, None] + squares
    return _roots(-2.0 * gram, size)


def _roots(products: Floats, size: Floats) -> Floats:
    """√(size + products), 0 where only rounding errors are left: rows that are equal are at distance 0 everywhere."""
    products += size
    products[products < EQUAL * size] = 0.0
    return np.asarray(np.sqrt(products, out=products))


def grown(table: Floats | None, n: int, fill: float) -> Floats:
    """An (n, n) table that holds what the smaller one held; the same one if it is large enough."""
    before = 0 if table is None else len(table)
    if table is not None and before >= n:
        return table
    larger = np.full((n, n), fill)
    if table is not None:
        larger[:before, :before] = table
    return larger

"""Euclidean distances between rows of numbers, by one matrix product."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats

EQUAL = 1e-13  # of the squared lengths of two rows: a squared distance below it is a rounding error


def between(a: Array, b: Array) -> Floats:
    """Return ‖a_i − b_j‖, shape (len(a), len(b)).

    Distances do not change when both sides are shifted by the same vector; shifting by the mean keeps the product
    ‖a‖² + ‖b‖² − 2ab from losing digits where the rows lie close together.
    """
    middle = b.mean(axis=0, dtype=np.float64) if len(b) else 0.0
    left = a - middle
    right = b - middle
    products = -2.0 * (left @ right.T)
    sizes = np.einsum("ij,ij->i", left, left)[:, None] + np.einsum("ij,ij->i", right, right)
    return _roots(products, sizes)


def pairwise(rows: Array) -> Floats:
    """Return d_ij = ‖g_i − g_j‖ (LongFed eq. 4), symmetric with an exact zero diagonal, shape (n, n)."""
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    gram = centred @ centred.T
    squares = np.diagonal(gram)
    sizes = squares[:, None] + squares
    return _roots(-2.0 * gram, sizes)


def _roots(products: Floats, sizes: Floats) -> Floats:
    """Return √(sizes + products), 0 where only rounding errors remain: equal rows are at distance 0 everywhere."""
    products += sizes
    products[products < EQUAL * sizes] = 0.0
    return np.asarray(np.sqrt(products, out=products))


def grown(table: Floats | None, n: int, fill: float) -> Floats:
    """Return an (n, n) table that holds what the smaller one held; the same one if it is large enough."""
    if table is None:
        return np.full((n, n), fill)
    size = len(table)
    if size >= n:
        return table
    larger = np.full((n, n), fill)
    larger[:size, :size] = table
    return larger

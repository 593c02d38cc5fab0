"""Euclidean distances between rows of numbers, by one matrix product."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats

ROUNDING_OF_SQUARES = 1e-13  # of the squared norms of two rows: a squared distance below it is a rounding error


def squared_lengths(rows: Array) -> Floats:
    """Return ‖row‖² of each row (n, d), summed in double precision, shape (n,)."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


def distances_between(a: Array, b: Array) -> Floats:
    """Return ‖a_i − b_j‖, shape (len(a), len(b)).

    Both sides are shifted by the mean of b first: the sum ‖a‖² + ‖b‖² − 2ab then loses fewer digits.
    """
    middle = b.mean(axis=0, dtype=np.float64) if len(b) else 0.0
    shifted_a = a - middle
    shifted_b = b - middle
    cross_terms = -2.0 * (shifted_a @ shifted_b.T)
    squared_norms = squared_lengths(shifted_a)[:, None] + squared_lengths(shifted_b)
    return _root_distances(cross_terms, squared_norms)


def pairwise_distances(rows: Array) -> Floats:
    """Return d_ij = ‖g_i − g_j‖ (LongFed eq. 4), symmetric with an exact zero diagonal, shape (n, n)."""
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    gram = centred @ centred.T
    squares = np.diagonal(gram)
    squared_norms = squares[:, None] + squares
    return _root_distances(-2.0 * gram, squared_norms)


def _root_distances(cross_terms: Floats, squared_norms: Floats) -> Floats:
    """Return √(‖a‖² + ‖b‖² − 2ab), and 0 where only rounding errors remain: equal rows are at distance 0 everywhere.

    ``squared_norms`` holds ‖a‖² + ‖b‖², and ``cross_terms`` −2ab; the result takes the memory of ``cross_terms``.
    """
    squared_distances = cross_terms
    squared_distances += squared_norms
    squared_distances[squared_distances < ROUNDING_OF_SQUARES * squared_norms] = 0.0
    return np.asarray(np.sqrt(squared_distances, out=squared_distances))


def enlarge_table(table: Floats | None, n: int, fill: float) -> Floats:
    """Return an (n, n) table with the entries of a smaller one, ``fill`` elsewhere; itself if it is large enough."""
    if table is None:
        return np.full((n, n), fill)
    size = len(table)
    if size >= n:
        return table
    larger = np.full((n, n), fill)
    larger[:size, :size] = table
    return larger

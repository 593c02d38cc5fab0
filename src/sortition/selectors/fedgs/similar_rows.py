"""The rows that each row is most similar to, by exact inner products; of equally similar ones the lowest positions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.selectors._parts.distances import squared_lengths
from sortition.selectors.fedgs.exact_products import products

TABLE = 2**17  # similarities at a time: they stay in the cache
FEWEST_ROWS = 64  # rows at a time: fewer make a matrix product slow
PIVOTS = 128  # rows among the others that say which of them a row need not be compared with
TOGETHER = 256  # rows with one pivot that are compared with the same others
SLACK = 1e-6  # of the longest row: far more than rounding errors of a distance


def find_most_similar(rows: Array, among: Array, k: int) -> tuple[Ids, Floats]:
    """Return positions (n, k) of the rows' most similar ones ``among`` others, ascending, and the similarities.

    Of equally similar ones the lowest positions are taken: a partition alone would take any, in any order, and paths
    are relaxed in this order.
    """
    positions = np.empty((len(rows), k), np.int64)
    similarity = np.empty((len(rows), k))
    other_rows = among.astype(np.float64)
    size = max(TABLE // len(among), 1)
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        table = products(rows[part], other_rows)
        largest = np.argpartition(_ranking_keys(table), len(among) - k, axis=1)[:, -k:]
        positions[part] = np.sort(largest, axis=1)
        similarity[part] = np.take_along_axis(table, positions[part], axis=1)
    return positions, similarity


def _ranking_keys(table: Floats) -> Floats:
    """Return whole numbers that rank each row's columns by similarity (24 bits of it), then by position (28 bits)."""
    scale = np.abs(table).max(axis=1, keepdims=True)
    keys = np.rint(table * (2.0**24 / np.where(scale > 0, scale, 1.0)))
    keys *= 2.0**28
    keys -= np.arange(table.shape[1])
    return keys


def find_nearest(rows: Array, among: Array) -> tuple[Ids, Floats]:
    """Return the position of each row's most similar one ``among`` others (n,), and the similarity.

    Every other row x gets one more coordinate, √(L² − ‖x‖²), and so the length L of the longest; each row is scaled to
    that length, too. Then the largest product is the smallest distance. A row at distance δ of a pivot has its nearest
    within δ, so within 2δ of the pivot, and need not be compared with the others (Elkan 2003).
    """
    other_rows = among.astype(np.float64)
    squares = squared_lengths(among)
    longest = float(squares.max())  # L²
    if len(among) <= 2 * PIVOTS or longest == 0:
        return _find_largest_product(rows, other_rows)
    pivots = np.arange(PIVOTS) * len(among) // PIVOTS
    added = np.sqrt(longest - squares)  # the added coordinate
    from_pivot = _distances(products(other_rows[pivots], other_rows) + np.outer(added[pivots], added), longest)
    pivot_of, similarity = _find_largest_product(rows, other_rows[pivots])
    scale = np.sqrt(squared_lengths(rows) / longest)
    to_pivot = _distances(similarity / np.where(scale > 0, scale, 1.0), longest)  # δ
    radius = 2 * to_pivot + SLACK * np.sqrt(longest)
    positions = np.empty(len(rows), np.int64)
    for pivot, members in _batches(pivot_of, radius):
        candidates = np.flatnonzero(from_pivot[pivot] <= radius[members].max())
        best, similarity[members] = _find_largest_product(rows[members], other_rows[candidates])
        positions[members] = candidates[best]
    return positions, similarity


def _find_largest_product(rows: Array, other_rows: Floats) -> tuple[Ids, Floats]:
    """Return the position of the other row with which each row has the largest product (n,), and the product.

    Of equal products the first counts. ``other_rows`` are in double precision.
    """
    positions = np.empty(len(rows), np.int64)
    largest = np.empty(len(rows))
    columns = np.ascontiguousarray(other_rows.T)
    size = max(TABLE // len(other_rows), FEWEST_ROWS)
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        table = rows[part].astype(np.float64) @ columns
        best = table.argmax(axis=1)
        positions[part] = best
        largest[part] = table[np.arange(len(best)), best]
    return positions, largest


def _batches(pivot_of: Ids, radius: Floats) -> Iterator[tuple[int, Ids]]:
    """Yield rows with the same pivot and similar radii, some at a time."""
    order = np.argsort(pivot_of + radius / (1.01 * radius.max(initial=0.0)))
    ends = np.cumsum(np.bincount(pivot_of, minlength=PIVOTS))
    for pivot, group in enumerate(np.split(order, ends[:-1])):
        for start in range(0, len(group), TOGETHER):
            yield pivot, group[start : start + TOGETHER]


def _distances(similarity: Floats, longest: float) -> Floats:
    """Return distances of rows whose squared length is ``longest``, from their similarities."""
    return np.asarray(np.sqrt(np.maximum(2 * (longest - similarity), 0.0)))

"""The rows that each row is most similar to, by exact inner products; of equally similar ones the lowest positions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.selectors.fedgs.exact_products import products

TABLE = 2**17  # similarities at a time: they stay in the cache
LEAST = 64  # rows at a time: fewer make a matrix product slow
PIVOTS = 128  # rows among the others that say which of them a row need not be compared with
TOGETHER = 256  # rows with one pivot that are compared with the same others
SLACK = 1e-6  # of the longest row: far more than rounding errors of a distance


def most_similar(rows: Array, among: Array, k: int) -> tuple[Ids, Floats]:
    """(n, k) positions of the rows' most similar ones ``among`` others, ascending, and the similarities.

    Of equally similar ones the lowest positions are taken: a partition alone would take any, in any order, and paths
    are relaxed in this order.
    """
    near, similar = np.empty((len(rows), k), np.int64), np.empty((len(rows), k))
    size, wide = max(TABLE // len(among), 1), among.astype(np.float64)
    for start in range(0, len(rows), size):
        table = products(rows[start : start + size], wide)
        best = np.sort(np.argpartition(_by_position(table), len(among) - k, axis=1)[:, -k:], axis=1)
        near[start : start + size], similar[start : start + size] = best, np.take_along_axis(table, best, axis=1)
    return near, similar


def _by_position(table: Floats) -> Floats:
    """Whole numbers that rank the columns of each row by similarity (24 bits of it), then by position (28 bits)."""
    scale = np.abs(table).max(axis=1, keepdims=True)
    keys = np.rint(table * (2.0**24 / np.where(scale > 0, scale, 1.0)))
    keys *= 2.0**28
    keys -= np.arange(table.shape[1])
    return keys


def nearest(rows: Array, among: Array) -> tuple[Ids, Floats]:
    """(n,) position of each row's most similar one ``among`` others, and the similarity.

    With one more coordinate √(L² − ‖x‖²) all others x have the length L of the longest. A row may be scaled to it, too,
    and then its most similar one is its nearest. A row at distance δ of a pivot has its nearest within δ, so within 2δ
    of the pivot, and need not be compared with the others (Elkan 2003).
    """
    wide, squares = among.astype(np.float64), _squares(among)
    longest = float(squares.max())
    if len(among) <= 2 * PIVOTS or longest == 0:
        return _largest(rows, wide)
    pivots, beside = np.arange(PIVOTS) * len(among) // PIVOTS, np.sqrt(longest - squares)
    apart = _distances(products(wide[pivots], wide) + np.outer(beside[pivots], beside), longest)
    home, similar = _largest(rows, wide[pivots])
    scale = np.sqrt(_squares(rows) / longest)
    radius = 2 * _distances(similar / np.where(scale > 0, scale, 1.0), longest) + SLACK * np.sqrt(longest)
    near = np.empty(len(rows), np.int64)
    for pivot, mine in _alike(home, radius):
        others = np.flatnonzero(apart[pivot] <= radius[mine].max())
        best, similar[mine] = _largest(rows[mine], wide[others])
        near[mine] = others[best]
    return near, similar


def _largest(rows: Array, wide: Floats) -> tuple[Ids, Floats]:
    """(n,) first position of each row's largest product, and the product."""
    best, largest = np.empty(len(rows), np.int64), np.empty(len(rows))
    size, columns = max(TABLE // len(wide), LEAST), np.ascontiguousarray(wide.T)
    for start in range(0, len(rows), size):
        table = rows[start : start + size].astype(np.float64) @ columns
        best[start : start + size] = at = table.argmax(axis=1)
        largest[start : start + size] = table[np.arange(len(at)), at]
    return best, largest


def _alike(home: Ids, radius: Floats) -> Iterator[tuple[int, Ids]]:
    """Rows with the same pivot and similar radii, some at a time."""
    order = np.argsort(home + radius / (1.01 * radius.max(initial=0.0)))
    ends = np.cumsum(np.bincount(home, minlength=PIVOTS))
    for pivot, group in enumerate(np.split(order, ends[:-1])):
        for start in range(0, len(group), TOGETHER):
            yield pivot, group[start : start + TOGETHER]


def _distances(similarity: Floats, longest: float) -> Floats:
    """Of rows whose squared length is ``longest``."""
    return np.asarray(np.sqrt(np.maximum(2 * (longest - similarity), 0.0)))


def _squares(rows: Array) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))

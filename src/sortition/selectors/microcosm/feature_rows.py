"""Features of clients that a server learns bit by bit: a table with a row a client, NaN where nothing is known yet."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats, Ids

LARGEST = 1e6  # of a product of label shares; beyond any true one
RANK = 1e-9  # eigenvalues below this share of the largest are rounding


def row_known(rows: Floats) -> Array:
    """(N,) whether a client's row is known."""
    return ~np.isnan(rows[:, 0]) if rows.shape[1] else np.zeros(len(rows), bool)


def with_rows(table: Floats, ids: Ids, rows: Floats) -> Floats:
    """The table with these clients' rows; the first rows fix its width."""
    if table.shape[1] == 0:
        table = np.full((len(table), rows.shape[1]), np.nan)
    table[ids] = rows
    return table


def embedded(products: Floats, ids: Ids, sizes: Array) -> Floats:
    """Rows (N, d) whose inner products are those of the clients' label shares; NaN of clients without products.

    Products of pairs that never met count as the mean of the others. What clients claim is cut at a million:
    products of shares are at most 1.
    """
    held = np.maximum(np.asarray(sizes, np.float64)[ids], 1.0)
    table = products[np.ix_(ids, ids)] / np.outer(held, held)
    unknown = np.isnan(table)
    table = np.clip(table, -LARGEST, LARGEST)
    table[unknown] = table[~unknown].mean() if not unknown.all() else 0.0
    values, vectors = np.linalg.eigh((table + table.T) / 2)
    large = values > RANK * max(float(values.max(initial=0.0)), RANK)
    rows = np.full((len(products), int(large.sum())), np.nan)
    rows[ids] = vectors[:, large] * np.sqrt(values[large])
    return rows

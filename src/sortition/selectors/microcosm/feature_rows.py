"""Features of clients that a server learns bit by bit: a table with a row a client, NaN where nothing is known yet."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats, Ids, fix_width

LARGEST_PRODUCT = 1e6  # of label shares; beyond any true one
SMALLEST_EIGENVALUE = 1e-9  # of the largest: smaller ones are rounding errors


def has_row(rows: Floats) -> Array:
    """Return whether each client's row is known (N,)."""
    if rows.shape[1] == 0:
        return np.zeros(len(rows), bool)
    return ~np.isnan(rows[:, 0])


def write_rows(table: Floats, ids: Ids, rows: Floats) -> Floats:
    """Write these clients' rows into the table, and return it: another one, if these are the first rows."""
    table = fix_width(table, rows.shape[1], np.nan)
    table[ids] = rows
    return table


def embed_products(products: Floats, ids: Ids, sizes: Array) -> Floats:
    """Return rows (N, d) whose inner products are those of the clients' label shares; NaN of clients without products.

    Products of pairs that never met count as the mean of the others. What clients claim is cut at a million: products
    of shares are at most 1.
    """
    n_examples = np.maximum(np.asarray(sizes, np.float64)[ids], 1.0)
    table = products[np.ix_(ids, ids)] / np.outer(n_examples, n_examples)
    unknown = np.isnan(table)
    table = np.clip(table, -LARGEST_PRODUCT, LARGEST_PRODUCT)
    if unknown.all():
        table[unknown] = 0.0
    else:
        table[unknown] = table[~unknown].mean()
    values, vectors = np.linalg.eigh((table + table.T) / 2)
    threshold = SMALLEST_EIGENVALUE * max(float(values.max(initial=0.0)), SMALLEST_EIGENVALUE)
    large = values > threshold
    rows = np.full((len(products), int(large.sum())), np.nan)
    rows[ids] = vectors[:, large] * np.sqrt(values[large])
    return rows

"""Products of pairs of clients that were computed without showing what they were made of; NaN where two never met."""

from __future__ import annotations

import numpy as np

from sortition.core import Reading
from sortition.core.arrays import Floats, Ids

MOST_CLIENTS = 2000  # up to so many clients a table of all products is kept


def find_without_products(products: Floats, ids: Ids) -> Ids:
    """Return those of these clients some of whose products with the others are unknown."""
    unknown = np.isnan(products[np.ix_(ids, ids)])
    return ids[unknown.any(axis=1)]


def store_products(products: Floats, asked: Ids, answer: Reading) -> Ids:
    """Write the products of all who answered into the table (N, N), and return the clients that have some."""
    if len(answer):
        has_answered = np.isin(asked, answer.ids)
        products[np.ix_(answer.ids, asked[has_answered])] = answer.values[:, has_answered]
    return np.flatnonzero(~np.isnan(np.diag(products)))

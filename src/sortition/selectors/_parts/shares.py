"""Numbers as shares of their sum."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.population import Population


def as_shares(values: Array) -> Floats:
    """Divide values ≥ 0 by their sum; where all are 0, the shares are equal."""
    total = values.sum()
    if total > 0:
        return np.asarray(values / total)
    return np.full(values.size, 1.0 / max(values.size, 1))


def data_shares(population: Population) -> Floats:
    """Return p_k = n_k / n of all clients (N,): 0 of unknown ones, and equal where nobody has data."""
    p = np.zeros(population.n_clients)
    p[population.known_ids] = as_shares(np.asarray(population.sizes[population.known_ids], np.float64))
    return p


def weight_shares(population: Population, ids: Ids, weigh: Literal["size", "equal"]) -> Floats:
    """Return what share each of these clients weighs (n,): in proportion to its data ("size"), or "equal" shares."""
    if weigh == "size":
        return as_shares(np.asarray(population.sizes[ids], np.float64))
    return as_shares(np.ones(ids.size))


def label_shares(counts: Array) -> Floats:
    """Return the label distributions p_n = D_n^l / D_n of clients, (n, L), from their label counts.

    A client without data is taken to be like the average of the others.
    """
    totals = counts.sum(axis=1, keepdims=True).astype(np.float64)
    distributions = counts / np.where(totals > 0, totals, 1.0)
    empty = totals[:, 0] <= 0
    if empty.all():
        distributions[empty] = 1.0 / counts.shape[1]
    elif empty.any():
        distributions[empty] = distributions[~empty].mean(axis=0)
    return np.asarray(distributions)

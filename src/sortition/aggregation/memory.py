"""A server that remembers the last update of every client, and uses it where the client is absent.

| paper | code |
|---|---|
| FedVARP (Jhunjhunwala et al., UAI 2022): v = (1/M) Σ_S (Δ_i − y_i) + (1/N) Σ_j y_j, y of before | :func:`fedvarp` |
| MIFA (Gu et al., NeurIPS 2021): w − η_t (1/N) Σ_i G_i over all N clients, G of this round | :func:`mifa` |
| y_i, G_i: updates divided by the learning rate of their round | ``UpdateMemory.rows``, ``rate`` |

Deviations. FedVARP's 1/M are the cohort's weights a_k here, the same for a uniform sample; v has the expectation
(1/N) Σ Δ_k whatever y is, if a client is chosen with probability 1/(N a_k). MIFA starts with G = 0 and does not wait
until everybody was seen; its weights are 1/N, whatever the cohort's are. ``rate = 1`` keeps raw updates: the same under
a constant learning rate, not under one that decays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from sortition.core.arrays import Array, Floats, Ids

Rows = Array
DRIFT = 2.0**10  # rows this many times larger than what is left take its last digits with them


@dataclass(frozen=True)
class UpdateMemory:
    """The last update of every client that was seen. A new one shares all rows that stayed with the one before."""

    total: Floats  # (P,) Σ of all rows
    rows: Mapping[int, Rows] = field(default_factory=dict)  # by client, each (P,), divided by the rate of its round

    @classmethod
    def empty(cls, size: int) -> UpdateMemory:
        """Return a memory that has seen nobody yet."""
        return cls(np.zeros(size))

    def rows_of(self, ids: Ids, like: Rows) -> Rows:
        """Return what is remembered of each client (k, P); 0 for those never seen."""
        zeros = np.zeros(like.shape[1], like.dtype)
        return np.stack([self.rows.get(client, zeros) for client in ids.tolist()])

    def with_updates(self, ids: Ids, updates: Rows) -> UpdateMemory:
        """Return the memory with these rows in place of the clients' earlier ones."""
        replaced = self.rows_of(ids, updates)
        change = updates.sum(axis=0, dtype=np.float64) - replaced.sum(axis=0, dtype=np.float64)
        rows = {**self.rows, **dict(zip(ids.tolist(), updates, strict=True))}
        return _sum_rows(rows, self.total + change, replaced)

    def without(self, ids: Ids) -> UpdateMemory:
        """Return the memory without these clients, as when another one takes an id."""
        forgotten = {client for client in ids.tolist() if client in self.rows}
        if not forgotten:
            return self
        removed = np.stack([self.rows[client] for client in ids.tolist() if client in forgotten]).astype(np.float64)
        rows = {client: row for client, row in self.rows.items() if client not in forgotten}
        return _sum_rows(rows, self.total - removed.sum(axis=0), removed)

    def export(self) -> dict[str, Array]:
        """Return arrays for a checkpoint: ids (m,), rows (m, P), total (P,)."""
        ids = sorted(self.rows)
        table = np.empty((0, self.total.size), np.float32)
        if ids:
            table = np.stack([self.rows[client] for client in ids])
        return {"ids": np.array(ids, np.int64), "rows": table, "total": self.total}

    @classmethod
    def restore(cls, arrays: Mapping[str, Array]) -> UpdateMemory:
        """Return the memory that was exported."""
        return cls(arrays["total"], dict(zip(arrays["ids"].tolist(), arrays["rows"], strict=True)))


def _sum_rows(rows: Mapping[int, Rows], total: Floats, removed: Rows) -> UpdateMemory:
    """Return the memory of these rows; where much larger rows were removed, sum the total anew, since it is noise."""
    if np.abs(removed).max(initial=0.0) > DRIFT * np.abs(total).max(initial=0.0):
        total = sum((rows[client].astype(np.float64) for client in sorted(rows)), np.zeros_like(total))
    return UpdateMemory(total, rows)


def fedvarp(
    ids: Ids, weights: Floats, updates: Rows, memory: UpdateMemory, clients: int, rate: float
) -> tuple[Rows, UpdateMemory]:
    """Return Σ a_k (Δ_k − y_k) + (1/N) Σ_j y_j, and the next memory."""
    a = weights.astype(updates.dtype)
    remembered = (a @ memory.rows_of(ids, updates)).astype(np.float64)
    correction = rate * (memory.total / clients - remembered)
    combined = a @ updates + correction.astype(updates.dtype)
    return combined, memory.with_updates(ids, _divide_by_rate(updates, rate))


def mifa(
    ids: Ids, weights: Floats, updates: Rows, memory: UpdateMemory, clients: int, rate: float
) -> tuple[Rows, UpdateMemory]:
    """Return (1/N) Σ_j y_j with this round's updates in it, and that memory."""
    memory = memory.with_updates(ids, _divide_by_rate(updates, rate))
    return (rate / clients * memory.total).astype(updates.dtype), memory


def _divide_by_rate(updates: Rows, rate: float) -> Rows:
    return updates.copy() if rate == 1 else updates / updates.dtype.type(rate)

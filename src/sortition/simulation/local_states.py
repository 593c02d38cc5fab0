"""What the optimisers of clients remember from one participation to the next, where the local rule keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.learning import Learner, LocalRule
from sortition.learning.optimiser import state_size
from sortition.learning.vector import Vector


@dataclass(frozen=True)
class LocalStates:
    """Rows (S,) of :mod:`sortition.learning.optimiser` by client; a new object shares all rows that stayed."""

    row_size: int
    rows: Mapping[int, Vector] = field(default_factory=dict)

    @classmethod
    def empty(cls, rule: LocalRule, learner: Learner) -> LocalStates | None:
        """Return the states before anybody has trained; None where the rule keeps none."""
        if not rule.keep_state:
            return None
        return cls(state_size(rule, learner.layout.weights))

    def of(self, ids: Ids) -> Vector:
        """Return what is remembered of each client (k, S); 0 for those that never trained."""
        table = np.zeros((ids.size, self.row_size), np.float32)
        for row, client in zip(table, ids.tolist(), strict=True):
            row[:] = self.rows.get(client, 0)
        return table

    def after(self, ids: Ids, rows: Vector) -> LocalStates:
        """Return the states with these rows; after a training that diverged a client's earlier row stays."""
        finite = {client: row for client, row in zip(ids.tolist(), rows, strict=True) if np.isfinite(row).all()}
        return replace(self, rows={**self.rows, **finite})

    def without(self, ids: Ids) -> LocalStates:
        """Return the states without these clients, whose ids others took."""
        removed = set(ids.tolist())
        return replace(self, rows={client: row for client, row in self.rows.items() if client not in removed})

    def export(self) -> dict[str, Array]:
        """Return the states as arrays, for a checkpoint: ids (m,), rows (m, S)."""
        ids = np.array(sorted(self.rows), np.int64)
        return {"ids": ids, "rows": self.of(ids)}

    def with_rows(self, arrays: Mapping[str, Array]) -> LocalStates:
        """Return the states with the rows that :meth:`export` gave."""
        return replace(self, rows=dict(zip(arrays["ids"].tolist(), arrays["rows"], strict=True)))

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

    size: int
    rows: Mapping[int, Vector] = field(default_factory=dict)

    @classmethod
    def empty(cls, rule: LocalRule, learner: Learner) -> LocalStates | None:
        """Of nobody yet; None where the rule keeps nothing."""
        return cls(state_size(rule, learner.layout.weights)) if rule.keep_state else None

    def of(self, ids: Ids) -> Vector:
        """(k, S) what is remembered of each client; 0 for those that never trained."""
        table = np.zeros((ids.size, self.size), np.float32)
        for row, client in zip(table, ids.tolist(), strict=True):
            row[:] = self.rows.get(client, 0)
        return table

    def after(self, ids: Ids, rows: Vector) -> LocalStates:
        """With these rows; a training that diverged leaves a client's earlier one."""
        new = {client: row for client, row in zip(ids.tolist(), rows, strict=True) if np.isfinite(row).all()}
        return replace(self, rows={**self.rows, **new})

    def without(self, ids: Ids) -> LocalStates:
        """Without these clients, as when another one takes an id."""
        gone = set(ids.tolist())
        return replace(self, rows={client: row for client, row in self.rows.items() if client not in gone})

    def export(self) -> dict[str, Array]:
        """As arrays, for a checkpoint: ids (m,), rows (m, S)."""
        ids = np.array(sorted(self.rows), np.int64)
        return {"ids": ids, "rows": self.of(ids)}

    def restored(self, arrays: Mapping[str, Array]) -> LocalStates:
        """What was exported."""
        return replace(self, rows=dict(zip(arrays["ids"].tolist(), arrays["rows"], strict=True)))

"""Exactly k labels per client, balanced (FedGS's Fashion-MNIST: k = 2, 600 examples each)."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.core.arrays import Ids
from sortition.core.errors import bad
from sortition.data.partitions._rule import PartitionRule, dealt, rounded


class Labels(PartitionRule):
    """Each client takes the ``per_client`` labels used least so far, ties at random; holders share a label evenly."""

    per_client: int = Field(2, ge=1)

    def owners(self, labels: Ids, clients: int, rng: np.random.Generator, notes: list[str]) -> Ids:
        """(n,) the label's examples dealt to its holders."""
        counts = np.bincount(labels)
        L, k = len(counts), self.per_client
        if k > L:
            raise bad("partition labels.per_client", f"at most {L}, the labels that occur", k)
        if clients * k < L:
            raise bad("partition labels.per_client", f"at least {-(-L // clients)}, or labels are lost", k)
        holds = self._assign(L, clients, rng)
        used = holds.sum(axis=1)
        if np.any(short := counts < used):
            label = int(np.argmax(short))
            rule = f"small enough that each of a label's {used[label]} holders gets an example"
            raise bad("partition labels.per_client", rule, k, f"The rarest label has {counts[label]}.")
        return dealt(np.stack([rounded(row, n) for row, n in zip(holds, counts, strict=True)]), labels, rng)

    def _assign(self, L: int, clients: int, rng: np.random.Generator) -> Ids:
        """(L, N) 0/1: who holds which label."""
        holds = np.zeros((L, clients), dtype=np.int64)
        used = np.zeros(L)
        for client, ties in enumerate(rng.random((clients, L))):  # ties < 1 decides among equal whole numbers
            chosen = np.argpartition(used + ties, self.per_client - 1)[: self.per_client]
            holds[chosen, client] = 1
            used[chosen] += 1
        return holds

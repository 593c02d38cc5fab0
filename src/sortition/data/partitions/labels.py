"""Exactly k labels per client, balanced (FedGS's Fashion-MNIST: k = 2, 600 examples each)."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.core.arrays import Ids
from sortition.core.errors import bad
from sortition.data.partitions._rule import PartitionRule, apportion, deal


class Labels(PartitionRule):
    """Each client takes the labels used least so far, ties at random; the holders of a label share it evenly.

    Attributes:
        per_client: labels of each client.
    """

    per_client: int = Field(2, ge=1)

    def owners(self, labels: Ids, clients: int, rng: np.random.Generator, notes: list[str]) -> Ids:
        """Return owners (n,): the examples of a label are dealt to its holders."""
        counts = np.bincount(labels)
        L = len(counts)
        k = self.per_client
        if k > L:
            raise bad("partition labels.per_client", f"at most {L}, the labels that occur", k)
        if clients * k < L:
            raise bad("partition labels.per_client", f"at least {-(-L // clients)}, or labels are lost", k)
        holds = self._assign_labels(L, clients, rng)
        n_holders = holds.sum(axis=1)
        is_too_rare = counts < n_holders
        if np.any(is_too_rare):
            label = int(np.argmax(is_too_rare))
            rule = f"small enough that each of a label's {n_holders[label]} holders gets an example"
            raise bad("partition labels.per_client", rule, k, f"The rarest label has {counts[label]}.")
        counts_by_label = [apportion(holders, n) for holders, n in zip(holds, counts, strict=True)]
        return deal(np.stack(counts_by_label), labels, rng)

    def _assign_labels(self, L: int, clients: int, rng: np.random.Generator) -> Ids:
        """Draw which client holds which label, (L, N) of 0 and 1."""
        holds = np.zeros((L, clients), dtype=np.int64)
        n_holders = np.zeros(L)
        for client, ties in enumerate(rng.random((clients, L))):  # ties < 1 decides among equal whole numbers
            chosen_labels = np.argpartition(n_holders + ties, self.per_client - 1)[: self.per_client]
            holds[chosen_labels, client] = 1
            n_holders[chosen_labels] += 1
        return holds

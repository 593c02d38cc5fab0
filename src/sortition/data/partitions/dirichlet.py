"""Dirichlet over labels, per client (Hsu, Qi, Brown 2019): q_k ~ Dir(α p), equal sizes."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.core.arrays import Floats, Ids
from sortition.data.partitions._rule import PartitionRule, dealt, mixtures


class Dirichlet(PartitionRule):
    """Client after client draws its examples from its own mixture, without replacement.

    When a label runs out, the mixture is renormalised over the others, as in the paper; so the last clients take what
    is left. ``alpha`` is the total concentration, as in the paper; with ``per_label`` that of each label.
    """

    alpha: float = Field(0.5, gt=0)
    per_label: bool = False

    def owners(self, labels: Ids, clients: int, rng: np.random.Generator, notes: list[str]) -> Ids:
        """(n,) sizes differ by at most one."""
        left = np.bincount(labels)
        prior = np.ones(len(left)) if self.per_label else left / len(labels)
        q = mixtures(self.alpha, prior, clients, rng)
        sizes = np.full(clients, len(labels) // clients)
        sizes[: len(labels) % clients] += 1
        counts = np.zeros((len(left), clients), dtype=np.int64)
        for k in range(clients):
            counts[:, k] = _draw(q[k], int(sizes[k]), left, rng)
            left = left - counts[:, k]
        return dealt(counts, labels, rng)


def _draw(q: Floats, size: int, left: Ids, rng: np.random.Generator) -> Ids:
    """(L,) ``size`` labels from mixture q, at most ``left`` of each; every pass finishes or empties a label."""
    taken = np.zeros_like(left)
    while size > 0:
        weights = np.where(left > taken, q, 0.0)
        if weights.sum() <= 0:  # none of the client's labels is left: whatever there is
            weights = (left - taken).astype(float)
        drawn = np.minimum(rng.multinomial(size, weights / weights.sum()), left - taken)
        taken += drawn
        size -= int(drawn.sum())
    return taken

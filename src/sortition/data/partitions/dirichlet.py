"""Dirichlet over labels, per client (Hsu, Qi, Brown 2019): q_k ~ Dir(α p), equal sizes."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.core.arrays import Floats, Ids
from sortition.data.partitions._rule import PartitionRule, deal, draw_mixtures


class Dirichlet(PartitionRule):
    """Client after client draws its examples from its own mixture, without replacement.

    When a label runs out, the mixture is renormalised over the others, as in the paper; so the last clients take what
    remains.

    Attributes:
        alpha: the total concentration, as in the paper; with ``per_label`` that of each label.
        per_label: whether the prior is 1 for each label instead of its share of the data.
    """

    alpha: float = Field(0.5, gt=0)
    per_label: bool = False

    def owners(self, labels: Ids, clients: int, rng: np.random.Generator, notes: list[str]) -> Ids:
        """Return owners (n,); sizes differ by at most one."""
        remaining = np.bincount(labels)
        prior = np.ones(len(remaining)) if self.per_label else remaining / len(labels)
        q = draw_mixtures(self.alpha, prior, clients, rng)
        sizes = np.full(clients, len(labels) // clients)
        sizes[: len(labels) % clients] += 1
        counts = np.zeros((len(remaining), clients), dtype=np.int64)
        for k in range(clients):
            counts[:, k] = _draw_counts(q[k], int(sizes[k]), remaining, rng)
            remaining = remaining - counts[:, k]
        return deal(counts, labels, rng)


def _draw_counts(q: Floats, size: int, available: Ids, rng: np.random.Generator) -> Ids:
    """Draw ``size`` labels from mixture q, (L,), at most ``available`` of each; a pass finishes or empties a label."""
    counts = np.zeros_like(available)
    while size > 0:
        remaining = available - counts
        weights = np.where(remaining > 0, q, 0.0)
        if weights.sum() <= 0:  # none of the client's labels remains: any other
            weights = remaining.astype(float)
        new_counts = np.minimum(rng.multinomial(size, weights / weights.sum()), remaining)
        counts += new_counts
        size -= int(new_counts.sum())
    return counts

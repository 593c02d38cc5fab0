"""What a partition rule is: from labels to the client of each example; and the arithmetic that several rules share."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.registry import Rule


class PartitionRule(Rule, ABC):
    """One way of splitting data over clients. Subclasses are final."""

    @abstractmethod
    def owners(self, labels: Ids, clients: int, rng: np.random.Generator, notes: list[str]) -> Ids:
        """(n,) the client of each example; what had to be given up is added to ``notes``.

        ``labels`` (n,) are dense: 0 … L − 1, each with at least one example; 1 ≤ clients ≤ n.
        """


def by_label(labels: Ids, rng: np.random.Generator) -> list[Ids]:
    """The examples of each label, shuffled."""
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    return np.split(order, np.cumsum(np.bincount(labels))[:-1])


def dealt(counts: Array, labels: Ids, rng: np.random.Generator) -> Ids:
    """Owners where client k gets counts[l, k] random examples of label l, (L, N); −1 for what is left over."""
    owners = np.full(len(labels), -1, dtype=np.int64)
    clients = np.arange(counts.shape[1])
    for row, examples in zip(counts, by_label(labels, rng), strict=True):
        owners[examples[: row.sum()]] = np.repeat(clients, row)
    return owners


def rounded(shares: Floats, total: int) -> Ids:
    """Whole numbers in proportion to ``shares`` (≥ 0, not all 0) that sum to ``total``: rounded cumulative sums."""
    ends = np.rint(np.cumsum(shares) / shares.sum() * total).astype(np.int64)
    return np.asarray(np.diff(ends, prepend=0))


def mixtures(alpha: float, prior: Floats, size: int, rng: np.random.Generator) -> Floats:
    """(size, L) label mixtures q ~ Dir(α · prior); exact zeros from underflow at small α are harmless."""
    drawn = rng.dirichlet(np.maximum(alpha * prior, 1e-12), size)
    return np.asarray(drawn / drawn.sum(axis=1, keepdims=True))

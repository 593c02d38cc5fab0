"""What a partition rule is: from labels to the client of each example; and the arithmetic that several rules share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.registry import Rule


class PartitionRule(Rule, ABC):
    """One way of splitting data over clients. Subclasses are final.

    Class attributes:
        by_label: False if a split does not depend on the labels, so that targets of any kind can be split.
    """

    by_label: ClassVar[bool] = True

    @abstractmethod
    def owners(self, labels: Ids, clients: int, rng: np.random.Generator, notes: list[str]) -> Ids:
        """Return the client of each example, (n,); what had to be given up is added to ``notes``.

        ``labels`` (n,) are dense: 0 … L − 1, each with at least one example; 1 ≤ clients ≤ n.
        """


def shuffle_by_label(labels: Ids, rng: np.random.Generator) -> list[Ids]:
    """Return the examples of each label, shuffled."""
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    return np.split(order, np.cumsum(np.bincount(labels))[:-1])


def deal(counts: Array, labels: Ids, rng: np.random.Generator) -> Ids:
    """Give client k counts[l, k] random examples of label l, (L, N); return owners, −1 for what remains."""
    owners = np.full(len(labels), -1, dtype=np.int64)
    clients = np.arange(counts.shape[1])
    for row, examples in zip(counts, shuffle_by_label(labels, rng), strict=True):
        owners[examples[: row.sum()]] = np.repeat(clients, row)
    return owners


def apportion(shares: Floats, total: int) -> Ids:
    """Return whole numbers in proportion to ``shares`` (≥ 0, not all 0) that sum to ``total``.

    They are the differences of rounded cumulative sums.
    """
    ends = np.rint(np.cumsum(shares) / shares.sum() * total).astype(np.int64)
    return np.asarray(np.diff(ends, prepend=0))


def draw_mixtures(alpha: float, prior: Floats, size: int, rng: np.random.Generator) -> Floats:
    """Draw label mixtures q ~ Dir(α · prior), (size, L); exact zeros from underflow at small α are harmless."""
    mixtures = rng.dirichlet(np.maximum(alpha * prior, 1e-12), size)
    return np.asarray(mixtures / mixtures.sum(axis=1, keepdims=True))

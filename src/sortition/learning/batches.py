"""Which examples a client sees in which step: a function of (seed, purpose, t, client) and of nothing else.

Each epoch is a fresh order without replacement, cut in batches; the last batch of an epoch may be smaller. Steps beyond
an epoch reshuffle. Only the part of the last epoch that is used is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sortition.core.streams import stream
from sortition.learning.rule import LocalRule


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One client's round: ``index`` (steps, rows) of examples, of which the first ``counts[s]`` are real."""

    index: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    @property
    def steps(self) -> int:
        """SGD steps."""
        return len(self.index)

    @property
    def examples(self) -> int:
        """Examples that pass forward and backward."""
        return int(self.counts.sum())


def batch_plan(members: npt.NDArray[np.int64], rule: LocalRule, rng: np.random.Generator) -> BatchPlan:
    """The batches of a client that holds the examples ``members`` (n,)."""
    n = len(members)
    rows, per_epoch, steps = rule.rows(n), rule.per_epoch(n), rule.steps_of(n)
    index = np.empty((steps, rows), np.int64)
    for start in range(0, steps, per_epoch):
        block = index[start : start + per_epoch].reshape(-1)  # contiguous, so a view
        used = min(n, block.size)
        block[:used] = rng.permutation(n) if used == n else rng.choice(n, used, replace=False)
        block[used:] = block[0]  # padding of the epoch's smaller batch; its gradient is masked
    counts = np.full(steps, rows, np.int64)
    counts[per_epoch - 1 :: per_epoch] = n - rows * (per_epoch - 1)
    return BatchPlan(members[index], counts)


def batch_plans(
    members: Sequence[npt.NDArray[np.int64]],
    ids: npt.NDArray[np.int64],
    rule: LocalRule,
    seed: int,
    t: int,
    purpose: str = "train",
) -> list[BatchPlan]:
    """One plan per client of a cohort."""
    name = f"{purpose}-batches"
    return [batch_plan(own, rule, stream(seed, name, t, int(i))) for own, i in zip(members, ids, strict=True)]

"""Which examples a client sees in which step: a function of (seed, purpose, t, client) and of nothing else.

Each epoch is a fresh order without replacement, cut in batches; the last batch of an epoch may be smaller. Steps beyond
an epoch reshuffle. Only the part of the last epoch that is used is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array
from sortition.core.streams import stream
from sortition.learning.rule import LocalRule


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The batches of one client in one round.

    Attributes:
        index: (steps, rows) examples of each batch.
        counts: (steps,) how many of a batch's rows are real: the first ones.
    """

    index: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    @property
    def steps(self) -> int:
        """Return the number of SGD steps."""
        return len(self.index)

    @property
    def examples(self) -> int:
        """Return how many examples pass forward and backward."""
        return int(self.counts.sum())


def draw_batch_plan(examples_by_client: npt.NDArray[np.int64], rule: LocalRule, rng: np.random.Generator) -> BatchPlan:
    """Draw the batches of a client that holds the examples ``examples_by_client`` (n,)."""
    n = len(examples_by_client)
    rows = rule.rows_per_batch(n)
    batches_per_epoch = rule.batches_per_epoch(n)
    steps = rule.steps_of(n)
    index = np.empty((steps, rows), np.int64)
    for start in range(0, steps, batches_per_epoch):
        epoch = index[start : start + batches_per_epoch].reshape(-1)  # contiguous, so a view
        drawn_examples = min(n, epoch.size)
        if drawn_examples == n:
            epoch[:drawn_examples] = rng.permutation(n)
        else:
            epoch[:drawn_examples] = rng.choice(n, drawn_examples, replace=False)
        epoch[drawn_examples:] = epoch[0]  # padding of the epoch's smaller batch; its gradient is masked
    counts = np.full(steps, rows, np.int64)
    counts[batches_per_epoch - 1 :: batches_per_epoch] = n - rows * (batches_per_epoch - 1)
    return BatchPlan(examples_by_client[index], counts)


def draw_batch_plans(
    examples_by_client: Sequence[npt.NDArray[np.int64]],
    ids: npt.NDArray[np.int64],
    rule: LocalRule,
    seed: int,
    t: int,
    purpose: str = "train",
) -> list[BatchPlan]:
    """Draw one plan per client of a cohort; ``examples_by_client`` has the examples of each of the ``ids``.

    ``purpose`` is "train", or "rehearsal" for a trial round, which must not use up the batches of training.
    """
    stream_name = f"{purpose}-batches"
    return [
        draw_batch_plan(client_examples, rule, stream(seed, stream_name, t, int(client)))
        for client_examples, client in zip(examples_by_client, ids, strict=True)
    ]


def pad_plans(plans: Sequence[BatchPlan]) -> tuple[Array, Array, list[int]]:
    """Lay plans side by side: indices (S, k, B), row weights (S, k, B), and how many clients train in each step."""
    n_steps = plans[0].steps
    n_rows = max(plan.index.shape[1] for plan in plans)
    index = np.zeros((n_steps, len(plans), n_rows), np.int64)
    counts = np.ones((n_steps, len(plans)), np.int64)
    for client, plan in enumerate(plans):
        index[: plan.steps, client, : plan.index.shape[1]] = plan.index
        counts[: plan.steps, client] = plan.counts
    is_real = np.arange(n_rows) < counts[:, :, None]
    weights = np.where(is_real, 1 / counts[:, :, None], 0).astype(np.float32)
    steps_of_clients = np.array([plan.steps for plan in plans])
    active = [int((steps_of_clients > step).sum()) for step in range(n_steps)]
    return index, weights, active

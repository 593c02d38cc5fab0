"""Cohorts of several runs in one stack: as many steps of PyTorch as for one cohort, and the bits of each alone.

Every product of a stack is of one client, and no sum goes over clients, so that it does not matter who else is in it.
What does matter is the number of rows to which batches are padded: only cohorts of the same number share a stack.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sortition.core.arrays import Ids
from sortition.learning import stacked
from sortition.learning.learner import DrawnCohort

WORK = 1 << 20  # multiplications of a step beyond which a cohort fills the processor by itself
STACKED = 1 << 20  # numbers of a stack of several cohorts: it stays in the cache


def train_together(cohorts: Sequence[DrawnCohort]) -> None:
    """Train them all, in common stacks where that is faster."""
    groups: dict[Hashable, list[DrawnCohort]] = defaultdict(list)
    for cohort in cohorts:
        groups[_shape(cohort) or id(cohort)].append(cohort)
    for group in groups.values():
        for part in _stacks(group):
            if len(part) == 1:
                part[0].learner.finish(part[0])
            else:
                _train(part)


def _shape(cohort: DrawnCohort) -> Hashable:
    """What cohorts of one stack have in common; None for one that trains by itself."""
    learner, how = cohort.learner, cohort.how
    if not (learner.stacks and cohort.work) or len(cohort.work) > learner.most:
        return None
    if how.rule.batch is None:  # on some processors a product of an odd number of rows depends on its place in a stack
        return None
    rows = max(plan.index.shape[1] for plan in cohort.work)
    if len(cohort.work) * rows * learner.layout.size > WORK:
        return None
    data = learner.examples.rows.data_ptr(), learner.y.data_ptr(), learner.device
    return learner.architecture, data, how.rule, how.lr, rows, cohort.tracked


def _stacks(group: Sequence[DrawnCohort]) -> Iterator[list[DrawnCohort]]:
    """The cohorts of a group, in parts that are small enough."""
    part, clients, most = list[DrawnCohort](), 0, STACKED // group[0].learner.layout.size
    for cohort in group:
        if part and clients + len(cohort.work) > most:
            yield part
            part, clients = [], 0
        part.append(cohort)
        clients += len(cohort.work)
    yield part


def _train(cohorts: Sequence[DrawnCohort]) -> None:
    learner, how = cohorts[0].learner, cohorts[0].how
    clients = [(at, i) for at, cohort in enumerate(cohorts) for i in range(len(cohort.work))]
    clients.sort(key=lambda one: -cohorts[one[0]].work[one[1]].steps)
    whose = np.array([at for at, _ in clients])
    starts = torch.stack([cohort.start for cohort in cohorts])[torch.from_numpy(whose).to(learner.device)]
    found = stacked.train_stack(
        learner.layers or [],
        learner.layout.split(starts),
        learner.examples,
        learner.y,
        [cohorts[at].work[i] for at, i in clients],
        how.rule,
        how.lr,
        None if how.sources is None else [(cohorts[at].how.sources or [])[i] for at, i in clients],
        *cohorts[0].tracked,
        _states(cohorts, clients),
    )
    _share(cohorts, clients, whose, found)


def _states(cohorts: Sequence[DrawnCohort], clients: Sequence[tuple[int, int]]) -> Tensor | None:
    """What the optimiser remembers of the clients of all cohorts (k, S); None where it starts anew."""
    rows = [cohorts[at].states_of([i]) for at, i in clients]
    kept = [row for row in rows if row is not None]
    return torch.cat(kept) if kept else None


def _share(
    cohorts: Sequence[DrawnCohort], clients: Sequence[tuple[int, int]], whose: Ids, found: Sequence[Tensor | None]
) -> None:
    """Give each cohort its rows of what the stack left."""
    arrays = [None if one is None else one.cpu().numpy() for one in found]
    for at, cohort in enumerate(cohorts):
        rows = np.flatnonzero(whose == at).tolist()
        own: list[Any] = [None if one is None else one[rows] for one in arrays]
        cohort.fill([clients[row][1] for row in rows], *own)

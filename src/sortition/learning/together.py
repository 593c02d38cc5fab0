"""Trains the cohorts of several runs in one stack, with the bits of each cohort alone and fewer calls of PyTorch.

Every product of a stack belongs to one client, and no sum goes over clients, so that it does not matter who else is in
the stack. What does matter is the number of rows to which batches are padded: only cohorts of the same number share a
stack.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sortition.learning.learner import DrawnCohort

MOST_SHARED_WORK = 1 << 20  # multiplications of a step beyond which a cohort fills the processor by itself
MOST_STACKED_PARAMETERS = 1 << 20  # parameters of a stack of several cohorts at most: so it stays in the cache


class StackedClient(NamedTuple):
    """A client of one of several cohorts: the position of the cohort, and of the client in it."""

    cohort: int
    client: int


def train_together(cohorts: Sequence[DrawnCohort]) -> None:
    """Train all cohorts, in common stacks where that is faster."""
    groups: dict[Hashable, list[DrawnCohort]] = defaultdict(list)
    for cohort in cohorts:
        groups[_group_key(cohort) or id(cohort)].append(cohort)
    for group in groups.values():
        for stack in _divide_into_stacks(group):
            if len(stack) == 1:
                stack[0].learner.train_cohort(stack[0])
            else:
                _train_in_one_stack(stack)


def _group_key(cohort: DrawnCohort) -> Hashable:
    """Return what cohorts of one stack have in common; None for a cohort that trains by itself."""
    learner = cohort.learner
    n_clients = len(cohort.plans)
    if cohort.engine == "sequential" or not n_clients or n_clients > learner.clients_per_stack:
        return None
    if cohort.engine == "vmapped" and learner.has_convolutions:
        return None  # torch takes other kernels for other numbers of clients, with other bits
    if cohort.rule.batch is None:  # on some processors a product of odd many rows depends on its place in a stack
        return None
    rows = max(plan.index.shape[1] for plan in cohort.plans)
    if n_clients * rows * learner.multiplications > MOST_SHARED_WORK:
        return None
    return (
        (cohort.engine, learner.precision),
        (learner.architecture, learner.task_rule),
        (learner.examples.source, learner.y.data_ptr(), learner.device),
        cohort.rule,
        cohort.lr,
        rows,
        (cohort.measures_dispersion, cohort.measures_squared_losses),
    )


def _divide_into_stacks(group: Sequence[DrawnCohort]) -> Iterator[list[DrawnCohort]]:
    """Divide the cohorts of a group into stacks that are small enough."""
    most_clients = MOST_STACKED_PARAMETERS // group[0].learner.layout.size
    stack = list[DrawnCohort]()
    n_clients = 0
    for cohort in group:
        if stack and n_clients + len(cohort.plans) > most_clients:
            yield stack
            stack = []
            n_clients = 0
        stack.append(cohort)
        n_clients += len(cohort.plans)
    yield stack


def _train_in_one_stack(cohorts: Sequence[DrawnCohort]) -> None:
    first = cohorts[0]
    learner = first.learner
    members = [
        StackedClient(position, client)
        for position, cohort in enumerate(cohorts)
        for client in range(len(cohort.plans))
    ]
    members.sort(key=lambda member: -cohorts[member.cohort].plans[member.client].steps)
    cohort_of_row = np.array([member.cohort for member in members])
    starts = torch.stack([cohort.start for cohort in cohorts])[torch.as_tensor(cohort_of_row, device=learner.device)]
    sources = None
    if first.dropout_sources is not None:
        sources = [(cohorts[member.cohort].dropout_sources or [])[member.client] for member in members]
    result = learner.train_stack(
        first,
        starts=starts,
        plans=[cohorts[member.cohort].plans[member.client] for member in members],
        dropout_sources=sources,
        states=_joined_states(cohorts, members),
    )
    for position, cohort in enumerate(cohorts):
        rows = np.flatnonzero(cohort_of_row == position)
        clients = [members[row].client for row in rows]
        cohort.store([(clients, result.of_rows(torch.as_tensor(rows, device=learner.device)))])


def _joined_states(cohorts: Sequence[DrawnCohort], members: Sequence[StackedClient]) -> Tensor | None:
    """Return what the optimiser remembers of all members (k, S); None where it starts anew."""
    states = [cohorts[member.cohort].states_of([member.client]) for member in members]
    remembered = [state for state in states if state is not None]
    if not remembered:
        return None
    return torch.cat(remembered)

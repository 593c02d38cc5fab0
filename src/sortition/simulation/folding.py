"""Large cohorts whose updates are folded into one sum as they are made: memory does not grow with the cohort.

A cohort trains block by block, and of each block only Σ a_k Δ_k, norms, losses and reports are left. Where nothing but
the mean is made of updates, that is all a server needs. Which updates guards refuse is known when all have been made:
then the others train once more, to the same bits, and are summed with their own weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sortition.aggregation import weighted_sum
from sortition.core.arrays import Floats, Ids
from sortition.core.guards.screening import norms
from sortition.core.questions import Reading
from sortition.core.rounds import Cohort
from sortition.core.signals import UPDATE, Signal
from sortition.learning.vector import Vector
from sortition.simulation.setup import Carry, Setup
from sortition.simulation.world import TrainedCohort

TrainedUpdates = tuple[TrainedCohort, dict[int, str], Vector, Vector | None]
"""What is left of a cohort, what is wrong with some updates by row, the other updates (k', P), or their sum (P,)."""


def applies(setup: Setup, carry: Carry, clients: int) -> bool:
    """Whether a cohort is larger than one block, and nobody looks at single updates or keeps them."""
    world, needs = setup.world, carry.registrar.needs
    reported = any(signal.compute is UPDATE.compute or signal.of == "pairs" for signal in needs.reports)
    kept = setup.combine.individual or world.rule.keep_state or world.adversaries is not None
    return clients > world.block and not (needs.of_server or reported or kept)


def train(setup: Setup, carry: Carry, cohort: Cohort, ids: Ids, signals: Sequence[Signal]) -> TrainedUpdates:
    """Train those of a cohort who answer, in blocks."""
    outcome, lengths, update = _folded(setup, carry, ids, cohort.weights_of(ids)[0], signals)
    reasons = setup.guards.absurd(lengths)
    kept = np.delete(ids, list(reasons))
    if reasons and kept.size:
        _, _, update = _folded(setup, carry, kept, cohort.weights_of(kept)[0], ())
    return outcome, reasons, outcome.deltas, update


def _folded(
    setup: Setup, carry: Carry, ids: Ids, weights: Floats, signals: Sequence[Signal]
) -> tuple[TrainedCohort, Floats, Vector]:
    """What is left of a cohort, the norms of its updates (k,), and Σ a_k Δ_k (P,)."""
    params, t = carry.params, carry.registrar.index
    total, lengths, left = np.zeros(params.size), list[Floats](), list[TrainedCohort]()
    for block in setup.world.train_in_blocks(params, ids, signals, t):
        at = sum(one.ids.size for one in left)
        deltas = as_rows(setup.faults.updates(t, block), params)
        lengths.append(norms(deltas))
        with np.errstate(over="ignore", invalid="ignore"):  # of updates that are refused when all have been made
            total += weighted_sum(weights[at : at + block.ids.size], deltas)
        left.append(replace(block, deltas=np.empty((0, params.size), np.float32)))
        del block, deltas  # before the next block trains
    with np.errstate(over="ignore", invalid="ignore"):
        update = total.astype(np.float32)
    return _joined(left, signals), np.concatenate([np.empty(0), *lengths]), update


def as_rows(updates: Vector | list[Vector], params: Vector) -> Vector:
    """Updates as they arrive, as (k, P); those of another shape are rows of NaN."""
    if not isinstance(updates, list):
        return updates
    return np.stack([row if row.shape == params.shape else np.full_like(params, np.nan) for row in updates])


def _joined(blocks: Sequence[TrainedCohort], signals: Sequence[Signal]) -> TrainedCohort:
    """All blocks as one cohort."""

    def join(name: str) -> Any:
        return np.concatenate([getattr(block, name) for block in blocks])

    ids = join("ids")
    reports = {
        signal.name: Reading(ids, np.concatenate([block.reports[signal.name].values for block in blocks]))
        for signal in signals
    }
    return TrainedCohort(ids, join("deltas"), reports, join("durations"), join("losses"))

"""How a round becomes one record, the same for every backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from sortition.audit.encoding import json_value
from sortition.core.arrays import Ids
from sortition.core.flights import Received
from sortition.core.record import QuestionRecord, RoundRecord
from sortition.core.rounds import Cohort
from sortition.core.turn import Turn

ORDER = tuple(RoundRecord.__annotations__)


def round_record(
    turn: Turn, available: int, answered: Ids, notes: Mapping[str, Any], withdrawn: Ids | None = None
) -> RoundRecord:
    """What every backend knows of a round; the costs and fates that a backend knows beside it come later."""
    cohort = turn.cohort or Cohort.uniform([])
    everybody = answered.size == cohort.ids.size
    record: RoundRecord = {
        "round": turn.index,
        "available": available,
        "cohort": cohort.ids.tolist(),
        "weights": cohort.weights.tolist(),
        "answered": None if everybody else answered.tolist(),
        "skipped": turn.skipped,
        "full": cohort.full,
        "questions": [_question(asked) for asked in turn.asked],
        "notes": dict(notes),
    }
    if cohort.mass == "expected":
        record["mass"] = cohort.mass
    if cohort.expected_size is not None:
        record["expected_size"] = cohort.expected_size
    if turn.excluded:
        record["excluded"] = {rule: int(ids.size) for rule, ids in turn.excluded.items()}
    if withdrawn is not None and withdrawn.size:
        record["withdrawn"] = withdrawn.tolist()
    if turn.rejected:
        record["rejected"] = {str(client): reason for client, reason in turn.rejected.items()}
    return record


def step_record(
    *,
    turns: Sequence[Turn],
    available: int,
    step: Received,
    ended: Mapping[int, tuple[str, str]],
    in_flight: int,
    notes: Mapping[str, Any],
) -> RoundRecord:
    """What every backend knows of a step where work outlives steps: who was sent, whose update was used, who ended.

    A step of one selection that ends with it reads like a round.
    """
    first = turns[0]
    cohorts = [turn.cohort or Cohort.uniform([]) for turn in turns]
    record = round_record(first, available, step.ids, notes)
    record["round"] = step.version
    record["cohort"] = np.concatenate([cohort.ids for cohort in cohorts]).tolist()
    record["weights"] = np.concatenate([cohort.weights for cohort in cohorts]).tolist()
    record["skipped"] = all(turn.skipped for turn in turns) and not step.arrived.size
    record["questions"] = [_question(asked) for turn in turns for asked in turn.asked]
    whole = len(turns) == 1 and step.cohort is first.cohort
    everybody = whole and np.array_equal(step.ids, step.cohort.ids)
    record["answered"] = None if everybody else step.ids.tolist()
    said = _details(step, whole=whole)
    if first.in_flight.size:
        said["busy"] = int(first.in_flight.size)
    if in_flight:
        said["in_flight"] = in_flight
    return cast(RoundRecord, {**record, **said, **_endings(ended)})


def _details(step: Received, *, whole: bool) -> dict[str, Any]:
    """What a step says beyond a round: weights, staleness, and numbers that were withheld."""
    details: dict[str, Any] = {}
    if step.ids.size and not whole:
        details["used"] = step.weights.tolist()
    if step.staleness.any():
        details["staleness"] = step.staleness.tolist()
    if step.rejected:
        details["rejected"] = {str(client): reason for client, reason in step.rejected.items()}
    return details


def _endings(ended: Mapping[int, tuple[str, str]]) -> dict[str, dict[str, str]]:
    """Clients whose work ended without an update, by fate, with the reason."""
    fates: dict[str, dict[str, str]] = {}
    for client, (fate, reason) in ended.items():
        fates.setdefault(fate, {})[str(client)] = reason
    return fates


def _question(asked: Any) -> QuestionRecord:
    return {
        "signal": asked.signal,
        "of": asked.depends_on,
        "asked": asked.n_asked,
        "answered": asked.n_answered,
        "floats": asked.floats_up,
        "after": asked.n_rehearsed,
    }


def in_order(record: Mapping[str, Any]) -> RoundRecord:
    """The record as JSON knows it, its keys in the order of the schema."""
    ordered: RoundRecord = json_value({key: record[key] for key in ORDER if key in record})
    return ordered

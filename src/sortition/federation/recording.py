"""How a round becomes one record, the same for every backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from sortition.audit.encoding import json_value
from sortition.core.arrays import Ids
from sortition.core.cohort import Cohort, Notes
from sortition.core.in_flight import ServerStep
from sortition.core.round_record import QuestionRecord, RoundRecord
from sortition.core.turn import MeteredQuestion, Turn

ORDER = tuple(RoundRecord.__annotations__)


def round_record(
    turn: Turn, *, available: int, answered: Ids, notes: Notes, withdrawn: Ids | None = None
) -> RoundRecord:
    """Write what every backend knows of a round; the costs and fates that a backend knows beside it come later."""
    cohort = turn.cohort or Cohort.uniform([])
    record: RoundRecord = {
        "round": turn.index,
        "available": available,
        "cohort": cohort.ids.tolist(),
        "weights": cohort.weights.tolist(),
        "answered": None,
        "skipped": turn.skipped,
        "full": cohort.full,
        "questions": [_question(question) for question in turn.metered_questions],
        "notes": dict(notes),
    }
    if answered.size != cohort.ids.size:
        record["answered"] = answered.tolist()
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
    step: ServerStep,
    fates: Mapping[str, Mapping[str, str]],
    in_flight: int,
    notes: Notes,
) -> RoundRecord:
    """Write what every backend knows of a step where work outlives steps.

    A step of one selection that ends with it reads like a round.

    Args:
        turns: the selections since the last step.
        available: how many clients the first of them could choose.
        step: whose updates it used.
        fates: why work ended without an update, by fate and client.
        in_flight: how many clients are at work after it.
        notes: for a reader.
    """
    first = turns[0]
    record = round_record(first, available=available, answered=step.ids, notes=notes)
    record["round"] = step.version
    if len(turns) > 1:
        record["cohort"], record["weights"] = _members_and_weights(turns)
    has_selected = any(not turn.skipped for turn in turns)
    record["skipped"] = not has_selected and not step.arrived.size
    record["questions"] = [_question(question) for turn in turns for question in turn.metered_questions]
    is_one_selection = len(turns) == 1 and step.cohort is first.cohort
    record["answered"] = step.ids.tolist()
    if is_one_selection and np.array_equal(step.ids, step.cohort.ids):
        record["answered"] = None
    if step.ids.size and not is_one_selection:
        record["used"] = step.weights.tolist()
    if first.in_flight.size:
        record["busy"] = int(first.in_flight.size)
    return cast(RoundRecord, {**record, **_step_details(step, in_flight), **fates})


def _members_and_weights(turns: Sequence[Turn]) -> tuple[list[int], list[float]]:
    """Return the members of all selections, and their weights when they were chosen."""
    members: list[int] = []
    weights: list[float] = []
    for turn in turns:
        if turn.cohort is not None:
            members += turn.cohort.ids.tolist()
            weights += turn.cohort.weights.tolist()
    return members, weights


def _step_details(step: ServerStep, in_flight: int) -> dict[str, object]:
    """Return what a step says beyond a round: who is in flight, staleness, and why numbers were withheld."""
    details: dict[str, object] = {}
    if in_flight:
        details["in_flight"] = in_flight
    if step.staleness.any():
        details["staleness"] = step.staleness.tolist()
    if step.rejected:
        details["rejected"] = {str(client): reason for client, reason in step.rejected.items()}
    return details


def _question(question: MeteredQuestion) -> QuestionRecord:
    return {
        "signal": question.signal,
        "of": question.depends_on,
        "asked": question.n_asked,
        "answered": question.n_answered,
        "floats": question.floats_up,
        "after": question.n_rehearsed,
    }


def in_order(record: Mapping[str, object]) -> RoundRecord:
    """Return the record as JSON knows it, its keys in the order of the schema."""
    ordered: RoundRecord = json_value({key: record[key] for key in ORDER if key in record})
    return ordered

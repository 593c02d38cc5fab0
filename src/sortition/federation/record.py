"""How a round becomes one record, the same for every backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sortition.audit.encoding import json_value
from sortition.core.arrays import Ids
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


def _question(asked: Any) -> QuestionRecord:
    return {
        "signal": asked.signal,
        "of": asked.of,
        "asked": asked.asked,
        "answered": asked.answered,
        "floats": asked.floats_up,
        "after": asked.rehearsed,
    }


def in_order(record: Mapping[str, Any]) -> RoundRecord:
    """The record as JSON knows it, its keys in the order of the schema."""
    ordered: RoundRecord = json_value({key: record[key] for key in ORDER if key in record})
    return ordered

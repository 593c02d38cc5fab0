"""One line of rounds.jsonl, as :mod:`sortition.results.schema` types it: no wall-clock, the same bytes for one seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sortition.audit.encoding import json_value
from sortition.core.arrays import Floats
from sortition.core.rounds import Cohort
from sortition.core.turn import Turn
from sortition.core.record import FaultRecord, QuestionRecord, RoundRecord
from sortition.simulation.exchange import Arrived
from sortition.simulation.ledger import Ledger


@dataclass(frozen=True)
class Evaluation:
    """How good the model is after a round, where it was evaluated."""

    test: dict[str, float] | None = None
    clients: dict[str, float] | None = None


def round_record(
    turn: Turn,
    available: int,
    arrived: Arrived,
    ledger: Ledger,
    clock: float,
    faults: FaultRecord,
    evaluation: Evaluation,
    notes: dict[str, Any],
) -> RoundRecord:
    """The record of a round; ``clock`` is the simulated time after it."""
    cohort = turn.cohort or Cohort.uniform([])
    everybody = arrived.ids.size == cohort.ids.size
    record: RoundRecord = {
        "round": turn.index,
        "available": available,
        "cohort": cohort.ids.tolist(),
        "weights": cohort.weights.tolist(),
        "answered": None if everybody else arrived.ids.tolist(),
        "skipped": turn.skipped,
        "full": cohort.full,
        "questions": _questions(turn),
    }
    if cohort.mass == "expected":
        record["mass"] = cohort.mass
    if cohort.expected_size is not None:
        record["expected_size"] = cohort.expected_size
    if arrived.started.size < cohort.ids.size:
        record["started"] = arrived.started.tolist()
    _add_costs(record, arrived, ledger)
    record["clock"] = clock
    record["train_loss"] = float(arrived.losses.mean(dtype=np.float64)) if arrived.losses.size else None
    if turn.rejected:
        record["rejected"] = {str(client): reason for client, reason in turn.rejected.items()}
    if faults:
        record["faults"] = faults
    if evaluation.test is not None:
        record["test"] = evaluation.test
    if evaluation.clients is not None:
        record["clients"] = evaluation.clients
    record["notes"] = notes
    json_ready: RoundRecord = json_value(record)
    return json_ready


def _add_costs(record: RoundRecord, arrived: Arrived, ledger: Ledger) -> None:
    """What the round cost; what is special only where it occurs."""
    if ledger.trainings > arrived.started.size:  # clients that were asked for a result of training, and not chosen
        record["trainings"], record["uploads"] = ledger.trainings, ledger.uploads
    record["bytes"], record["passes"] = dict(ledger.bytes), dict(ledger.passes)
    if ledger.server_passes:
        record["server_passes"] = ledger.server_passes
    record["steps"] = ledger.steps


def _questions(turn: Turn) -> list[QuestionRecord]:
    return [
        {
            "signal": q.signal,
            "of": q.of,
            "asked": q.asked,
            "answered": q.answered,
            "floats": q.floats_up,
            "after": q.rehearsed,
        }
        for q in turn.asked
    ]


def client_figures(accuracies: Floats) -> dict[str, float]:
    """Fairness of the model over clients: mean, spread, and the mean of the worst tenth."""
    worst = np.sort(accuracies)[: max(1, accuracies.size // 10)]
    return {
        "mean": float(accuracies.mean()),
        "std": float(accuracies.std()),
        "worst_tenth": float(worst.mean()),
        "min": float(worst[0]),
    }

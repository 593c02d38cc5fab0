"""One line of rounds.jsonl: a plain dict without any clock, the same bytes for the same seed.

``round``, ``available``, ``cohort`` and ``weights`` (as selected), ``answered`` (ids, or None if all), ``skipped``
(nobody was available), ``full`` (more than the budget on purpose), ``questions``, ``bytes``, ``passes`` and ``steps``
(clients' computing, wasted included), ``clock`` (simulated seconds so far), ``train_loss``, ``test`` and ``clients``
where evaluated, ``rejected`` where clients sent unsound numbers, ``notes``. Where not all of the cohort started
training, ``started`` says who did; where something went wrong on the way, ``faults`` says what: ids by ``before``,
``during`` and ``after``, how many answers were ``lost`` and ``late``, who ``joined`` or whose id was ``taken``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sortition.core.arrays import Floats
from sortition.core.turn import Turn
from sortition.simulation.ledger import Ledger

RoundRecord = dict[str, Any]


def of_selection(turn: Turn, available: int) -> RoundRecord:
    """What is known when the cohort is chosen."""
    cohort = turn.cohort
    if cohort is None:
        raise RuntimeError("a turn without cohort cannot be recorded")
    questions = [
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
    return {
        "round": turn.index,
        "available": available,
        "cohort": cohort.ids.tolist(),
        "weights": cohort.weights.tolist(),
        "answered": None,
        "skipped": turn.skipped,
        "full": cohort.full,
        "questions": questions,
    }


def of_answers(lost: int, late: int) -> dict[str, int]:
    """How many answers never came, or came when the question was closed."""
    return {name: count for name, count in (("lost", lost), ("late", late)) if count}


def cost(ledger: Ledger, clock: float) -> RoundRecord:
    """What the round cost, and the simulated time after it."""
    return {"bytes": dict(ledger.bytes), "passes": dict(ledger.passes), "steps": ledger.steps, "clock": clock}


def of_clients(accuracies: Floats) -> dict[str, float]:
    """Fairness of the model over clients: mean, spread, and the mean of the worst tenth."""
    worst = np.sort(accuracies)[: max(1, accuracies.size // 10)]
    return {
        "mean": float(accuracies.mean()),
        "std": float(accuracies.std()),
        "worst_tenth": float(worst.mean()),
        "min": float(worst[0]),
    }

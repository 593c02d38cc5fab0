"""What became of the clients that a federation chose: where rounds overlap, work may end in a later record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from sortition.audit.encoding import decode_ids
from sortition.core.round_record import ENDINGS, Fate, RoundRecord, answered_ids, cohort_ids


@dataclass(frozen=True)
class ClientOutcome:
    """What became of a client that was chosen.

    Attributes:
        fate: what became of its update.
        round: the index of the record that says so; None where no record does.
        reason: what the client's program or the server said of an update that is not used; empty where nobody did.
    """

    fate: Fate
    round: int | None = None
    reason: str = ""


LOST = ClientOutcome("lost")
STILL_AT_WORK = ClientOutcome("still at work")


def resolve_outcomes(records: Sequence[RoundRecord]) -> list[dict[int, ClientOutcome]]:
    """Return what became of the clients that each record chose, by id.

    A client stays at work over records that have ``in_flight``, until one says how its work ended. ``lost``: its work
    is over, since it could be chosen again or nobody was at work any more, and no record says why.
    """
    outcomes: list[dict[int, ClientOutcome]] = []
    at_work: dict[int, dict[int, ClientOutcome]] = {}  # client → the outcomes of the record that chose it
    for record in records:
        if at_work and "present" in record:
            for client in _idle_again(record, at_work):
                del at_work[client]
        chosen = dict.fromkeys(cohort_ids(record), LOST)
        outcomes.append(chosen)
        at_work |= dict.fromkeys(chosen, chosen)
        for client, outcome in _endings(record).items():
            if client in at_work:
                at_work.pop(client)[client] = outcome
        if not record.get("in_flight"):
            at_work.clear()
    for client, chosen in at_work.items():
        chosen[client] = STILL_AT_WORK
    return outcomes


def _idle_again(record: RoundRecord, at_work: Mapping[int, object]) -> list[int]:
    """Return the clients of earlier records that could be chosen in this one."""
    clients = np.array(list(at_work), np.int64)
    idle: list[int] = clients[np.isin(clients, decode_ids(record["present"]))].tolist()
    return idle


def _endings(record: RoundRecord) -> dict[int, ClientOutcome]:
    """Return how the work of each client ended that a record names."""
    endings: dict[int, ClientOutcome] = {}
    by_key = cast(Mapping[str, Any], record)
    for key, fate in ENDINGS.items():
        named_clients = by_key.get(key) or ()
        for client in named_clients:
            reason = ""
            if isinstance(named_clients, Mapping):
                reason = str(named_clients[client])
            endings[int(client)] = ClientOutcome(fate, record["round"], reason)
    used = ClientOutcome("used", record["round"])
    return endings | dict.fromkeys(answered_ids(record), used)

"""Attrition: places selected, started, completed and wasted; and the share of places that adversaries hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np

from sortition.core.arrays import Array
from sortition.core.round_record import RoundRecord, answered_ids
from sortition.results.run_folder import Run

PLACES = ("selected", "started", "completed", "wasted")
IN_FLIGHT = "in_flight"  # work that had not ended when the run did
FATES = ("failed", "given_up", "too_stale", "left_out")  # keys of a record: why work ended without being used
EVENTS = ("before", "during", "after", "lost", "late", "duplicated", "stale", "joined", "taken")
Record = Mapping[str, Any]  # of a round, as rounds.jsonl has it


def ids_by_place(records: Iterable[Record]) -> Iterator[dict[str, list[int]]]:
    """Yield the ids of each round: who was selected, who started, whose update was used, and whose work was wasted.

    Where work outlives a step, it is wasted in the step in which it ends without being used.
    """
    at_work: Counter[int] = Counter()
    for record in records:
        selected = list(record.get("cohort") or ())
        started = record.get("started")
        if started is None:
            started = selected
        completed = answered_ids(cast(RoundRecord, record))
        at_work.update(started)
        at_work.subtract(completed)
        if record.get("in_flight"):
            wasted = [client for client in _ended_without_update(record) if at_work[client] > 0]
        else:  # nobody is at work any more
            wasted = list((+at_work).elements())
        at_work.subtract(wasted)
        at_work = +at_work
        yield {"selected": selected, "started": started, "completed": completed, "wasted": wasted}


def _ended_without_update(record: Record) -> list[int]:
    """Return the clients whose work ended in a step, and was not used."""
    clients = [int(client) for fate in FATES for client in record.get(fate) or ()]
    unsound = (record.get("notes") or {}).get("unsound_updates") or ()
    return [*clients, *(client for client in unsound if client not in clients)]


def count_attrition(records: Iterable[Record]) -> dict[str, int]:
    """Count places by what became of them over all rounds, and how often each kind of fault occurred."""
    totals = dict.fromkeys((*PLACES, IN_FLIGHT, *EVENTS, "unsound", "rejected"), 0)
    all_records = list(records)
    for places in ids_by_place(all_records):
        for name, ids in places.items():
            totals[name] += len(ids)
    totals[IN_FLIGHT] = totals["started"] - totals["completed"] - totals["wasted"]
    for record in all_records:
        for name, occurrences in (record.get("faults") or {}).items():
            if isinstance(occurrences, int):
                count = occurrences
            else:
                count = len(occurrences)
            totals[name] = totals.get(name, 0) + count
        totals["unsound"] += len((record.get("notes") or {}).get("unsound_updates") or ())
        totals["rejected"] += len(record.get("rejected") or ())
    return totals


def has_losses(totals: Mapping[str, int]) -> bool:
    """Tell whether anything was lost or went wrong."""
    all_completed = totals["selected"] == totals["started"] == totals["completed"]
    return not all_completed or any(totals[name] for name in totals if name not in PLACES)


def counts_per_client(records: Iterable[Record], n: int) -> dict[str, Array]:
    """Return (N,) times ``selected`` and ``completed``; ``started`` and ``wasted`` too where work was lost."""
    counts = {name: np.zeros(n, np.int64) for name in PLACES}
    for places in ids_by_place(records):
        for name, ids in places.items():
            counts[name] += np.bincount(np.array(ids, np.int64), minlength=n)
    if (counts["completed"] < counts["selected"]).any():
        return counts
    return {"selected": counts["selected"], "completed": counts["completed"]}


def started(run: Run) -> float | None:
    """Return the share of the selected places whose client began to train."""
    return _share(run, "started", "selected")


def completed(run: Run) -> float | None:
    """Return the share of the selected places whose update was used."""
    return _share(run, "completed", "selected")


def wasted(run: Run) -> float | None:
    """Return the share of the started trainings that came to nothing."""
    return _share(run, "wasted", "started")


def _share(run: Run, part: str, whole: str) -> float | None:
    totals = count_attrition(run.records)
    if not totals[whole]:
        return None
    return totals[part] / totals[whole]


def trainings(run: Run) -> float | None:
    """Count local trainings of all rounds: those of cohorts, and of clients that only answered questions on them."""
    return _counted(run, "trainings", place="started")


def uploads(run: Run) -> float | None:
    """Count the updates sent in all rounds; where many train and few of them are then chosen, few are sent."""
    return _counted(run, "uploads", place="completed")


def _counted(run: Run, key: str, *, place: str) -> float | None:
    """Add up what records count under ``key``; a record without it counts as many as it has ids of this place."""
    if not run.records:
        return None
    total = 0
    for record, places in zip(run.records, ids_by_place(run.records), strict=True):
        total += record[key] if key in record else len(places[place])
    return float(total)


def captured(run: Run) -> float | None:
    """Return the share of the cohorts' places that adversaries held; None where the run has no attack."""
    return _captured(run, lambda record: [1.0] * len(record["cohort"]))


def captured_weight(run: Run) -> float | None:
    """Return the share of the aggregation weight that adversaries held, as the cohorts were chosen."""
    return _captured(run, lambda record: record["weights"])


def _captured(run: Run, shares_of: Callable[[Record], Sequence[float]]) -> float | None:
    """Return the adversaries' part of all members' shares; None where the run has no attack."""
    if not run.config.get("attacks"):
        return None
    adversaries = adversaries_of(run)
    captured_shares = 0.0
    all_shares = 0.0
    for record in run.records:
        for client, share in zip(record["cohort"], shares_of(record), strict=True):
            all_shares += share
            if client in adversaries:
                captured_shares += share
    if not all_shares:
        return None
    return captured_shares / all_shares


def adversaries_of(run: Run) -> set[int]:
    """Return the ids of the clients that attack, or that are watched as if they did."""
    return {int(client) for client in run.federation().get("adversaries", ())}

"""Attrition: places selected, started, completed and wasted; and the share of places that adversaries hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from sortition.core.arrays import Array
from sortition.core.round_record import RoundRecord, answered_ids
from sortition.results.run_folder import Run

PLACES = ("selected", "started", "completed", "wasted")
EVENTS = ("before", "during", "after", "lost", "late", "duplicated", "stale", "joined", "taken")
ENDED_WITHOUT_UPDATE = ("failed", "given_up", "too_stale")
Record = Mapping[str, Any]  # of a round, as rounds.jsonl has it


def ids_by_place(record: Record) -> dict[str, list[int]]:
    """Return the ids of a round: who was selected and began to train in it, and whose updates it used."""
    selected = list(record.get("cohort") or ())
    completed = answered_ids(cast(RoundRecord, record))
    started = record.get("started")
    if started is None:
        started = selected
    return {
        "selected": selected,
        "started": started,
        "completed": completed,
    }


def clients_at_work(records: Iterable[Record]) -> set[int]:
    """Return the clients that are still at work after the last of these records."""
    at_work: set[int] = set()
    for record in records:
        places = ids_by_place(record)
        at_work |= set(places["started"])
        if not record.get("in_flight"):
            at_work.clear()
            continue
        at_work -= set(places["completed"])
        at_work -= set((record.get("notes") or {}).get("unsound_updates") or ())
        for fate in ENDED_WITHOUT_UPDATE:
            at_work -= {int(client) for client in record.get(fate) or ()}
    return at_work


def count_attrition(records: Iterable[Record]) -> dict[str, int]:
    """Count places by what became of them over all rounds, and how often each kind of fault occurred."""
    totals = dict.fromkeys((*PLACES, *EVENTS, "unsound", "rejected"), 0)
    all_records = list(records)
    for record in all_records:
        for name, ids in ids_by_place(record).items():
            totals[name] += len(ids)
        for name, occurrences in (record.get("faults") or {}).items():
            if isinstance(occurrences, int):
                count = occurrences
            else:
                count = len(occurrences)
            totals[name] = totals.get(name, 0) + count
        totals["unsound"] += len((record.get("notes") or {}).get("unsound_updates") or ())
        totals["rejected"] += len(record.get("rejected") or ())
    totals["wasted"] = totals["started"] - totals["completed"] - len(clients_at_work(all_records))
    return totals


def has_losses(totals: Mapping[str, int]) -> bool:
    """Tell whether anything was lost or went wrong."""
    all_completed = totals["selected"] == totals["started"] == totals["completed"]
    return not all_completed or any(totals[name] for name in totals if name not in PLACES)


def counts_per_client(records: Iterable[Record], n: int) -> dict[str, Array]:
    """Return (N,) times ``selected`` and ``completed``; ``started`` and ``wasted`` too where work was lost."""
    counts = {name: np.zeros(n, np.int64) for name in PLACES}
    all_records = list(records)
    for record in all_records:
        for name, ids in ids_by_place(record).items():
            counts[name][ids] += 1
    counts["wasted"] = counts["started"] - counts["completed"]
    counts["wasted"][list(clients_at_work(all_records))] -= 1
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
    for record in run.records:
        total += record[key] if key in record else len(ids_by_place(record)[place])
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

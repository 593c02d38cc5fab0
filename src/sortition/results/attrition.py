"""Attrition: places selected, started, completed and wasted; and the share of places that adversaries hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from sortition.core.arrays import Array
from sortition.core.record import RoundRecord, answered_ids
from sortition.results.run_folder import Run

PLACES = ("selected", "started", "completed", "wasted")
EVENTS = ("before", "during", "after", "lost", "late", "duplicated", "stale", "joined", "taken")
Record = Mapping[str, Any]


def places(record: Record) -> dict[str, list[int]]:
    """Ids of a round: who was selected, who of these started and completed, and whose work was wasted."""
    selected = list(record.get("cohort") or ())
    completed = answered_ids(cast(RoundRecord, record))
    started = record.get("started")
    if started is None:
        started = selected
    wasted = [client for client in started if client not in set(completed)]
    return dict(zip(PLACES, (selected, started, completed, wasted), strict=True))


def attrition(records: Iterable[Record]) -> dict[str, int]:
    """Totals over rounds: places by what became of them, and how often each kind of fault occurred."""
    totals = dict.fromkeys((*PLACES, *EVENTS, "unsound", "rejected"), 0)
    for record in records:
        for name, ids in places(record).items():
            totals[name] += len(ids)
        for name, found in (record.get("faults") or {}).items():
            totals[name] = totals.get(name, 0) + (found if isinstance(found, int) else len(found))
        totals["unsound"] += len((record.get("notes") or {}).get("unsound_updates") or ())
        totals["rejected"] += len(record.get("rejected") or ())
    return totals


def happened(totals: Mapping[str, int]) -> bool:
    """Whether anything was lost or went wrong."""
    trivial = totals["selected"] == totals["started"] == totals["completed"]
    return not trivial or any(totals[name] for name in totals if name not in PLACES)


def counts_per_client(records: Iterable[Record], n: int) -> dict[str, Array]:
    """(N,) times ``selected`` and ``completed``; ``started`` and ``wasted`` too where work was lost."""
    counts = {name: np.zeros(n, np.int64) for name in PLACES}
    for record in records:
        for name, ids in places(record).items():
            counts[name][ids] += 1
    lost = bool((counts["completed"] < counts["selected"]).any())
    return {name: counts[name] for name in (PLACES if lost else ("selected", "completed"))}


def started(run: Run) -> float | None:
    """Share of the selected places whose client began to train."""
    return _share(run, "started", "selected")


def completed(run: Run) -> float | None:
    """Share of the selected places whose update was used."""
    return _share(run, "completed", "selected")


def wasted(run: Run) -> float | None:
    """Share of the started trainings that came to nothing."""
    return _share(run, "wasted", "started")


def _share(run: Run, part: str, whole: str) -> float | None:
    totals = attrition(run.records)
    return totals[part] / totals[whole] if totals[whole] else None


def trainings(run: Run) -> float | None:
    """Local trainings of all rounds: those of the cohorts, and of clients that only answered questions about them."""
    return _counted(run, "trainings", "started")


def uploads(run: Run) -> float | None:
    """Updates that were sent in all rounds; of those that train before they know whether they are chosen, few."""
    return _counted(run, "uploads", "completed")


def _counted(run: Run, key: str, otherwise: str) -> float | None:
    """What records count under ``key``; those without it, places by what became of them."""
    found = [record[key] if key in record else len(places(record)[otherwise]) for record in run.records]
    return float(sum(found)) if found else None


def captured(run: Run) -> float | None:
    """Share of the cohorts' places that adversaries held; None where the run has no attack."""
    return _captured(run, lambda record: [1.0] * len(record["cohort"]))


def captured_weight(run: Run) -> float | None:
    """Share of the aggregation weight that adversaries held, as the cohorts were chosen."""
    return _captured(run, lambda record: record["weights"])


def _captured(run: Run, of: Callable[[Record], Sequence[float]]) -> float | None:
    if not run.config.get("attacks"):
        return None
    adversaries = adversaries_of(run)
    theirs = total = 0.0
    for record in run.records:
        shares = of(record)
        total += sum(shares)
        theirs += sum(share for client, share in zip(record["cohort"], shares, strict=True) if client in adversaries)
    return theirs / total if total else None


def adversaries_of(run: Run) -> set[int]:
    """Ids of the clients that attack, or that are watched as if they did."""
    return {int(client) for client in run.federation().get("adversaries", ())}

"""What was lost on the way: selected, started, completed and wasted told apart; and what liars got hold of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sortition.core.arrays import Array
from sortition.results.run_folder import Run

PLACES = ("selected", "started", "completed", "wasted")
EVENTS = ("before", "during", "after", "lost", "late", "duplicated", "stale", "joined", "taken")
Record = Mapping[str, Any]


def fates(record: Record) -> dict[str, list[int]]:
    """Ids of a round: who was selected, who of these started and completed, and whose work was wasted."""
    selected = list(record.get("cohort") or ())
    started, completed = record.get("started"), record.get("answered")
    started = selected if started is None else started
    completed = selected if completed is None else completed
    wasted = [client for client in started if client not in set(completed)]
    return dict(zip(PLACES, (selected, started, completed, wasted), strict=True))


def toll(records: Iterable[Record]) -> dict[str, int]:
    """Totals over rounds: places by fate, and every kind of fault by how often it was met."""
    totals = dict.fromkeys((*PLACES, *EVENTS, "unsound", "rejected"), 0)
    for record in records:
        for name, ids in fates(record).items():
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


def per_client(records: Iterable[Record], n: int) -> dict[str, Array]:
    """(N,) times ``selected`` and ``completed``; ``started`` and ``wasted`` too where work was lost."""
    counts = {name: np.zeros(n, np.int64) for name in PLACES}
    for record in records:
        for name, ids in fates(record).items():
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
    totals = toll(run.records)
    return totals[part] / totals[whole] if totals[whole] else None


def captured(run: Run) -> float | None:
    """Share of the cohorts' places that liars held; None where nobody was watched."""
    return _captured(run, lambda record: [1.0] * len(record["cohort"]))


def captured_weight(run: Run) -> float | None:
    """Share of the aggregation weight that liars held, as the cohorts were chosen."""
    return _captured(run, lambda record: record["weights"])


def _captured(run: Run, of: Any) -> float | None:
    if not run.config.get("attacks"):
        return None
    liars = set(run.federation().get("liars", np.empty(0, np.int64)).tolist())
    theirs = total = 0.0
    for record in run.records:
        shares = of(record)
        total += sum(shares)
        theirs += sum(share for client, share in zip(record["cohort"], shares, strict=True) if client in liars)
    return theirs / total if total else None

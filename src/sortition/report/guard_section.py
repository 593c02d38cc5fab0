"""Where guards acted: per method, how often each one did, in all rounds of all seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sortition.report.markup import table_html
from sortition.results.table import Table

if TYPE_CHECKING:
    from sortition.report.digest import Digest
    from sortition.report.gather import Gathered

HEADING_BY_ACTION = {
    "rejected": "answers rejected",
    "unsound_updates": "updates refused",
    "quarantined": "client-rounds in quarantine",
    "at_ceiling": "at the ceiling",
    "just_come": "kept out as just come",
    "thinned": "thinned by quota",
    "explored": "explorers",
    "winsorised": "numbers clipped",
    "shortened": "updates shortened",
    "capped": "members with capped size",
    "too_few_eligible": "rounds with too few eligible",
    "too_few_chosen": "rounds with too few chosen",
    "too_few_completed": "rounds not aggregated",
}
IN_THE_NOTES = (  # the actions that records keep in the notes of the guards
    "quarantined",
    "at_ceiling",
    "just_come",
    "thinned",
    "explored",
    "winsorised",
    "shortened",
    "capped",
    "too_few_eligible",
    "too_few_chosen",
    "too_few_completed",
)


def count_guard_actions(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Count how often each guard acted in these rounds; empty if none did."""
    totals: dict[str, int] = {}
    for record in records:
        notes = record.get("notes") or {}
        guard_notes = notes.get("guards")
        if not isinstance(guard_notes, Mapping):
            guard_notes = {}
        noted = {
            "rejected": record.get("rejected"),
            "unsound_updates": notes.get("unsound_updates"),
            **{name: guard_notes.get(name) for name in IN_THE_NOTES},
        }
        for name, value in noted.items():
            count = _count_in_round(name, value)
            if count > 0:
                totals[name] = totals.get(name, 0) + count
    return totals


def _count_in_round(name: str, value: object) -> int:
    """Return how often a guard acted in a round, from what is noted: clients, how many, or that there were too few."""
    if name.startswith("too_few"):
        return int(value is not None)
    if isinstance(value, list | Mapping):
        return len(value)
    if isinstance(value, int):
        return int(value)
    return 0


def guard_html(gathered: Gathered) -> str:
    """Return HTML: one row per setting and method, one column per action that occurred; empty if none did."""
    return guard_actions_html({row: _total_actions(runs) for row, runs in gathered.runs_by_row().items()})


def guard_actions_html(actions_by_row: Mapping[str, Mapping[str, int]]) -> str:
    """Return HTML: one row per key of `actions_by_row`, one column per action that occurred; empty if none did."""
    acted = [name for name in HEADING_BY_ACTION if any(name in counts for counts in actions_by_row.values())]
    if not acted:
        return ""
    table = Table("Where guards acted", ["method", *[HEADING_BY_ACTION[name] for name in acted]])
    for row, counts in actions_by_row.items():
        table.rows.append([row, *[str(counts.get(name, 0)) for name in acted]])
    return table_html(table)


def _total_actions(runs: Iterable[Digest]) -> dict[str, int]:
    """Return how often each guard acted in all runs together."""
    totals: Counter[str] = Counter()
    for run in runs:
        totals.update(run.guarded)
    return totals

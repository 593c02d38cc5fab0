"""Where guards acted: per method, how often each one did, in all rounds of all seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sortition.report.markup import plain
from sortition.results.table import Table

if TYPE_CHECKING:
    from sortition.report.gather import Gathered

COLUMNS = {
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
OWN = tuple(COLUMNS)[2:]  # in the notes of guards


def actions(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How often each guard acted in these rounds; empty if none did."""
    found: dict[str, int] = {}
    for record in records:
        notes = record.get("notes") or {}
        noted: Any = notes.get("guards")
        noted = noted if isinstance(noted, Mapping) else {}
        here = {"rejected": record.get("rejected"), "unsound_updates": notes.get("unsound_updates")}
        for name, value in {**here, **{name: noted.get(name) for name in OWN}}.items():
            if name.startswith("too_few"):
                value = value is not None
            count = len(value) if isinstance(value, list | Mapping) else value
            if isinstance(count, int) and count > 0:
                found[name] = found.get(name, 0) + int(count)
    return found


def guard_table(gathered: Gathered) -> str:
    """One row a setting and method, a column per guard that acted; nothing where none did."""
    several = len(gathered.settings) > 1
    return actions_table(
        {
            f"{setting.name} · {label}" if several else label: _summed(runs)
            for setting in gathered.settings
            for label, runs in setting.methods.items()
        }
    )


def actions_table(found: Mapping[str, Mapping[str, int]]) -> str:
    """The same of the actions by method."""
    shown = [name for name in COLUMNS if any(name in counts for counts in found.values())]
    if not shown:
        return ""
    table = Table("Where guards acted", ["method", *[COLUMNS[name] for name in shown]])
    for name, counts in found.items():
        table.rows.append([name, *[str(counts.get(key, 0)) for key in shown]])
    return plain(table)


def _summed(runs: Iterable[Any]) -> dict[str, int]:
    total: dict[str, int] = {}
    for run in runs:
        for name, count in run.guarded.items():
            total[name] = total.get(name, 0) + count
    return total

"""Tables of what went wrong: places lost on the way, and places that adversaries captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sortition.results.attrition import PLACES, attrition, happened
from sortition.results.run_folder import Run
from sortition.results.statistics import centre
from sortition.results.table import Table

EVENTS = {
    "before": "never started",
    "during": "stopped",
    "after": "upload lost",
    "lost": "answers lost",
    "late": "answers late",
    "unsound": "bad updates",
    "rejected": "bad numbers",
    "duplicated": "sent twice",
    "stale": "stale",
    "joined": "joined",
    "taken": "ids taken",
}
NOTE = "Per run: places by what became of them, then how often each fault occurred. Wasted: started, and never used."
OF = {"captured": "places of the cohorts", "captured-weight": "aggregation weight"}
PAIRED = "Without → with the registrar's guards, where a setting is run both ways."
Totals = Mapping[str, Sequence[Mapping[str, int]]]  # method label → attrition of each run
Figures = Mapping[str, Sequence[Mapping[str, float | None]]]  # method label → figures of each run


@dataclass(frozen=True)
class Attacked:
    """One setting in which clients attack (or are only watched), with the figures of its runs."""

    name: str
    config: Mapping[str, Any]
    figures: Figures

    @property
    def guarded(self) -> bool:
        """Whether the registrar's guards are on."""
        return bool(self.config.get("guards"))

    @property
    def ground(self) -> dict[str, Any]:
        """What it shares with the same setting under other guards."""
        return {key: self.config[key] for key in self.config if key not in ("setting", "seed", "method", "guards")}

    def share(self, label: str, of: str) -> str:
        """A method's mean over seeds, in %."""
        found = centre([figures.get(of) for figures in self.figures.get(label, ())])
        return "" if found is None else f"{100 * found.mean:.0f}"


def losses(setting: str, totals: Totals) -> Table | None:
    """Selected, started, completed and wasted of each method, means over seeds; None where nothing went wrong."""
    every = [one for found in totals.values() for one in found]
    if not any(happened(one) for one in every):
        return None
    met = [name for name in EVENTS if any(one[name] for one in every)]
    table = Table(f"{setting}: lost on the way", ["method", *PLACES, *[EVENTS[name] for name in met]], notes=[NOTE])
    for label, found in totals.items():
        cells = [f"{sum(one[name] for one in found) / len(found):.4g}" for name in (*PLACES, *met)]
        table.rows.append([label, *cells])
    return table


def capture(settings: Sequence[Attacked]) -> list[Table]:
    """Every method under every attack: adversaries' share of places and of weight; empty without attacks."""
    columns = _columns([one for one in settings if one.config.get("attacks")])
    labels = list(dict.fromkeys(label for column in columns for one in column for label in one.figures))
    notes = [PAIRED] if any(len(column) > 1 for column in columns) else []
    return [
        Table(
            f"Captured by adversaries: {words}, %",
            ["method", *[column[0].name for column in columns]],
            [[label, *[" → ".join(one.share(label, of) for one in column) for column in columns]] for label in labels],
            list(notes),
        )
        for of, words in (OF.items() if columns else ())
    ]


def _columns(attacked: Sequence[Attacked]) -> list[list[Attacked]]:
    """Settings that share a column: one without guards, then the same under guards; the others stand alone."""
    bare = [one for one in attacked if not one.guarded]
    columns = [[one, *[twin for twin in attacked if twin.guarded and twin.ground == one.ground]] for one in bare]
    placed = {one.name for column in columns for one in column}
    return columns + [[one] for one in attacked if one.name not in placed]


def attrition_tables(
    groups: Mapping[str, Mapping[str, Mapping[int, Run]]],
) -> tuple[dict[str, Table], list[Table]]:
    """Of run folders: a table for each setting where work was lost, and the tables of all attacks."""
    lost, settings = {}, []
    for setting, methods in groups.items():
        totals = {label: [attrition(run.records) for run in runs.values()] for label, runs in methods.items()}
        if table := losses(setting, totals):
            lost[setting] = table
        figures = {
            label: [run.summary.get("figures") or {} for run in runs.values()] for label, runs in methods.items()
        }
        settings.append(Attacked(setting, next(iter(next(iter(methods.values())).values())).config, figures))
    return lost, capture(settings)

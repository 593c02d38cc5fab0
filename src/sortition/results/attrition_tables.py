"""Tables of what went wrong: places lost on the way, and places that adversaries captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sortition.results.attrition import IN_FLIGHT, PLACES, count_attrition, has_losses
from sortition.results.metrics import figures_of
from sortition.results.run_folder import Run
from sortition.results.statistics import centre
from sortition.results.table import Table

EVENTS = {
    IN_FLIGHT: "at work at the end",
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
CAPTURED = {"captured": "places of the cohorts", "captured-weight": "aggregation weight"}
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
    def is_guarded(self) -> bool:
        """Tell whether the registrar's guards are on."""
        return bool(self.config.get("guards"))

    @property
    def config_without_guards(self) -> dict[str, Any]:
        """Return what it shares with the same setting under other guards."""
        return {key: self.config[key] for key in self.config if key not in ("setting", "seed", "method", "guards")}

    def share(self, label: str, figure: str) -> str:
        """Write a method's mean over seeds, in %; empty where it is not known."""
        middle = centre([figures.get(figure) for figures in self.figures.get(label, ())])
        if middle is None:
            return ""
        return f"{100 * middle.mean:.0f}"


def losses_table(setting: str, totals: Totals) -> Table | None:
    """Make the table of places by what became of them, means over seeds; None where nothing went wrong."""
    all_runs = [run for runs in totals.values() for run in runs]
    if not any(has_losses(run) for run in all_runs):
        return None
    events = [name for name in EVENTS if any(run[name] for run in all_runs)]
    columns = ["method", *PLACES, *[EVENTS[name] for name in events]]
    table = Table(f"{setting}: lost on the way", columns, notes=[NOTE])
    for label, runs in totals.items():
        means = [sum(run[name] for run in runs) / len(runs) for name in (*PLACES, *events)]
        table.rows.append([label, *[f"{mean:.4g}" for mean in means]])
    return table


def capture_tables(settings: Sequence[Attacked]) -> list[Table]:
    """Make the tables of adversaries' shares of places and of weight under every attack; none without attacks."""
    columns = _columns([setting for setting in settings if setting.config.get("attacks")])
    if not columns:
        return []
    labels = list(dict.fromkeys(label for column in columns for setting in column for label in setting.figures))
    if any(len(column) > 1 for column in columns):
        notes = [PAIRED]
    else:
        notes = []
    result = []
    for figure, words in CAPTURED.items():
        table = Table(f"Captured by adversaries: {words}, %", ["method"], notes=list(notes))
        table.columns += [column[0].name for column in columns]
        for label in labels:
            cells = [" → ".join(setting.share(label, figure) for setting in column) for column in columns]
            table.rows.append([label, *cells])
        result.append(table)
    return result


def _columns(settings: Sequence[Attacked]) -> list[list[Attacked]]:
    """Group settings that share a column: one without guards, then the same under guards; the others stand alone."""
    columns = []
    for setting in settings:
        if not setting.is_guarded:
            unguarded_config = setting.config_without_guards
            twins = [twin for twin in settings if twin.is_guarded and twin.config_without_guards == unguarded_config]
            columns.append([setting, *twins])
    placed = {setting.name for column in columns for setting in column}
    return columns + [[setting] for setting in settings if setting.name not in placed]


def attrition_tables(
    groups: Mapping[str, Mapping[str, Mapping[int, Run]]],
) -> tuple[dict[str, Table], list[Table]]:
    """Make a table for each setting of run folders where work was lost, and the tables of all attacks."""
    losses_by_setting = {}
    attacked = []
    for setting, methods in groups.items():
        totals = {label: [count_attrition(run.records) for run in runs.values()] for label, runs in methods.items()}
        if table := losses_table(setting, totals):
            losses_by_setting[setting] = table
        figures = {label: [figures_of(run) for run in runs.values()] for label, runs in methods.items()}
        any_run = next(run for runs in methods.values() for run in runs.values())
        attacked.append(Attacked(name=setting, config=any_run.config, figures=figures))
    return losses_by_setting, capture_tables(attacked)

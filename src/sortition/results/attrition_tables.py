"""Tables of what went wrong: places lost on the way, and places that liars captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sortition.results.attrition import PLACES, happened, toll
from sortition.results.run_folder import Run
from sortition.results.statistics import centre
from sortition.results.table import Sheet

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
NOTE = "Per run: places by what became of them, then how often each fault was met. Wasted: started, and never used."
OF = {"captured": "places of the cohorts", "captured-weight": "aggregation weight"}
PAIRED = "Without → with the registrar's guards, where a setting is played both ways."
Tolls = Mapping[str, Sequence[Mapping[str, int]]]  # method label → totals of each run
Figures = Mapping[str, Sequence[Mapping[str, float | None]]]  # method label → figures of each run


@dataclass(frozen=True)
class Attacked:
    """One setting in which clients lie (or are only watched), with the figures of its runs."""

    name: str
    config: Mapping[str, Any]
    figures: Figures

    @property
    def ground(self) -> dict[str, Any]:
        """What it shares with the same setting under other guards."""
        return {key: self.config[key] for key in self.config if key not in ("setting", "seed", "method", "guards")}

    def share(self, label: str, of: str) -> str:
        """A method's mean over seeds, in %."""
        found = centre([figures.get(of) for figures in self.figures.get(label, ())])
        return "" if found is None else f"{100 * found.mean:.0f}"


def fates(setting: str, tolls: Tolls) -> Sheet | None:
    """Selected, started, completed and wasted of each method, means over seeds; None where nothing went wrong."""
    if not any(happened(one) for found in tolls.values() for one in found):
        return None
    met = [name for name in EVENTS if any(one[name] for found in tolls.values() for one in found)]
    sheet = Sheet(f"{setting}: lost on the way", ["method", *PLACES, *[EVENTS[name] for name in met]], notes=[NOTE])
    for label, found in tolls.items():
        cells = [f"{sum(one[name] for one in found) / len(found):.4g}" for name in (*PLACES, *met)]
        sheet.rows.append([label, *cells])
    return sheet


def captured(settings: Sequence[Attacked]) -> list[Sheet]:
    """Every method under every attack: the share of places and of weight that liars held; none where nobody lies."""
    attacked = [one for one in settings if one.config.get("attacks")]
    bare = [one for one in attacked if not one.config.get("guards")]
    twins = {one.name: [g for g in attacked if g.config.get("guards") and g.ground == one.ground] for one in bare}
    columns = bare + [one for one in attacked if one not in bare and not any(one in found for found in twins.values())]
    labels = list(dict.fromkeys(label for one in attacked for label in one.figures))
    made = []
    for of, words in OF.items() if attacked else ():
        sheet = Sheet(f"Captured by liars: {words}, %", ["method", *[one.name for one in columns]])
        for label in labels:
            cells = [[one, *twins.get(one.name, [])] for one in columns]
            sheet.rows.append([label, *[" → ".join(each.share(label, of) for each in cell) for cell in cells]])
        sheet.notes = [PAIRED] if any(twins.values()) else []
        made.append(sheet)
    return made


def sheets(groups: Mapping[str, Mapping[str, Mapping[int, Run]]]) -> tuple[dict[str, Sheet], list[Sheet]]:
    """The same of run folders: a table for each setting where work was lost, and those of all liars."""
    lost, settings = {}, []
    for setting, methods in groups.items():
        tolls = {label: [toll(run.records) for run in runs.values()] for label, runs in methods.items()}
        if sheet := fates(setting, tolls):
            lost[setting] = sheet
        figures = {
            label: [run.summary.get("figures") or {} for run in runs.values()] for label, runs in methods.items()
        }
        settings.append(Attacked(setting, next(iter(next(iter(methods.values())).values())).config, figures))
    return lost, captured(settings)

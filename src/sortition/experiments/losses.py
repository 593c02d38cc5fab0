"""Tables of what went wrong: places lost on the way, and places that liars captured."""

from __future__ import annotations

from collections.abc import Mapping

from sortition.experiments import metrics
from sortition.experiments.records import Run
from sortition.experiments.sheet import Sheet
from sortition.experiments.statistics import centre
from sortition.experiments.toll import PLACES, happened, toll

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
CAPTURED = "Share of the cohorts' places that liars held and, in brackets, of the aggregation weight, in %."
Methods = Mapping[str, Mapping[int, Run]]


def fates(setting: str, methods: Methods) -> Sheet | None:
    """Selected, started, completed and wasted of each method, means over seeds; None where nothing went wrong."""
    tolls = {label: [toll(run.records) for run in runs.values()] for label, runs in methods.items()}
    if not any(happened(one) for found in tolls.values() for one in found):
        return None
    met = [name for name in EVENTS if any(one[name] for found in tolls.values() for one in found)]
    sheet = Sheet(f"{setting}: lost on the way", ["method", *PLACES, *[EVENTS[name] for name in met]], notes=[NOTE])
    for label, found in tolls.items():
        cells = [f"{sum(one[name] for one in found) / len(found):.4g}" for name in (*PLACES, *met)]
        sheet.rows.append([label, *cells])
    return sheet


def captured(groups: Mapping[str, Methods]) -> Sheet | None:
    """Every method under every attack, side by side; None where nobody lies."""
    told = {
        setting: {label: cell for label, runs in methods.items() if (cell := _captured(runs))}
        for setting, methods in groups.items()
    }
    attacked = [setting for setting in told if told[setting]]
    if not attacked:
        return None
    labels = list(dict.fromkeys(label for setting in attacked for label in told[setting]))
    sheet = Sheet("captured by liars, %", ["method", *attacked], notes=[CAPTURED])
    sheet.rows = [[label, *[told[setting].get(label, "") for setting in attacked]] for label in labels]
    return sheet


def _captured(runs: Mapping[int, Run]) -> str:
    means = [centre([_figure(run, name) for run in runs.values()]) for name in ("captured", "captured-weight")]
    places, weight = (None if found is None else 100 * found.mean for found in means)
    return "" if places is None or weight is None else f"{places:.0f} ({weight:.0f})"


def _figure(run: Run, name: str) -> float | None:
    held = (run.summary.get("figures") or {}).get(name)
    return metrics.METRICS[name](run) if held is None else float(held)

"""The table at the end of a study: how good, how soon, against uniform in pairs, how fair, at what cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from sortition.results import metrics
from sortition.results.attrition_tables import attrition_tables
from sortition.results.run_folder import Run
from sortition.results.statistics import Paired, centre, holm, paired, verdict
from sortition.results.table import Table, mean_and_sd

BASELINE = "uniform"
Groups = dict[str, dict[str, dict[int, Run]]]


def grouped(runs: Iterable[Run]) -> Groups:
    """Setting → method label → seed → run, in the order of the runs."""
    groups: Groups = {}
    for run in runs:
        groups.setdefault(run.setting, {}).setdefault(run.method, {})[run.seed] = run
    return groups


def baseline(methods: Mapping[str, Mapping[int, Run]]) -> str | None:
    """The label that others are compared with: ``uniform``, or else the first that is uniform by name."""
    if BASELINE in methods:
        return BASELINE
    named = {label: next(iter(runs.values())).config["method"]["name"] for label, runs in methods.items()}
    return next((label for label, name in named.items() if name == BASELINE), None)


def tables(runs: Iterable[Run]) -> list[Table]:
    """Two tables a setting, learning and comparison with costs; a third where work was lost, and two of all attacks.

    Only finished runs count.
    """
    made: dict[str, list[Table]] = {}
    groups = {}
    for setting, methods in grouped(runs).items():
        finished = {label: {s: r for s, r in runs.items() if r.done} for label, runs in methods.items()}
        left = sum(len(runs) for runs in methods.values()) - sum(len(runs) for runs in finished.values())
        finished = {label: runs for label, runs in finished.items() if runs}
        if finished:
            groups[setting] = finished
            made[setting] = [learning(setting, finished, left), comparison(setting, finished)]
    lost, captured = attrition_tables(groups)
    own = [table for setting in made for table in (*made[setting], *([lost[setting]] if setting in lost else []))]
    return [*own, *captured]


def learning(setting: str, methods: Mapping[str, Mapping[int, Run]], left: int = 0) -> Table:
    """Best, final, last-10 and mean of the metric; rounds to the target, raw and of the 5-round mean."""
    config = next(iter(next(iter(methods.values())).values())).config
    of, target = metric_of(config), config.get("target", {})
    columns = ["method", "seeds", f"best {of}", "final", "last 10", "mean"]
    if target:
        columns += [f"rounds to {target[of]:g}", f"{metrics.SMOOTH}-round mean"]
    table = Table(f"{setting}: test {of}", columns)
    for label, runs in methods.items():
        cells = [_text(runs, f"{name}-{of}") for name in ("best", "final", "last", "mean")]
        if target:
            keys = ("rounds-to-target", "rounds-to-target-smoothed")
            cells += [mean_and_sd(centre(_values(runs, key)), 1, total=len(runs)) for key in keys]
        table.rows.append([label, str(len(runs)), *cells])
    if target:
        table.notes.append("Rounds to the target: mean ± sd over the seeds that reached it (how many of all).")
    if left:
        table.notes.append(f"{left} unfinished runs are left out.")
    return table


def comparison(setting: str, methods: Mapping[str, Mapping[int, Run]]) -> Table:
    """Paired difference from the baseline with its verdict, then fairness and cost."""
    config = next(iter(next(iter(methods.values())).values())).config
    of = metric_of(config)
    unit, scale = ("points", 100.0) if of == "accuracy" else ("", 1.0)
    base = baseline(methods)
    found = {} if base is None else differences(methods, base, f"last-{of}")
    columns = ["method", *([f"last 10 − {base}, {unit}".rstrip(", "), "verdict"] if base else [])]
    table = Table(f"{setting}: compared", [*columns, "worst tenth", "Jain", "MB", "ms/select", "s"])
    for label, runs in methods.items():
        cells = [label]
        if base:
            one = found.get(label)
            cells += [_difference(one, scale), verdict(one, higher=metrics.HIGHER[of]) if one else "–"]
        cells += [_text(runs, "worst-tenth"), _text(runs, "jain", spread=False), _text(runs, "megabytes", 1, False)]
        timed = [[metrics.METRICS[key](run) for run in runs.values()] for key in ("selection-ms", "seconds")]
        table.rows.append([*cells, *[_mean(values) for values in timed]])
    if found:
        table.notes.append("Difference: mean over paired seeds [95 % bootstrap interval]; Wilcoxon, Holm-corrected.")
        if all(one.floor >= 0.05 for one in found.values()):
            least = min(one.floor for one in found.values())
            table.notes.append(f"So few seeds cannot fall below p = {least:.2g} here; 10 or more are advised.")
    return table


def metric_of(config: Mapping[str, Any]) -> str:
    """What a study is judged by: the metric of its target, else accuracy."""
    return "loss" if "loss" in config.get("target", {}) else "accuracy"


def differences(methods: Mapping[str, Mapping[int, Run]], base: str, key: str) -> dict[str, Paired]:
    """Every method against the baseline, seed by seed, corrected for all comparisons of the setting."""
    theirs = {seed: figure(run, key) for seed, run in methods[base].items()}
    found = {
        label: one
        for label, runs in methods.items()
        if label != base and (one := paired({seed: figure(run, key) for seed, run in runs.items()}, theirs))
    }
    return holm(found)


def figure(run: Run, key: str) -> float | None:
    """One of the standard figures of a finished run."""
    figures = run.summary.get("figures") or metrics.summarise(run)
    value = figures.get(key)
    return None if value is None else float(value)


def _values(runs: Mapping[int, Run], key: str) -> list[float | None]:
    return [figure(run, key) for run in runs.values()]


def _text(runs: Mapping[int, Run], key: str, digits: int = 3, spread: bool = True) -> str:
    values = _values(runs, key)
    return mean_and_sd(centre(values), digits) if spread else _mean(values, digits)


def _mean(values: list[float | None], digits: int = 2) -> str:
    found = centre(values)
    return "" if found is None else f"{found.mean:.{digits}f}"


def _difference(one: Paired | None, scale: float) -> str:
    if one is None:
        return "–"
    spread = "" if math.isnan(one.low) else f" [{one.low * scale:+.2f}, {one.high * scale:+.2f}]"
    return f"{one.mean * scale:+.2f}{spread}"

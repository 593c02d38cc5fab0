"""The tables at the end of a study: how well it learnt, how fairly and at what cost, and against the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from sortition.results import comparisons, metrics
from sortition.results.attrition_tables import attrition_tables
from sortition.results.comparisons import COMPARED, MARGIN, Methods, metric_of
from sortition.results.run_folder import Run
from sortition.results.statistics import centre
from sortition.results.table import NOT_FINITE, Table, mean_and_sd

Runs = Mapping[str, Mapping[int, Run]]  # method label → seed → run
Groups = dict[str, dict[str, dict[int, Run]]]  # setting → method label → seed → run
CLOCK = ("selection-ms", "seconds")


def grouped(runs: Iterable[Run]) -> Groups:
    """Setting → method label → seed → run, in the order of the runs."""
    groups: Groups = {}
    for run in runs:
        groups.setdefault(run.setting, {}).setdefault(run.method, {})[run.seed] = run
    return groups


def tables(runs: Iterable[Run], margin: float = MARGIN) -> list[Table]:
    """Of each setting: learning, fairness and cost, comparisons, losses on the way; then attacks.

    Only finished runs count.
    """
    made: dict[str, list[Table]] = {}
    groups = {}
    for setting, methods in grouped(runs).items():
        finished = {label: {s: r for s, r in runs.items() if r.done} for label, runs in methods.items()}
        left = sum(len(runs) for runs in methods.values()) - sum(len(runs) for runs in finished.values())
        if finished := {label: runs for label, runs in finished.items() if runs}:
            groups[setting] = finished
            made[setting] = [learning(setting, finished, left), cost(setting, finished)]
            made[setting] += compared(setting, finished, margin)
    lost, captured = attrition_tables(groups)
    own = [table for setting in made for table in (*made[setting], *([lost[setting]] if setting in lost else []))]
    return [*own, *captured]


def conclusions(runs: Iterable[Run], margin: float = MARGIN) -> list[str]:
    """Sentences: each method against the baseline, the best first; the setting's name before them where several are."""
    groups = grouped(run for run in runs if run.done)
    return [
        f"{setting}: {sentence}" if len(groups) > 1 else sentence
        for setting, methods in groups.items()
        for _, sentence in comparisons.conclusions(figures(methods), baseline(methods), metric(methods), margin)
    ]


def heading(runs: Iterable[Run]) -> str:
    """What stands above the conclusions: which figure they compare, with what."""
    settings = grouped(runs).values()
    compared_by = {(metric(one), str(baseline(one))) for one in settings}
    played = [run for methods in settings for seeds in methods.values() for run in seeds.values()]
    evaluated = max((sum("test" in record for record in run.records) for run in played), default=0)
    if len(compared_by) > 1:
        return f"Over {averaged(evaluated)}, each setting by its own figure and baseline:"
    return heading_of(*compared_by.pop(), evaluated)


def heading_of(of: str, base: str, evaluated: int) -> str:
    """What stands above conclusions on the metric ``of``, where the runs have so many evaluated rounds."""
    unit = comparisons.unit_of(of)[2]
    return f"Test {of} over {averaged(evaluated)} against {base}{f', in {unit}' if unit else ''}:"


def averaged(evaluated: int) -> str:
    """Which rounds the compared figure is the mean of, in words: studies may have fewer evaluated rounds than ten."""
    if not 0 < evaluated < metrics.LAST:
        return f"the last {metrics.LAST} rounds"
    return "the only round" if evaluated == 1 else f"all {evaluated} rounds"


def inputs(runs: Iterable[Run]) -> list[str]:
    """What the models got, one line for each data set: the inputs, what was done to them, what was held out."""
    settings: dict[str, list[str]] = {}
    for run in runs:
        words = inputs_of(run.manifest)
        if words and run.setting not in settings.setdefault(words, []):
            settings[words].append(run.setting)
    if len(settings) == 1:
        return [f"Inputs: {words}" for words in settings]
    return [f"Inputs of {', '.join(names)}: {words}" for words, names in settings.items()]


def inputs_of(manifest: Mapping[str, Any]) -> str:
    """What the inputs of a run are and what was held out for testing; empty where its manifest does not say."""
    words, held_out = manifest.get("inputs"), manifest.get("held_out")
    if not isinstance(words, str):
        return ""
    return f"{words}. Held out for testing: {held_out}." if held_out else f"{words}."


def learning(setting: str, methods: Runs, left: int = 0) -> Table:
    """Best, final, last-10 and mean of the metric; rounds to the target, raw and of the 5-round mean."""
    of, target = metric(methods), _config(methods).get("target", {})
    known = figures(methods)
    table = Table(f"{setting}: test {of}", ["method", "seeds", "best", "final", "last 10", "all rounds"])
    keys = [f"{name}-{of}" for name in ("best", "final", "last", "mean")]
    if target:
        table.columns += [f"rounds to {target[of]:g}", f"{metrics.SMOOTH}-round mean"]
        table.notes.append("Rounds to the target: mean ± sd over the seeds that reached it (how many of all).")
    for label, runs in known.items():
        cells = [mean_and_sd(centre(_values(runs, key)), 3) for key in keys]
        if target:
            reached = ("rounds-to-target", "rounds-to-target-smoothed")
            cells += [mean_and_sd(centre(_values(runs, key)), 1, total=len(runs)) for key in reached]
        table.rows.append([label, str(len(runs)), *cells])
    table.notes += [*_diverged(methods), *_untaught(methods)]
    if left:
        table.notes.append(f"{left} unfinished runs are left out.")
    return table


def cost(setting: str, methods: Runs) -> Table:
    """How evenly clients were served and chosen, and what it cost."""
    table = Table(f"{setting}: fairness and cost", ["method", "worst tenth", "Jain", "MB", "ms/select", "s"])
    known, apart = figures(methods), ("trainings", "uploads")
    counted = [key for key in apart if any(key in found for runs in known.values() for found in runs.values())]
    table.columns += counted
    for label, runs in known.items():
        timed = [[metrics.METRICS[key](run) for run in methods[label].values()] for key in CLOCK]
        cells = [mean_and_sd(centre(_values(runs, "worst-tenth")), 3), _mean(_values(runs, "jain"), 3)]
        cells += [_mean(_values(runs, "megabytes"), 1), *[_mean(values) for values in timed]]
        found = [[metrics.METRICS[key](run) for run in methods[label].values()] for key in counted]
        table.rows.append([label, *cells, *[_mean(values, 0) for values in found]])
    return table


def compared(setting: str, methods: Runs, margin: float = MARGIN) -> list[Table]:
    """Two tables of paired differences from the baseline with their verdicts; none without a baseline."""
    of, base, known = metric(methods), baseline(methods), figures(methods)
    unit = comparisons.unit_of(of)[2]
    made, apart = [], False
    for figure, words in COMPARED.items() if base else ():
        found = comparisons.against_baseline(known, base, of, figure, margin)
        apart = apart or any(one.apart for one in found.values())
        columns = ["method", words, f"− {base}{f', {unit}' if unit else ''}", "p", "verdict"]
        table = Table(f"{setting}: {words}, compared", columns)
        for label, runs in known.items():
            one = found.get(label)
            verdict = comparisons.verdict_text(one) or comparisons.role_text(label, base)
            difference = comparisons.difference_text(one, of) if one else ""
            value = _mean(_values(runs, f"{figure}-{of}"), 3)
            table.rows.append([label, value, difference, comparisons.p_text(one), verdict])
        made.append(table)
    if made and len(known) > 1:
        made[-1].notes = [_note(of, margin), *([ENDED_APART] if apart else [])]
    return made


ENDED_APART = "No difference: runs of a pair ended at different rounds, so that their means over rounds say nothing."


def _note(of: str, margin: float) -> str:
    region = f"±{margin:g} points" if of == "accuracy" else f"±{margin:g} % of the baseline's loss"
    return (
        f"Paired over seeds: mean [simultaneous 95 % interval], p with Bonferroni's correction; practically equal: "
        f"within {region}. Undecided: (seeds that would decide)."
    )


def figures(methods: Runs) -> Methods:
    """The standard figures of each run, and its rounds."""
    return {
        label: {seed: {**_figures(run), "rounds": float(len(run.records))} for seed, run in runs.items()}
        for label, runs in methods.items()
    }


def _figures(run: Run) -> Mapping[str, float | None]:
    """Those of the summary, which holds null where one is not finite: then they follow from the records."""
    stored = run.summary.get("figures") or {}
    whole = all(stored.get(f"{name}-{of}") is not None for of in metrics.HIGHER for name in ("last", "mean"))
    return stored if whole else metrics.summarise(run)


def baseline(methods: Runs) -> str | None:
    """The label that others are compared with."""
    return comparisons.baseline_of(
        {label: next(iter(runs.values())).config["method"]["name"] for label, runs in methods.items()}
    )


def metric(methods: Runs) -> str:
    """What the study is judged by."""
    return metric_of(_config(methods))


def _config(methods: Runs) -> dict[str, Any]:
    return next(iter(next(iter(methods.values())).values())).config


def _diverged(methods: Runs) -> list[str]:
    counts = {label: sum(metrics.diverged(run) for run in runs.values()) for label, runs in methods.items()}
    return [
        f"{label} diverged on {count} of {len(methods[label])} seeds: its loss is infinite, "
        "or ends above that of guessing."
        for label, count in counts.items()
        if count
    ]


def _untaught(methods: Runs) -> list[str]:
    """A remark where no method's model is much better than a guess; nothing where labels are unknown."""
    counts = next(iter(next(iter(methods.values())).values())).federation().get("label_counts")
    found = [centre(_values(runs, "last-accuracy")) for runs in figures(methods).values()]
    return metrics.near_chance([one.mean for one in found if one], counts)


def _values(runs: Mapping[int, Mapping[str, float | None]], key: str) -> list[float | None]:
    return [found.get(key) for found in runs.values()]


def _mean(values: list[float | None], digits: int = 2) -> str:
    found = centre(values)
    if found is None:
        return ""
    return f"{found.mean:.{digits}f}" if math.isfinite(found.mean) else NOT_FINITE

"""The tables at the end of a study: how well it learnt, how fairly and at what cost, and how methods compare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sortition.results import metrics, verdict_words
from sortition.results.attrition_tables import attrition_tables
from sortition.results.comparisons import (
    COMPARED,
    DEFAULT,
    Criteria,
    Methods,
    SettingComparison,
    metric_of,
    resolution_of,
)
from sortition.results.copies import Copy, without_copies
from sortition.results.run_folder import Run
from sortition.results.statistics import HIGHER, Comparison, Reason, centre
from sortition.results.table import NOT_FINITE, Table, mean_and_sd

Runs = Mapping[str, Mapping[int, Run]]  # method label → seed → run
Groups = dict[str, dict[str, dict[int, Run]]]  # setting → method label → seed → run
CLOCK = ("selection-ms", "seconds")
ENDED_APART = "No difference: runs of a pair ended at different rounds, so that their means over rounds say nothing."
NO_VERDICT = "Without a verdict: fewer than three seeds, or a run that diverged."


def grouped(runs: Iterable[Run]) -> Groups:
    """Setting → method label → seed → run, in the order of the runs."""
    groups: Groups = {}
    for run in runs:
        groups.setdefault(run.setting, {}).setdefault(run.method, {})[run.seed] = run
    return groups


@dataclass(frozen=True)
class Finished:
    """The finished runs of a study that count.

    Attributes:
        groups: setting → method label → seed → run.
        unfinished: setting → how many runs are left out.
        copies: runs that are not counted, since they are others under a second seed number.
    """

    groups: Groups
    unfinished: Mapping[str, int]
    copies: list[Copy]


def finished(runs: Iterable[Run]) -> Finished:
    """Sort the runs of a study: only finished runs count, and each of them once."""
    everything = list(runs)
    counted, copies = without_copies(run for run in everything if run.done)
    unfinished: dict[str, int] = {}
    for run in everything:
        if not run.done:
            unfinished[run.setting] = unfinished.get(run.setting, 0) + 1
    order = list(dict.fromkeys(run.setting for run in everything))
    groups = grouped(counted)
    return Finished({name: groups[name] for name in order if name in groups}, unfinished, copies)


def tables(runs: Iterable[Run], criteria: Criteria = DEFAULT) -> list[Table]:
    """Of each setting: learning, fairness and cost, comparisons, losses on the way; then attacks."""
    found = finished(runs)
    lost, captured = attrition_tables(found.groups)
    made: list[Table] = []
    for setting, methods in found.groups.items():
        first = learning(setting, methods, found.unfinished.get(setting, 0))
        first.notes += [copy.text for copy in found.copies if copy.setting == setting]
        made += [first, cost(setting, methods), *compared(setting, methods, criteria)]
        if setting in lost:
            made.append(lost[setting])
    return [*made, *captured]


def conclusions(runs: Iterable[Run], criteria: Criteria = DEFAULT) -> list[str]:
    """Sentences: each comparison, the best first; the setting's name before them where there are several."""
    groups = finished(runs).groups
    sentences = []
    for setting, methods in groups.items():
        comparison = comparison_of(methods, criteria)
        against = list(comparison.against_baseline().values())
        others = [pair for pair in comparison.every_pair() if pair.baseline != comparison.baseline]
        for one in [*verdict_words.in_order(against), *others]:
            sentence = verdict_words.sentence(one)
            sentences.append(f"{setting}: {sentence}" if len(groups) > 1 else sentence)
    return sentences


def heading(runs: Iterable[Run], criteria: Criteria = DEFAULT) -> str:
    """What stands above the conclusions: which figure they compare, with what, and what is not controlled."""
    groups = finished(runs).groups
    comparisons = [comparison_of(methods, criteria) for methods in groups.values()]
    played = [run for methods in groups.values() for seeds in methods.values() for run in seeds.values()]
    evaluated = max((sum("test" in record for record in run.records) for run in played), default=0)
    compared_with = "each other" if criteria.all_pairs else ""
    headings = {verdict_words.heading(one.metric, compared_with or str(one.baseline), evaluated) for one in comparisons}
    if len(headings) == 1:
        text = headings.pop()
    else:
        text = f"Over {verdict_words.averaged(evaluated)}, each setting by its own figure and baseline:"
    note = verdict_words.several_settings_note(len(groups))
    return f"{note} {text}" if note else text


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


def comparison_of(methods: Runs, criteria: Criteria = DEFAULT) -> SettingComparison:
    """What the runs of one setting say about its methods."""
    every_run = [run for runs in methods.values() for run in runs.values()]
    of = metric(methods)
    return SettingComparison(
        figures=figures(methods),
        names=names_of(methods),
        configs={label: {seed: run.config for seed, run in runs.items()} for label, runs in methods.items()},
        metric=of,
        criteria=criteria,
        resolution=resolution_of([run.manifest for run in every_run], of),
    )


def names_of(methods: Runs) -> dict[str, str]:
    """Label → name of the method."""
    return {label: str(next(iter(runs.values())).config["method"].get("name", "")) for label, runs in methods.items()}


def compared(setting: str, methods: Runs, criteria: Criteria = DEFAULT) -> list[Table]:
    """Two tables of paired differences from the baseline with their verdicts, and one of all pairs where asked for."""
    comparison = comparison_of(methods, criteria)
    made = []
    if comparison.baseline is not None:
        made = [_against_baseline(setting, comparison, figure) for figure in COMPARED]
    if criteria.all_pairs:
        made.append(every_pair(setting, comparison))
    everything = [one for figure in COMPARED for one in comparison.every_pair(figure)]
    if made and everything:
        made[-1].notes = _notes(everything, comparison)
    return made


def _against_baseline(setting: str, comparison: SettingComparison, figure: str) -> Table:
    found = comparison.against_baseline(figure)
    unit = verdict_words.unit_of(comparison.metric).name
    words = COMPARED[figure]
    difference = f"− {comparison.baseline}{f', {unit}' if unit else ''}"
    table = Table(f"{setting}: {words}, compared", ["method", words, difference, "p", "verdict"])
    for label, runs in comparison.figures.items():
        one = found.get(label)
        table.rows.append(
            [
                label,
                _mean(_values(runs, f"{figure}-{comparison.metric}"), 3),
                verdict_words.difference_text(one),
                verdict_words.p_text(one),
                verdict_words.cell_text(label, one, comparison.baseline),
            ]
        )
    return table


def every_pair(setting: str, comparison: SettingComparison, figure: str = "last") -> Table:
    """All pairs of methods, which are one family of tests."""
    unit = verdict_words.unit_of(comparison.metric).name
    difference = f"difference{f', {unit}' if unit else ''}"
    table = Table(f"{setting}: {COMPARED[figure]}, all pairs", ["method", "minus", difference, "p", "verdict"])
    for one in comparison.every_pair(figure):
        words = verdict_words.difference_text(one), verdict_words.p_text(one), verdict_words.verdict_text(one)
        table.rows.append([one.method, one.baseline, *words])
    return table


def _notes(comparisons: list[Comparison], comparison: SettingComparison) -> list[str]:
    """What stands below the tables of comparisons."""
    margin = comparison.criteria.margin
    region = f"±{margin:g} points" if comparison.metric == "accuracy" else f"±{margin:g} % of the baseline's loss"
    notes = [
        f"Paired over seeds: mean [simultaneous 95 % interval], p with Bonferroni's correction; practically equal: "
        f"within {region}. Undecided: (seeds that would decide)."
    ]
    reasons = {one.reason for one in comparisons}
    if Reason.FEW_SEEDS in reasons or Reason.DIVERGED in reasons:
        notes.append(NO_VERDICT)
    if Reason.ENDED_APART in reasons:
        notes.append(ENDED_APART)
    if any(one.skewed and one.decided for one in comparisons):
        notes.append(f"Skewed: {verdict_words.SKEWED}.")
    if warning := verdict_words.unfair_warning(comparison.shown_first()):
        notes.append(warning)
    return notes


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


def figures(methods: Runs) -> Methods:
    """The standard figures of each run, and its rounds."""
    return {
        label: {seed: {**_figures(run), "rounds": float(len(run.records))} for seed, run in runs.items()}
        for label, runs in methods.items()
    }


def _figures(run: Run) -> Mapping[str, float | None]:
    """Those of the summary, which holds null where one is not finite: then they follow from the records."""
    stored = run.summary.get("figures") or {}
    whole = all(stored.get(f"{name}-{of}") is not None for of in HIGHER for name in ("last", "mean"))
    return stored if whole else metrics.summarise(run)


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

"""The tables at the end of a study: how well it learnt, how fairly and at what cost, and how methods compare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sortition.core.cost import Currency
from sortition.results import metrics, verdict_words
from sortition.results.attrition_tables import attrition_tables
from sortition.results.comparisons import (
    DEFAULT,
    Criteria,
    Figures,
    Methods,
    SettingComparison,
    figure_to_target,
    resolution_of,
    with_inputs,
)
from sortition.results.copies import Copy, without_copies
from sortition.results.equal_cost import common_budget, figures_at_cost, limit_of
from sortition.results.reference_lines import REFERENCES
from sortition.results.run_folder import Run
from sortition.results.statistics import Budget, Comparison, Reason, centre
from sortition.results.table import NOT_FINITE, Table, mean_and_sd
from sortition.results.task_metric import metric_of, tested_metrics

Runs = Mapping[str, Mapping[int, Run]]  # method label → seed → run
Groups = dict[str, dict[str, dict[int, Run]]]  # setting → method label → seed → run
ENDED_APART = "No difference: runs of a pair ended at different rounds, so that their means over rounds say nothing."
NOT_REACHED = "No difference in the cost to the target: not every run of the pair reached it."
NO_VERDICT = "Without a verdict: fewer than three seeds, or a run that diverged."


def group_runs(runs: Iterable[Run]) -> Groups:
    """Group runs as setting → method label → seed → run, in their order."""
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


def sort_finished(runs: Iterable[Run]) -> Finished:
    """Sort the runs of a study: only finished runs count, and each of them once."""
    all_runs = list(runs)
    counted, copies = without_copies(run for run in all_runs if run.done)
    unfinished: dict[str, int] = {}
    for run in all_runs:
        if not run.done:
            unfinished[run.setting] = unfinished.get(run.setting, 0) + 1
    groups = group_runs(counted)
    order = dict.fromkeys(run.setting for run in all_runs)
    return Finished(
        groups={setting: groups[setting] for setting in order if setting in groups},
        unfinished=unfinished,
        copies=copies,
    )


def tables(runs: Iterable[Run], criteria: Criteria = DEFAULT) -> list[Table]:
    """Make the tables of each setting: learning, fairness and cost, comparisons, losses on the way; then attacks."""
    study = sort_finished(runs)
    losses_by_setting, attacks = attrition_tables(study.groups)
    result: list[Table] = []
    for setting, methods in study.groups.items():
        first = learning_table(setting, methods, study.unfinished.get(setting, 0), criteria)
        first.notes += [copy.text for copy in study.copies if copy.setting == setting]
        result += [first, cost_table(setting, methods, criteria), *tables_of_setting(setting, methods, criteria)]
        if setting in losses_by_setting:
            result.append(losses_by_setting[setting])
    return [*result, *attacks]


def comparison_tables(runs: Iterable[Run], criteria: Criteria = DEFAULT) -> list[Table]:
    """Make the tables of paired differences alone, those of each setting after those of another."""
    return [
        table
        for setting, methods in sort_finished(runs).groups.items()
        for table in tables_of_setting(setting, methods, criteria)
    ]


def conclusions(runs: Iterable[Run], criteria: Criteria = DEFAULT) -> list[str]:
    """Write one sentence for each comparison, the best first; where there are several settings, each is named."""
    groups = sort_finished(runs).groups
    sentences = []
    for setting, methods in groups.items():
        prefix = f"{setting}: " if len(groups) > 1 else ""
        comparison = comparison_of(methods, criteria)
        against_baseline = verdict_words.sort_by_gain(comparison.against_baseline().values())
        pairs = [*against_baseline, *comparison.without_baseline()]
        sentences += [prefix + verdict_words.verdict_sentence(pair) for pair in pairs]
    return sentences


def heading(runs: Iterable[Run], criteria: Criteria = DEFAULT) -> str:
    """Write what stands above the conclusions: which figure they compare, with what, and what is not controlled."""
    groups = sort_finished(runs).groups
    headings = set()
    metric_names = set()
    opponents = set()
    currencies: set[Currency] = set()
    for methods in groups.values():
        comparison = comparison_of(methods, criteria)
        opponent = str(comparison.baseline)
        if criteria.all_pairs:
            opponent = "each other"
        headings.add(verdict_words.heading(comparison.metric, opponent, comparison.basis))
        metric_names.add(comparison.metric)
        opponents.add(opponent)
        currencies.add(comparison.currency)
    text = verdict_words.heading_of_settings(metric_names, opponents, currencies)
    if len(headings) == 1:
        text = headings.pop()
    note = verdict_words.several_settings_note(len(groups))
    return f"{note} {text}".lstrip()


def input_sentences(runs: Iterable[Run]) -> list[str]:
    """Say what the models got, one line for each data set: the inputs, what was done to them, what was held out."""
    settings_by_inputs: dict[str, list[str]] = {}
    for run in runs:
        words = inputs_of(run.manifest)
        if words and run.setting not in settings_by_inputs.setdefault(words, []):
            settings_by_inputs[words].append(run.setting)
    if len(settings_by_inputs) == 1:
        return [f"Inputs: {words}" for words in settings_by_inputs]
    return [f"Inputs of {', '.join(settings)}: {words}" for words, settings in settings_by_inputs.items()]


def inputs_of(manifest: Mapping[str, Any]) -> str:
    """Say what the inputs of a run are and what was held out for testing; empty where its manifest does not say."""
    words = manifest.get("inputs")
    held_out = manifest.get("held_out")
    if not isinstance(words, str):
        return ""
    targets = manifest.get("targets")
    sentences = [words]
    if targets:
        sentences.append(f"Targets: {targets}")
    if held_out:
        sentences.append(f"Held out for testing: {held_out}")
    return f"{'. '.join(sentences)}."


def comparison_of(methods: Runs, criteria: Criteria = DEFAULT) -> SettingComparison:
    """Compare the methods of one setting."""
    runs = [run for by_seed in methods.values() for run in by_seed.values()]
    metric_name = metric_of_setting(methods)
    budget = budget_of(methods, criteria)
    return SettingComparison(
        figures=figures_by_seed(methods, budget),
        names=names_of(methods),
        configs={
            label: {seed: with_inputs(run.config, run.manifest) for seed, run in by_seed.items()}
            for label, by_seed in methods.items()
        },
        metric=metric_name,
        criteria=criteria,
        resolution=resolution_of([run.manifest for run in runs], metric_name),
        window=metrics.longest_window(run.curve(metric_name)[0] for run in runs),
        budget=budget,
    )


def budget_of(methods: Runs, criteria: Criteria) -> Budget | None:
    """Return the cost at which the methods of a setting are compared; None where they are compared over rounds."""
    names = names_of(methods)
    runs = [run for label, by_seed in methods.items() for run in by_seed.values() if names[label] not in REFERENCES]
    if not runs:
        return None
    currency = criteria.currency(runs[0].config)
    if currency == "rounds":
        return None
    return common_budget([run.costs() for run in runs], currency, limit_of([run.config for run in runs], currency))


def names_of(methods: Runs) -> dict[str, str]:
    """Return label → name of the method."""
    return {label: str(_any_run({label: runs}).config["method"].get("name", "")) for label, runs in methods.items()}


def tables_of_setting(setting: str, methods: Runs, criteria: Criteria = DEFAULT) -> list[Table]:
    """Make two tables of paired differences from the baseline with their verdicts, and one of all pairs on demand."""
    comparison = comparison_of(methods, criteria)
    result = []
    if comparison.baseline is not None:
        result = [_against_baseline(setting, comparison, figure) for figure in comparison.compared_figures]
        result += _to_target(setting, comparison)
    if criteria.all_pairs:
        result.append(every_pair(setting, comparison))
    all_pairs = [pair for figure in comparison.compared_figures for pair in comparison.every_pair(figure)]
    if result and comparison.to_target:
        all_pairs += comparison.to_target
    if result and all_pairs:
        result[-1].notes += _notes(all_pairs, comparison)
    return result


def _against_baseline(setting: str, comparison: SettingComparison, figure: str) -> Table:
    by_label = comparison.against_baseline(figure)
    title = verdict_words.figure_title(figure, comparison.basis)
    difference = verdict_words.with_unit(f"− {comparison.baseline}", comparison.metric)
    table = Table(f"{setting}: {title}, compared", ["method", title, difference, "p", "verdict"])
    for label, runs in comparison.figures.items():
        pair = by_label.get(label)
        table.rows.append(
            [
                label,
                _mean(_values(runs, f"{figure}-{comparison.metric}"), 3),
                verdict_words.difference_text(pair),
                verdict_words.p_text(pair),
                verdict_words.cell_text(label, pair, comparison.baseline),
            ]
        )
    return table


def _to_target(setting: str, comparison: SettingComparison) -> list[Table]:
    """Make the table of differences in the cost to the target from the baseline's; none without a target."""
    pairs = [pair for pair in comparison.to_target if pair.baseline == comparison.baseline]
    if not pairs:
        return []
    title = f"{comparison.currency} to target"
    table = Table(f"{setting}: {title}, compared", ["method", f"− {comparison.baseline}", "p", "verdict"])
    for pair in pairs:
        cells = [verdict_words.difference_text(pair), verdict_words.p_text(pair), verdict_words.verdict_text(pair)]
        table.rows.append([pair.method, *cells])
    table.notes.append(f"Less is better. By the {metrics.SMOOTH}-round mean.")
    return [table]


def every_pair(setting: str, comparison: SettingComparison, figure: str = "") -> Table:
    """Make the table of all pairs of methods, which are one family of tests."""
    title = verdict_words.figure_title(figure or comparison.compared_figures[0], comparison.basis)
    difference = verdict_words.with_unit("difference", comparison.metric)
    table = Table(f"{setting}: {title}, all pairs", ["method", "minus", difference, "p", "verdict"])
    for pair in comparison.every_pair(figure):
        table.rows.append(
            [
                pair.method,
                pair.baseline,
                verdict_words.difference_text(pair),
                verdict_words.p_text(pair),
                verdict_words.verdict_text(pair),
            ]
        )
    return table


def _notes(pairs: Sequence[Comparison], comparison: SettingComparison) -> list[str]:
    """Write what stands below the tables of comparisons."""
    margin = comparison.criteria.margin
    region = f"±{margin:g} points"
    if comparison.metric != "accuracy":
        region = f"±{margin:g} % of the baseline's {comparison.metric}"
    notes = [
        f"Paired over seeds: mean [simultaneous 95 % interval], p with Bonferroni's correction; practically equal: "
        f"within {region}. Undecided: (seeds that would decide)."
    ]
    budget = comparison.budget
    if budget is not None and budget.covers_every_run:
        notes.append(verdict_words.equal_cost_text(budget))
    reasons = {pair.reason for pair in pairs}
    if Reason.FEW_SEEDS in reasons or Reason.DIVERGED in reasons:
        notes.append(NO_VERDICT)
    if Reason.NOT_REACHED in reasons:
        notes.append(NOT_REACHED)
    if Reason.ENDED_APART in reasons:
        notes.append(ENDED_APART)
    if any(pair.skewed and pair.decided for pair in pairs):
        notes.append(f"Skewed: {verdict_words.SKEWED}.")
    if warning := verdict_words.unfair_warning(comparison.shown_first()):
        notes.append(warning)
    return notes


def learning_table(setting: str, methods: Runs, unfinished: int = 0, criteria: Criteria = DEFAULT) -> Table:
    """Make the table of best, final, last and mean of the metric, and of the cost to the target.

    The target is reached by the raw curve, and by its 5-round mean.
    """
    comparison = comparison_of(methods, criteria)
    metric_name = comparison.metric
    columns = {"best": f"best-{metric_name}", "final": f"final-{metric_name}"}
    for figure in comparison.compared_figures:
        columns[verdict_words.figure_title(figure, comparison.basis)] = f"{figure}-{metric_name}"
    currency = comparison.currency
    target = _config(methods).get("target", {})
    table = Table(f"{setting}: test {metric_name}", ["method", "seeds", *columns])
    if target:
        table.columns += [f"{currency} to {target[metric_name]:g}", f"{metrics.SMOOTH}-round mean"]
        counted = currency.capitalize()
        table.notes.append(f"{counted} to the target: mean ± sd over the seeds that reached it (how many of all).")
    for label, runs in comparison.figures.items():
        cells = [mean_and_sd(centre(_values(runs, key)), 3) for key in columns.values()]
        if target:
            reached = [centre(_values(runs, key)) for key in (f"{currency}-to-target", figure_to_target(currency))]
            cells += [mean_and_sd(middle, 1, total=len(runs)) for middle in reached]
        table.rows.append([label, str(len(runs)), *cells])
    budget = comparison.budget
    if budget is not None and not budget.covers_every_run:
        table.notes.append(verdict_words.equal_cost_text(budget))
    table.notes += [*_diverged(methods), *_untaught(methods)]
    if unfinished:
        table.notes.append(f"{unfinished} unfinished runs are left out.")
    return table


def cost_table(setting: str, methods: Runs, criteria: Criteria = DEFAULT) -> Table:
    """Make the table of how evenly clients were served and chosen, and what it cost; seconds where they are counted."""
    counts_seconds = criteria.currency(_config(methods)) == "seconds"
    by_label = figures_by_seed(methods)
    all_figures = [run_figures for runs in by_label.values() for run_figures in runs.values()]
    counts = [key for key in ("trainings", "uploads") if any(key in run_figures for run_figures in all_figures)]
    table = Table(f"{setting}: fairness and cost", ["method", "worst tenth", "Jain", "MB"])
    if counts_seconds:
        table.columns.append("simulated s")
    table.columns += ["ms/select", "wall-clock s", *counts]
    for label, runs in by_label.items():
        timed_runs = methods[label].values()
        table.rows.append(
            [
                label,
                mean_and_sd(centre(_values(runs, "worst-tenth")), 3),
                _mean(_values(runs, "jain"), 3),
                _mean(_values(runs, "megabytes"), 1),
                *([_mean(_values(runs, "seconds"), 1)] if counts_seconds else []),
                _mean([metrics.selection_ms(run) for run in timed_runs]),
                _mean([metrics.wall_clock(run) for run in timed_runs]),
                *[_mean([metrics.METRICS[key](run) for run in timed_runs], 0) for key in counts],
            ]
        )
    return table


def figures_by_seed(methods: Runs, budget: Budget | None = None) -> Methods:
    """Return the figures of each run, by method and seed; with a budget also those at that cost."""
    return {label: {seed: _figures_of(run, budget) for seed, run in runs.items()} for label, runs in methods.items()}


def _figures_of(run: Run, budget: Budget | None) -> Figures:
    figures = metrics.figures_of(run)
    if budget is None:
        return figures
    curves = {metric_name: run.curve(metric_name)[1] for metric_name in tested_metrics(run.config)}
    return figures | figures_at_cost(run.costs(), curves, budget)


def metric_of_setting(methods: Runs) -> str:
    """Return what the study is judged by."""
    return metric_of(_config(methods))


def _any_run(methods: Runs) -> Run:
    """Return a run of the setting, for what is the same in all of them."""
    runs = next(iter(methods.values()))
    return next(iter(runs.values()))


def _config(methods: Runs) -> dict[str, Any]:
    return _any_run(methods).config


def _diverged(methods: Runs) -> list[str]:
    """Return a sentence for each method with runs that diverged: how many they are."""
    sentences = []
    for label, runs in methods.items():
        diverged = sum(metrics.diverged(run) for run in runs.values())
        if diverged:
            sentences.append(verdict_words.diverged_text(label, diverged, len(runs)))
    return sentences


def _untaught(methods: Runs) -> list[str]:
    """Remark where no method's model is much better than a guess; nothing where labels are unknown."""
    label_counts = _any_run(methods).federation().get("label_counts")
    middles = [centre(_values(runs, "last-accuracy")) for runs in figures_by_seed(methods).values()]
    return metrics.chance_remarks([middle.mean for middle in middles if middle is not None], label_counts)


def _values(runs: Mapping[int, Figures], key: str) -> list[float | None]:
    return [run_figures.get(key) for run_figures in runs.values()]


def _mean(values: Sequence[float | None], digits: int = 2) -> str:
    middle = centre(values)
    if middle is None:
        return ""
    if not math.isfinite(middle.mean):
        return NOT_FINITE
    return f"{middle.mean:.{digits}f}"

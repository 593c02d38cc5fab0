"""A study's methods against each other, setting by setting: what is compared with what, by which criteria.

The results are :class:`~sortition.results.statistics.Comparison`; ``verdict_words`` puts them into words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

from sortition.core.cost import Currency
from sortition.core.errors import InputError, bad, unknown
from sortition.results.equal_cost import AT_COST, AUC, checked_currency, usual_currency
from sortition.results.metrics import speed_ratio
from sortition.results.reference_lines import REFERENCES
from sortition.results.run_folder import INDEX, read_document
from sortition.results.statistics import (
    BETTER,
    FEWEST_SEEDS,
    LARGEST_MARGIN,
    MARGIN,
    Budget,
    Comparison,
    Reason,
    Unlike,
    Window,
    centre,
    compare_pairs,
    holm,
)
from sortition.results.sweeps import Config, flattened, value_text
from sortition.results.task_metric import higher_is_better, task_metric

BASELINE = "uniform"  # the method that others are compared with unless a study names another
LEVELS_ABOVE = 3  # a study's folder lies at most so far above a part of it: setting, method, seed
IN_ROUNDS = ("last", "mean")  # the figures that are compared: the end of the curve, and the area under it
WORST_TENTH = "worst-tenth"  # the figure of how the clients are served that the model serves worst
TO_TARGET = " to target"  # what the cost to the target is called, after its currency
AT_EQUAL_COST = (AT_COST, AUC)  # the same where another cost is counted than rounds
# what methods must have in common to be compared fairly; not what defines a method, such as guards.reweight
SHARED = (
    "rounds",
    "until",
    "cohort",
    "data",
    "model",
    "local",
    "task",
    "server",
    "availability",
    "devices",
    "pace",
    "guards",
    "policy",
    "habits",
    "owners",
    "faults",
    "attacks",
    "evaluate_every",
    "precision",
)
OF_THE_METHOD = ("guards.reweight",)
SHOWN_DIGEST = 12  # characters of a digest that tell two apart for a reader
SHOWN_RANGES = 5  # of seeds; with more, their number
Figures = Mapping[str, float | None]  # of one run, by name
Methods = Mapping[str, Mapping[int, Figures]]  # label → seed → figures


@dataclass(frozen=True)
class Criteria:
    """Says what a study's methods are judged by.

    Attributes:
        margin: the largest difference that is practically none, in points of accuracy or % of the baseline's loss.
        baseline: label or name of the method that others are compared with; empty for the method ``uniform``.
        all_pairs: whether every pair of methods is compared, all of them as one family of tests.
        cost: the currency in which methods are compared at equal cost; None for the usual one of each setting.
    """

    margin: float = MARGIN
    baseline: str = ""
    all_pairs: bool = False
    cost: Currency | None = None

    def currency(self, config: Config) -> Currency:
        """Return what the runs of a setting are compared by, given the configuration of one of them."""
        return self.cost or usual_currency(config)


DEFAULT = Criteria()
Value = TypeVar("Value", float, str, bool)


class Missing(StrEnum):
    """Says why no method of a setting can be judged."""

    NO_BASELINE = "the baseline is not among the methods"
    ONE_METHOD = "only one method was run"
    NO_PAIR = "no two methods have finished runs of one seed"
    FEW_SEEDS = "fewer than three seeds"


def criteria_of(
    folders: Sequence[str | Path],
    *,
    margin: float | None = None,
    baseline: str | None = None,
    all_pairs: bool | None = None,
    cost: str | None = None,
) -> Criteria:
    """Return the criteria of the studies in these folders; arguments that are not None override them."""
    if margin is not None and not 0 < margin <= LARGEST_MARGIN:
        raise bad("--margin", f"> 0 and at most {LARGEST_MARGIN:g} points", margin)
    study_indices = [read_document(path) for folder in folders for path in _indices(Path(folder))]
    margins = [float(index.get("margin", MARGIN)) for index in study_indices]
    baselines = [str(index.get("baseline", "")) for index in study_indices]
    all_pairs_choices = [bool(index.get("all_pairs", False)) for index in study_indices]
    costs = [str(index.get("cost", "")) for index in study_indices]
    agreed_cost = _agreed("cost", cost, costs, default="")
    return Criteria(
        margin=_agreed("margin", margin, margins, default=MARGIN),
        baseline=_agreed("baseline", baseline, baselines, default=""),
        all_pairs=_agreed("all-pairs", all_pairs, all_pairs_choices, default=False),
        cost=checked_currency(agreed_cost, "--cost") if agreed_cost else None,
    )


def _agreed(option: str, override: Value | None, stored: Sequence[Value], *, default: Value) -> Value:
    """Return the value that overrides the studies', else the one that all studies have."""
    if override is not None:
        return override
    values = list(dict.fromkeys(stored))
    if not values:
        return default
    if len(values) > 1:
        listed = ", ".join(sorted(_option_text(value) for value in values))
        raise InputError(f"The studies must have the same {option}; got {listed}. Give one with --{option}.")
    return values[0]


def _option_text(value: float | str | bool) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(value or BASELINE)


def _indices(folder: Path) -> list[Path]:
    """Return the indices of the studies in a folder; of a part of a study, that of the study."""
    inside = sorted(folder.rglob(INDEX))
    if inside:
        return inside
    for parent in folder.resolve().parents[:LEVELS_ABOVE]:
        if (parent / INDEX).exists():
            return [parent / INDEX]
    return [folder / INDEX]


def baseline_of(names: Mapping[str, str], wanted_baseline: str = "") -> str | None:
    """Return the label that others are compared with, from label → method; None where it is not among them.

    A wanted baseline is a label, or else the name of a method. Without one it is the method ``uniform``, whatever its
    label is: a label alone makes no baseline.
    """
    if wanted_baseline and wanted_baseline in names:
        return wanted_baseline
    name = wanted_baseline or BASELINE
    labels = [label for label, method in names.items() if method == name and label not in REFERENCES]
    if name in labels:
        return name
    return next(iter(labels), None)


def check_baseline(wanted_baseline: str, settings: Sequence[Mapping[str, str]]) -> None:
    """Refuse a baseline that no setting has; each setting is given as label → method."""
    if wanted_baseline in REFERENCES:
        raise bad("baseline", "a method that selects clients", wanted_baseline)
    if wanted_baseline and not any(baseline_of(names, wanted_baseline) for names in settings):
        labels = list(dict.fromkeys(label for names in settings for label in names if label not in REFERENCES))
        raise unknown("baseline", wanted_baseline, labels, "the study")


def resolution_of(manifests: Sequence[Mapping[str, Any]], metric: str) -> float | None:
    """Return the smallest step of an accuracy: one test example of the smallest test set; None where unknown."""
    test_sizes = [int(manifest.get("test_examples") or 0) for manifest in manifests]
    smallest = min((size for size in test_sizes if size > 0), default=0)
    if metric != "accuracy" or not smallest:
        return None
    return 1 / max(2, smallest)


@dataclass(frozen=True)
class SettingComparison:
    """The methods of one setting against each other.

    Attributes:
        figures: label → seed → figures of the run; empty for a run that is not finished.
        names: label → name of the method.
        configs: label → seed → configuration of the run, with its data (:func:`with_inputs`).
        metric: ``accuracy``, ``loss`` or the metric of another task.
        criteria: margin, baseline, and whether all pairs are compared.
        resolution: the smallest step of the metric, where known.
        window: the rounds that the figure ``last`` averages, where known.
        budget: the cost at which methods are compared; None where they are compared over rounds.
        shown: the labels whose comparisons are shown; None for all. Every method counts in the tests.
    """

    figures: Methods
    names: Mapping[str, str]
    configs: Mapping[str, Mapping[int, Config]]
    metric: str = "accuracy"
    criteria: Criteria = DEFAULT
    resolution: float | None = None
    window: Window | None = None
    budget: Budget | None = None
    shown: frozenset[str] | None = None

    @cached_property
    def higher(self) -> bool:
        """Tell whether more of the metric is better."""
        return higher_is_better(self._any_config, self.metric)

    @property
    def _any_config(self) -> Config:
        """Return the configuration of a run, for what is the same in all of them; empty where there is no run."""
        return next((config for configs in self.configs.values() for config in configs.values()), {})

    @property
    def compared_figures(self) -> tuple[str, str]:
        """Return the figures that are compared: the one at the end, which decides, and the one of the whole curve."""
        if self.budget is None:
            return IN_ROUNDS
        return AT_EQUAL_COST

    @property
    def basis(self) -> Window | Budget | None:
        """Return what the figure at the end is taken of: the last rounds, or a budget."""
        if self.budget is None:
            return self.window
        return self.budget

    @property
    def currency(self) -> Currency:
        """Return what is counted as cost."""
        if self.budget is None:
            return "rounds"
        return self.budget.currency

    @cached_property
    def baseline(self) -> str | None:
        """Return the label that others are compared with; None where the setting lacks it."""
        return baseline_of(self.names, self.criteria.baseline)

    @cached_property
    def missing(self) -> Missing | None:
        """Say why no method can be judged; None where some can be."""
        if self.baseline is None:
            return Missing.NO_BASELINE
        comparisons = self.against_baseline().values()
        if not comparisons:
            if len(self._shown_labels) == 1:
                return Missing.ONE_METHOD
            return Missing.NO_PAIR
        if max(comparison.seeds for comparison in comparisons) < FEWEST_SEEDS:
            return Missing.FEW_SEEDS
        return None

    @cached_property
    def leader(self) -> str:
        """Return the best of the methods shown better, fairly if any is; else the best of all but the baseline."""
        better = [comparison for comparison in self.against_baseline().values() if comparison.verdict == BETTER]
        fairly_better = [comparison for comparison in better if not comparison.unlike]
        if better:
            return max(fairly_better or better, key=lambda comparison: comparison.gain).method
        labels = self._shown_labels
        finished = [label for label in labels if any(self.figures[label].values())] or labels
        candidates = [label for label in finished if label not in REFERENCES and label != self.baseline]
        return max(candidates or finished, key=self._height)

    def _height(self, label: str) -> float:
        """Return a method's mean at the end of training, so that more is better; −∞ where it is not known."""
        end_figure = f"{self.compared_figures[0]}-{self.metric}"
        middle = centre([figures.get(end_figure) for figures in self.figures[label].values()])
        if middle is None or math.isnan(middle.mean):
            return -math.inf
        if self.higher:
            return middle.mean
        return -middle.mean

    def against_baseline(self, figure: str = "") -> dict[str, Comparison]:
        """Return the comparisons of a figure, by default the one at the end, with the baseline, by label."""
        return {
            comparison.method: comparison
            for comparison in self.every_pair(figure)
            if comparison.baseline == self.baseline
        }

    def without_baseline(self, figure: str = "") -> list[Comparison]:
        """Return the comparisons of methods other than the baseline; none unless all pairs are compared."""
        return [comparison for comparison in self.every_pair(figure) if comparison.baseline != self.baseline]

    def shown_first(self) -> list[Comparison]:
        """Return the comparisons with the baseline, or all pairs where there is no baseline."""
        return list(self.against_baseline().values()) or self.every_pair()

    def every_pair(self, figure: str = "") -> list[Comparison]:
        """Return all comparisons of the family: those with the baseline, then the others."""
        return self._families[figure or self.compared_figures[0]]

    @cached_property
    def to_target(self) -> list[Comparison]:
        """Return the comparisons of the cost to the target, a family of their own; none where no run reached one.

        Where a run of a pair did not reach it, those that did are a choice of the lucky ones, and there is no verdict.
        """
        figure = figure_to_target(self.currency)
        values = {
            label: {seed: figures.get(figure) for seed, figures in runs.items()} for label, runs in self.figures.items()
        }
        comparisons = compare_pairs(
            values,
            self._pairs(),
            metric=f"{self.currency}{TO_TARGET}",
            higher=False,
            margin=self.criteria.margin,
        )
        return [
            replace(_censored(comparison, values), figure="to-target", budget=self.budget)
            for comparison in self._shown_of(comparisons)
        ]

    @cached_property
    def worst_tenth(self) -> list[Comparison]:
        """Return the comparisons of how the worst-served tenth of the clients is served, a family of their own.

        It is known of the end of a run alone, so there are none at a cost other than rounds, where runs end apart.
        """
        if self.budget is not None:
            return []
        values = {
            label: {seed: figures.get(WORST_TENTH) for seed, figures in runs.items()}
            for label, runs in self.figures.items()
        }
        metric = task_metric(self._any_config)
        comparisons = compare_pairs(
            values,
            self._pairs(),
            metric=metric,
            higher=higher_is_better(self._any_config, metric),
            margin=self.criteria.margin,
        )
        return [
            replace(self._with_facts(comparison, WORST_TENTH), window=None)
            for comparison in self._shown_of(comparisons)
        ]

    @cached_property
    def _shown_labels(self) -> list[str]:
        return [label for label in self.figures if self.shown is None or label in self.shown]

    @cached_property
    def _families(self) -> dict[str, list[Comparison]]:
        return {figure: self._shown_of(self._family(figure)) for figure in self.compared_figures}

    def _shown_of(self, comparisons: Sequence[Comparison]) -> list[Comparison]:
        labels = set(self._shown_labels)
        return [pair for pair in comparisons if pair.method in labels and pair.baseline in labels]

    def _family(self, figure: str) -> list[Comparison]:
        """Compare one figure of all pairs; these comparisons are one family of tests.

        Runs that stopped at a target at different rounds are not compared: the sooner one of them gets there, the more
        of its early rounds are in its means, and at a common budget it has just been lucky. Nor are means over rounds
        where runs ended at different rounds for another reason.
        """
        values = {
            label: {seed: figures.get(f"{figure}-{self.metric}") for seed, figures in runs.items()}
            for label, runs in self.figures.items()
        }
        comparisons = compare_pairs(
            values,
            self._pairs(),
            metric=self.metric,
            higher=self.higher,
            margin=self.criteria.margin,
            resolution=self.resolution,
        )
        return [self._with_facts(comparison, figure) for comparison in comparisons]

    def _pairs(self) -> list[tuple[str, str]]:
        methods = [label for label in self.figures if label not in REFERENCES and label != self.baseline]
        pairs: list[tuple[str, str]] = []
        if self.baseline is not None:
            pairs = [(label, self.baseline) for label in methods]
        if self.criteria.all_pairs:
            pairs += combinations(methods, 2)
        return pairs

    def _with_facts(self, comparison: Comparison, figure: str) -> Comparison:
        """Add what the runs themselves say: whether they are alike, what they cost, and how soon they learnt."""
        method_runs = self.figures[comparison.method]
        baseline_runs = self.figures[comparison.baseline]
        if self._cannot_be_compared(comparison.method) and _ended_at_different_rounds(method_runs, baseline_runs):
            comparison = _without_verdict(comparison, Reason.ENDED_APART)
        speed_ratios = _speed_ratios(method_runs, baseline_runs, figure_to_target(self.currency))
        middle = centre(speed_ratios, geometric=True)
        speed_up = None
        if middle is not None:
            speed_up = middle.mean
        window = None
        if self.budget is None:
            window = self.window
        return replace(
            comparison,
            figure=figure,
            window=window,
            budget=self.budget,
            unlike=(
                *unlike_seeds(method_runs, baseline_runs),
                *unlike_keys(self.configs.get(comparison.method, {}), self.configs.get(comparison.baseline, {})),
            ),
            traffic_ratio=self._cost_ratio(method_runs, baseline_runs, "megabytes"),
            passes_ratio=self._cost_ratio(method_runs, baseline_runs, "passes"),
            speed_up=speed_up,
            reached=len(speed_ratios),
        )

    def _cannot_be_compared(self, method: str) -> bool:
        """Tell whether runs of different lengths say nothing: means over rounds, and runs that stop at a target."""
        stops_at_target = any(config.get("stop_at_target") for config in self.configs.get(method, {}).values())
        return self.budget is None or stops_at_target

    def _cost_ratio(
        self, method_runs: Mapping[int, Figures], baseline_runs: Mapping[int, Figures], cost: str
    ) -> float | None:
        """Return what the method costs over what the baseline does, in a round or within the budget."""
        if self.budget is None:
            return _ratio(_cost_a_round(method_runs, cost), _cost_a_round(baseline_runs, cost))
        spent = f"{cost}-{AT_COST}"
        return _ratio(_mean_figure(method_runs, spent), _mean_figure(baseline_runs, spent))


def shown_better(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Return those that are better with all of these comparisons as one family, by Holm's correction.

    Any of them is so falsely in at most 5 % of such families.
    """
    rejected = holm([comparison.p_single for comparison in comparisons])
    return [
        comparison
        for comparison, is_rejected in zip(comparisons, rejected, strict=True)
        if is_rejected and comparison.verdict == BETTER
    ]


def unlike_keys(method_configs: Mapping[int, Config], baseline_configs: Mapping[int, Config]) -> tuple[Unlike, ...]:
    """Return the shared keys in which the configurations of two methods differ on any seed that both have."""
    differing: dict[str, Unlike] = {}
    for seed in method_configs:
        if seed not in baseline_configs:
            continue
        method_values = _shared_values(method_configs[seed])
        baseline_values = _shared_values(baseline_configs[seed])
        for key in {**baseline_values, **method_values}:
            method_value = method_values.get(key)
            baseline_value = baseline_values.get(key)
            if method_value != baseline_value:
                difference = Unlike(
                    key=key,
                    method_value=value_text(method_value),
                    baseline_value=value_text(baseline_value),
                )
                differing.setdefault(key, difference)
    return tuple(differing.values())


def with_inputs(config: Config, manifest: Mapping[str, Any]) -> Config:
    """Return a run's configuration with what its manifest says of the data that were split and tested on.

    A file of data can change between two runs of one configuration; methods on other data are not compared fairly.
    """
    data = manifest.get("data") or {}
    stored_inputs = {
        "digest": data.get("digest"),
        "partition_digest": data.get("partition"),
        "test_examples": manifest.get("test_examples"),
    }
    known_inputs = {key: str(value)[:SHOWN_DIGEST] for key, value in stored_inputs.items() if value is not None}
    return {**config, "data": {**config.get("data", {}), **known_inputs}}


def unlike_seeds(method_runs: Mapping[int, Figures], baseline_runs: Mapping[int, Figures]) -> tuple[Unlike, ...]:
    """Return the seeds that have a finished run of the one method alone, as a difference; nothing where all have both.

    Whoever leaves out seeds, or loses them where a method fails, may have chosen them.
    """
    method_seeds = sorted(seed for seed, figures in method_runs.items() if figures)
    baseline_seeds = sorted(seed for seed, figures in baseline_runs.items() if figures)
    if method_seeds == baseline_seeds:
        return ()
    return (Unlike("seeds", method_value=seeds_text(method_seeds), baseline_value=seeds_text(baseline_seeds)),)


def seeds_text(seeds: Sequence[int]) -> str:
    """Write sorted seeds, runs of them as a range: ``0 to 4, 7``."""
    ranges: list[list[int]] = []
    for seed in seeds:
        if ranges and seed == ranges[-1][-1] + 1:
            ranges[-1].append(seed)
        else:
            ranges.append([seed])
    parts = [str(group[0]) if len(group) == 1 else f"{group[0]} to {group[-1]}" for group in ranges]
    if len(parts) > SHOWN_RANGES:
        return f"{len(seeds)} seeds"
    return ", ".join(parts) or "none"


def _shared_values(config: Config) -> dict[str, Any]:
    values = flattened({key: config[key] for key in SHARED if key in config})
    return {key: value for key, value in values.items() if key not in OF_THE_METHOD}


def _ended_at_different_rounds(method_runs: Mapping[int, Figures], baseline_runs: Mapping[int, Figures]) -> bool:
    """Tell whether runs of one seed played different numbers of rounds, where both are known."""
    for seed in method_runs:
        if seed in baseline_runs:
            played = {method_runs[seed].get("rounds"), baseline_runs[seed].get("rounds")} - {None}
            if len(played) > 1:
                return True
    return False


def _without_verdict(comparison: Comparison, reason: Reason) -> Comparison:
    """Return a comparison that says nothing, and why."""
    return Comparison(
        method=comparison.method,
        baseline=comparison.baseline,
        seeds=comparison.seeds,
        difference=math.nan,
        region=comparison.region,
        metric=comparison.metric,
        higher=comparison.higher,
        family=comparison.family,
        reason=reason,
    )


def _censored(comparison: Comparison, values: Mapping[str, Mapping[int, float | None]]) -> Comparison:
    """Return the comparison without a verdict where a run of a common seed did not reach the target."""
    method_values = values[comparison.method]
    baseline_values = values[comparison.baseline]
    common_seeds = method_values.keys() & baseline_values.keys()
    if all(method_values[seed] is not None and baseline_values[seed] is not None for seed in common_seeds):
        return comparison
    return _without_verdict(comparison, Reason.NOT_REACHED)


def figure_to_target(currency: Currency) -> str:
    """Return the figure that speed-ups are made of: the cost to the target, by the running mean."""
    return f"{currency}-to-target-smoothed"


def _speed_ratios(method_runs: Mapping[int, Figures], baseline_runs: Mapping[int, Figures], figure: str) -> list[float]:
    """Return the baseline's cost to the target over the method's, of the seeds on which both reached it."""
    ratios = [
        speed_ratio(figures.get(figure), baseline_runs[seed].get(figure))
        for seed, figures in method_runs.items()
        if seed in baseline_runs
    ]
    return [ratio for ratio in ratios if ratio is not None]


def _ratio(method_cost: float | None, baseline_cost: float | None) -> float | None:
    """Return what the method costs over what the baseline does; None where unknown."""
    if not method_cost or not baseline_cost:
        return None
    return method_cost / baseline_cost


def _mean_figure(runs: Mapping[int, Figures], key: str) -> float | None:
    """Return the mean of a figure over seeds; None where no seed has it."""
    middle = centre([figures.get(key) for figures in runs.values()])
    if middle is None:
        return None
    return middle.mean


def _cost_a_round(runs: Mapping[int, Figures], cost: str) -> float | None:
    costs_a_round = []
    for figures in runs.values():
        total = figures.get(cost)
        rounds = figures.get("rounds")
        if total and rounds:
            costs_a_round.append(total / rounds)
    middle = centre(costs_a_round)
    if middle is None:
        return None
    return middle.mean

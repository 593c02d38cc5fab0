"""All runs of a report, grouped by setting and never averaged across settings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from sortition.core.arrays import Array, Floats
from sortition.core.cost import Currency
from sortition.core.errors import InputError, SortitionError
from sortition.report.digest import Digest, condense
from sortition.results.comparisons import (
    Criteria,
    Methods,
    SettingComparison,
    check_baseline,
    criteria_of,
    resolution_of,
    with_inputs,
)
from sortition.results.copies import CopyFinder
from sortition.results.equal_cost import common_budget, figures_at_cost, limit_of
from sortition.results.metrics import longest_window
from sortition.results.reference_lines import REFERENCES
from sortition.results.run_folder import INDEX, Run, find, read_document
from sortition.results.statistics import Budget, Centre, Comparison, centre
from sortition.results.task_metric import higher_is_better, metric_of
from sortition.results.verdict_words import figure_title


@dataclass
class Setting:
    """The runs of one setting.

    Attributes:
        name: the name of the setting.
        methods: label → the runs of its seeds, in the order in which they were found.
        federation: sizes (N,), label counts (N, C) and availability (rounds, N) of the first run, where known.
        criteria: the criteria by which the methods are judged.
        tested: label → runs of all methods that are tested together; empty where all of them are shown.
        budget: the cost at which the methods are compared; None where they are compared over rounds.
    """

    name: str
    methods: dict[str, list[Digest]]
    federation: dict[str, Array] = field(default_factory=dict)
    criteria: Criteria = Criteria()
    tested: dict[str, list[Digest]] = field(default_factory=dict)
    budget: Budget | None = None

    @property
    def first(self) -> Digest:
        """The first run, for what is the same in all of them."""
        return next(iter(self.methods.values()))[0]

    @property
    def runs(self) -> list[Digest]:
        """The runs of all methods."""
        return [run for runs in self.methods.values() for run in runs]

    @property
    def finished_runs(self) -> list[Digest]:
        """The runs that played all their rounds."""
        return [run for run in self.runs if run.done]

    @property
    def metric(self) -> str:
        """What the study is judged by: ``accuracy``, ``loss`` or the metric of another task."""
        return metric_of(self.first.config)

    @property
    def higher_is_better(self) -> bool:
        """Whether more of the metric is better."""
        return higher_is_better(self.first.config, self.metric)

    @property
    def names(self) -> dict[str, str]:
        """The name of each label's method."""
        return {label: runs[0].name for label, runs in self.methods.items()}

    @property
    def baseline(self) -> str | None:
        """The label that others are compared with."""
        return self.comparison.baseline

    @property
    def figures(self) -> Methods:
        """The figures of each run, by method and seed."""
        return {label: {run.seed: run.figures for run in runs} for label, runs in self.methods.items()}

    def against_baseline(self, figure: str = "") -> dict[str, Comparison]:
        """Compare every method's figure, by default the one that decides, with the baseline's."""
        return self.comparison.against_baseline(figure)

    @cached_property
    def comparison(self) -> SettingComparison:
        """What the runs say about the methods that are shown; those that are not shown count in the tests."""
        tested = self.tested or self.methods
        runs = [run for runs in tested.values() for run in runs]
        finished = [run for run in runs if run.done]
        return SettingComparison(
            figures={label: {run.seed: run.figures for run in runs} for label, runs in tested.items()},
            names={label: runs[0].name for label, runs in tested.items()},
            configs={
                label: {run.seed: with_inputs(run.config, run.manifest) for run in runs}
                for label, runs in tested.items()
            },
            metric=self.metric,
            criteria=self.criteria,
            resolution=resolution_of([run.manifest for run in runs], self.metric),
            window=longest_window(run.rounds for run in finished or runs),
            budget=self.budget,
            shown=frozenset(self.methods),
        )

    @property
    def end_figure(self) -> str:
        """The figure that decides, of the study's metric: at the end of training, or at the end of the budget."""
        return f"{self.comparison.compared_figures[0]}-{self.metric}"

    @property
    def end_title(self) -> str:
        """The heading of that figure: ``last 10``, ``at 812 s``."""
        return figure_title(self.comparison.compared_figures[0], self.comparison.basis)

    @property
    def currency(self) -> Currency:
        """What the study counts as cost."""
        return self.criteria.currency(self.first.config)

    def budget_in(self, currency: Currency) -> Budget | None:
        """Return what every finished run has spent in a currency; None where some run has no such cost."""
        runs = [run for run in self.finished_runs or self.runs if run.name not in REFERENCES]
        limit = limit_of([run.config for run in runs], currency)
        return common_budget([run.costs for run in runs], currency, limit)

    def compare_at_equal_cost(self) -> None:
        """Set the budget of the study's cost, and give every finished run its figures there."""
        if self.currency == "rounds":
            return
        self.budget = self.budget_in(self.currency)
        if self.budget is not None:
            for run in self.finished_runs:
                run.figures |= figures_at_cost(run.costs, run.test, self.budget)

    def mean(self, label: str, key: str) -> float | None:
        """Return a figure's mean over the seeds of a method; None where no seed has it."""
        middle = self.centre(label, key)
        if middle is None:
            return None
        return middle.mean

    def centre(self, label: str, key: str) -> Centre | None:
        """Return mean and spread of a figure over the finished seeds of a method; None where no seed has it."""
        return centre([run.figures.get(key) for run in self.methods[label] if run.done])

    @property
    def target(self) -> float | None:
        """The value of the metric that the study wants to reach."""
        value = (self.first.config.get("target") or {}).get(self.metric)
        if value is None:
            return None
        return float(value)

    @property
    def seeds(self) -> list[int]:
        """All seeds that any method has."""
        return sorted({run.seed for run in self.runs})

    @property
    def availability(self) -> Array | None:
        """(rounds, N) who was reachable in the rounds that were played; None where everybody always is."""
        mask = self.federation.get("availability")
        if mask is None:
            return None
        return mask[: max(run.played for run in self.runs)]

    @property
    def label_counts(self) -> Floats | None:
        """(N, C) examples per client and label; None where they are not known."""
        return self.federation.get("label_counts")


@dataclass
class Gathered:
    """Everything that a report shows, and what had to be left out.

    Attributes:
        settings: the settings, in the order of their studies.
        warnings: sentences on what is not shown, or mixed.
        title: the title of the page.
    """

    settings: list[Setting]
    warnings: list[str]
    title: str = ""

    @property
    def methods(self) -> list[str]:
        """All labels, in order of first appearance."""
        return list(dict.fromkeys(label for setting in self.settings for label in setting.methods))

    @property
    def runs(self) -> list[Digest]:
        """The runs of all settings."""
        return [run for setting in self.settings for run in setting.runs]

    @property
    def names(self) -> dict[str, str]:
        """The name of each label's method."""
        return {label: runs[0].name for setting in self.settings for label, runs in setting.methods.items()}

    def runs_by_row(self) -> dict[str, list[Digest]]:
        """Return the runs of each row of a table over all settings: a method, with its setting if there are several."""
        if len(self.settings) == 1:
            return dict(self.settings[0].methods)
        return {
            f"{setting.name} · {label}": runs for setting in self.settings for label, runs in setting.methods.items()
        }


def _find_runs(folders: Sequence[str | Path], only: Collection[Path] | None) -> list[Run]:
    """Return the runs under some folders; with ``only``, those of them that are to be shown."""
    return [run for run in find(*folders) if only is None or run.path in only]


def gather(
    folders: Sequence[str | Path],
    *,
    margin: float | None = None,
    baseline: str | None = None,
    all_pairs: bool | None = None,
    cost: str | None = None,
    only: Collection[Path] | None = None,
) -> Gathered:
    """Read all run folders under some folders, or ``only`` these.

    A run that cannot be read or is a copy is named and left out. ``margin``, ``baseline``, ``all_pairs`` and ``cost``
    are those of the studies unless they are given.
    """
    if not folders:
        raise InputError("sortition report must be given at least one folder of runs; got none.")
    criteria = criteria_of(folders, margin=margin, baseline=baseline, all_pairs=all_pairs, cost=cost)
    copies = CopyFinder()
    warnings: list[str] = []
    settings: dict[str, Setting] = {}
    versions: set[str] = set()
    for run in _find_runs(folders, only):
        try:
            digest = condense(Run(run.path, run.study))  # a fresh one, so that its records are not kept
        except SortitionError as error:
            warnings.append(str(error))
            continue
        except (KeyError, TypeError, ValueError, IndexError) as error:
            warnings.append(f"{run.path} is not a run of a study: {error!r}.")
            continue
        if not digest.played or not digest.rounds.size:
            warnings.append(f"{run.path.parent.name}/{run.path.name} has no evaluated round yet.")
            continue
        if copy := copies.copy_of(digest.setting, digest.method, digest.seed, digest.fingerprint):
            warnings.append(copy.text)
            continue
        setting = settings.setdefault(digest.setting, Setting(digest.setting, {}, criteria=criteria))
        setting.methods.setdefault(digest.method, []).append(digest)
        if not setting.federation:
            setting.federation = run.federation()
        versions.add(str(digest.manifest.get("sortition", "unknown")))
    if not settings:
        raise _nothing_to_show_error(folders, warnings)
    check_baseline(baseline or "", [setting.names for setting in settings.values()])
    if len(versions) > 1:
        warnings.append(f"The runs were made with different versions of Sortition: {', '.join(sorted(versions))}.")
    for setting in settings.values():
        setting.compare_at_equal_cost()
    warnings += _missing_cost_sentences(settings.values())
    warnings += _mixed_target_sentences(settings.values()) + _unfinished_sentences(settings.values())
    return Gathered(settings=list(settings.values()), warnings=warnings, title=report_title(folders))


def _nothing_to_show_error(folders: Sequence[str | Path], warnings: Sequence[str]) -> InputError:
    """Return the error of folders without a run that can be shown, with the first reason."""
    listed = ", ".join(str(folder) for folder in folders)
    if warnings:
        hint = warnings[0]
    else:
        hint = "Make some with: sortition run study.toml -o runs/mine"
    return InputError(f"{listed} must be a folder with runs; got none that can be shown. {hint}")


def report_title(folders: Sequence[str | Path]) -> str:
    """Return the studies' titles, or the folders' names where they have none."""
    titles = []
    for folder in map(Path, folders):
        title = read_document(folder / INDEX).get("title")
        titles.append(str(title or folder.resolve().name))
    return " · ".join(dict.fromkeys(titles))


def _mixed_target_sentences(settings: Iterable[Setting]) -> list[str]:
    """Write a sentence for each setting whose runs have different targets."""
    sentences = []
    for setting in settings:
        targets = {repr(run.config.get("target")) for run in setting.runs}
        if len(targets) > 1:
            sentences.append(f"The runs of {setting.name} have different targets: rounds to target are not comparable.")
    return sentences


def _missing_cost_sentences(settings: Iterable[Setting]) -> list[str]:
    """Write a sentence for each setting whose runs have no cost of the kind that the study counts."""
    return [
        f"The runs of {setting.name} have no {setting.currency}: they are compared over rounds."
        for setting in settings
        if setting.budget is None and setting.currency != "rounds"
    ]


def _unfinished_sentences(settings: Iterable[Setting]) -> list[str]:
    """Write a sentence on unfinished runs, where there are some."""
    runs = [run for setting in settings for run in setting.runs]
    unfinished = sum(not run.done for run in runs)
    if not unfinished:
        return []
    return [
        f"{unfinished} of {len(runs)} runs are unfinished: they are drawn, and left out of tables and verdicts; "
        "sortition run with --resume goes on."
    ]


def evenly_spread_positions(length: int, most: int) -> Array:
    """Return at most ``most`` positions, evenly spread, the first and the last among them."""
    if length <= most:
        return np.arange(length)
    return np.unique(np.linspace(0, length - 1, most).round().astype(np.int64))

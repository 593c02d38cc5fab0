"""All runs of a report, grouped by setting and never averaged across settings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from sortition.core.arrays import Array, Floats
from sortition.core.errors import InputError, SortitionError
from sortition.report.digest import Digest, condense
from sortition.results.comparisons import (
    Criteria,
    Methods,
    SettingComparison,
    check_baseline,
    criteria_of,
    metric_of,
    resolution_of,
)
from sortition.results.copies import CopyFinder
from sortition.results.run_folder import INDEX, Run, document, find
from sortition.results.statistics import HIGHER, Comparison, centre


@dataclass
class Setting:
    """The runs of one setting: method label → its seeds, in the order in which they were found."""

    name: str
    methods: dict[str, list[Digest]]
    federation: dict[str, Array] = field(default_factory=dict)
    criteria: Criteria = Criteria()

    @property
    def first(self) -> Digest:
        """Any run: what they share is the same in each."""
        return next(iter(self.methods.values()))[0]

    @property
    def runs(self) -> list[Digest]:
        """All of them."""
        return [run for runs in self.methods.values() for run in runs]

    @property
    def metric(self) -> str:
        """What the study is judged by: ``accuracy`` or ``loss``."""
        return metric_of(self.first.config)

    @property
    def higher(self) -> bool:
        """Whether more of it is better."""
        return HIGHER[self.metric]

    @property
    def names(self) -> dict[str, str]:
        """Label → name of the method."""
        return {label: runs[0].name for label, runs in self.methods.items()}

    @property
    def baseline(self) -> str | None:
        """The label that others are compared with."""
        return self.comparison.baseline

    @property
    def figures(self) -> Methods:
        """The figures of each run, by method and seed."""
        return {label: {run.seed: run.figures for run in runs} for label, runs in self.methods.items()}

    def compared(self, figure: str = "last") -> dict[str, Comparison]:
        """Every method's ``last`` or ``mean`` figure against the baseline's."""
        return self.comparison.against_baseline(figure)

    @cached_property
    def comparison(self) -> SettingComparison:
        """What the runs say about the methods."""
        return SettingComparison(
            figures=self.figures,
            names=self.names,
            configs={label: {run.seed: run.config for run in runs} for label, runs in self.methods.items()},
            metric=self.metric,
            criteria=self.criteria,
            resolution=resolution_of([run.manifest for run in self.runs], self.metric),
        )

    def mean(self, label: str, key: str) -> float | None:
        """A figure's mean over the seeds of a method."""
        found = centre([run.figures.get(key) for run in self.methods[label]])
        return None if found is None else found.mean

    @property
    def target(self) -> float | None:
        """The value of the metric that the study wants to reach."""
        found = (self.first.config.get("target") or {}).get(self.metric)
        return None if found is None else float(found)

    @property
    def seeds(self) -> list[int]:
        """All seeds that any method has."""
        return sorted({run.seed for run in self.runs})

    @property
    def availability(self) -> Array | None:
        """(rounds, N) who was reachable; None where everybody always is."""
        return self.federation.get("availability")

    def labels(self) -> Floats | None:
        """(N, C) examples per client and label, where known."""
        return self.federation.get("label_counts")


@dataclass
class Gathered:
    """Everything that a report shows, and what had to be left out."""

    settings: list[Setting]
    left_out: list[str]
    title: str = ""

    @property
    def methods(self) -> list[str]:
        """All labels, in order of first appearance."""
        return list(dict.fromkeys(label for setting in self.settings for label in setting.methods))

    @property
    def runs(self) -> list[Digest]:
        """Of all settings."""
        return [run for setting in self.settings for run in setting.runs]

    @property
    def names(self) -> dict[str, str]:
        """Label → name of the method."""
        return {label: runs[0].name for setting in self.settings for label, runs in setting.methods.items()}


def _chosen(folders: Sequence[str | Path], only: Collection[Path] | None) -> list[Run]:
    """The runs under some folders, or those of them that are to be shown."""
    return [run for run in find(*folders) if only is None or run.path in only]


def gather(
    folders: Sequence[str | Path],
    *,
    margin: float | None = None,
    baseline: str | None = None,
    all_pairs: bool | None = None,
    only: Collection[Path] | None = None,
) -> Gathered:
    """Read all run folders under some folders, or ``only`` these.

    A run that cannot be read or is a copy is named and left out. ``margin``, ``baseline`` and ``all_pairs`` are those
    of the studies unless they are given.
    """
    if not folders:
        raise InputError("sortition report must be given at least one folder of runs; got none.")
    criteria = criteria_of(folders, margin=margin, baseline=baseline, all_pairs=all_pairs)
    copies = CopyFinder()
    left_out: list[str] = []
    settings: dict[str, Setting] = {}
    versions: set[str] = set()
    for run in _chosen(folders, only):
        try:
            digest = condense(Run(run.path, run.study))  # a fresh one, so that its records are not kept
        except SortitionError as error:
            left_out.append(str(error))
            continue
        except (KeyError, TypeError, ValueError, IndexError) as error:
            left_out.append(f"{run.path} is not a run of a study: {error!r}.")
            continue
        if not digest.played or not digest.rounds.size:
            left_out.append(f"{run.path.parent.name}/{run.path.name} has no evaluated round yet.")
            continue
        if copy := copies.copy_of(digest.setting, digest.method, digest.seed, digest.fingerprint):
            left_out.append(copy.text)
            continue
        setting = settings.setdefault(digest.setting, Setting(digest.setting, {}, criteria=criteria))
        setting.methods.setdefault(digest.method, []).append(digest)
        if not setting.federation:
            setting.federation = run.federation()
        versions.add(str(digest.manifest.get("sortition", "unknown")))
    if not settings:
        where = ", ".join(str(folder) for folder in folders)
        raise InputError(
            f"{where} must be a folder with runs; got none that can be shown. "
            f"{left_out[0] if left_out else 'Make some with: sortition run study.toml -o runs/mine'}"
        )
    check_baseline(baseline or "", [setting.names for setting in settings.values()])
    if len(versions) > 1:
        left_out.append(f"The runs were made with different versions of Sortition: {', '.join(sorted(versions))}.")
    left_out += _mixed_targets(settings.values()) + _unfinished(settings.values())
    return Gathered(list(settings.values()), left_out, title_of(folders))


def title_of(folders: Sequence[str | Path]) -> str:
    """The studies' titles, or the folders' names where they have none."""
    titles = [str(document(Path(one) / INDEX).get("title") or Path(one).resolve().name) for one in folders]
    return " · ".join(dict.fromkeys(titles))


def _mixed_targets(settings: Iterable[Setting]) -> list[str]:
    mixed = [s.name for s in settings if len({repr(run.config.get("target")) for run in s.runs}) > 1]
    return [f"The runs of {name} have different targets: rounds to target are not comparable." for name in mixed]


def _unfinished(settings: Iterable[Setting]) -> list[str]:
    runs = [run for setting in settings for run in setting.runs]
    left = sum(not run.done for run in runs)
    words = "are drawn, and left out of tables and verdicts; sortition run with --resume goes on."
    return [f"{left} of {len(runs)} runs are unfinished: they {words}"] if left else []


def evenly_spread(length: int, most: int) -> Array:
    """At most ``most`` positions, evenly spread, the first and the last among them."""
    if length <= most:
        return np.arange(length)
    return np.unique(np.linspace(0, length - 1, most).round().astype(np.int64))

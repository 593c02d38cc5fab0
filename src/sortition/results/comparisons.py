"""A study's methods against each other, setting by setting: what is compared with what, by which criteria.

The results are :class:`~sortition.results.statistics.Comparison`; ``verdict_words`` puts them into words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

from sortition.core.errors import InputError, bad, unknown
from sortition.results.reference_lines import REFERENCES
from sortition.results.run_folder import INDEX, document
from sortition.results.statistics import LARGEST_MARGIN, MARGIN, Comparison, Reason, Unlike, centre, compare_pairs
from sortition.results.sweeps import flat, value_text

BASELINE = "uniform"  # the method that others are compared with unless a study names another
AROUND = 3  # a study's folder lies at most so far above a part of it: setting, method, seed
COMPARED = {"last": "last 10", "mean": "all rounds"}  # the end of the curve, and the area under it
SAME_TRAFFIC = 0.05  # ratios that are no further from 1 are called the same
# what methods must have in common to be compared fairly; not what defines a method, such as guards.reweight
SHARED = (
    "rounds",
    "cohort",
    "data",
    "model",
    "local",
    "server",
    "availability",
    "devices",
    "pace",
    "guards",
    "faults",
    "attacks",
    "evaluate_every",
)
OF_THE_METHOD = ("guards.reweight",)
Config = Mapping[str, Any]  # of one run
Figures = Mapping[str, float | None]  # of one run, by name
Methods = Mapping[str, Mapping[int, Figures]]  # label → seed → figures


@dataclass(frozen=True)
class Criteria:
    """By what a study's methods are judged.

    Attributes:
        margin: differences up to here are practically none, in points of accuracy or in % of the baseline's loss.
        baseline: label or name of the method that others are compared with; empty for the method ``uniform``.
        all_pairs: whether every pair of methods is compared, all of them as one family of tests.
    """

    margin: float = MARGIN
    baseline: str = ""
    all_pairs: bool = False


DEFAULT = Criteria()


def criteria_of(
    folders: Sequence[str | Path],
    *,
    margin: float | None = None,
    baseline: str | None = None,
    all_pairs: bool | None = None,
) -> Criteria:
    """The criteria of the studies in these folders, where no others are given."""
    if margin is not None and not 0 < margin <= LARGEST_MARGIN:
        raise bad("--margin", f"> 0 and at most {LARGEST_MARGIN:g} points", margin)
    indices = [document(path) for folder in folders for path in _indices(Path(folder))]
    return Criteria(
        margin=_agreed("margin", margin, [index.get("margin", MARGIN) for index in indices], MARGIN),
        baseline=_agreed("baseline", baseline, [index.get("baseline", "") for index in indices], ""),
        all_pairs=_agreed("all-pairs", all_pairs, [index.get("all_pairs", False) for index in indices], False),
    )


def _agreed(option: str, given: Any, stored: Sequence[Any], default: Any) -> Any:
    """The value that is given, else the one that all studies have."""
    if given is not None:
        return given
    values = list(dict.fromkeys(stored))
    if len(values) > 1:
        listed = ", ".join(
            sorted(f"{value:g}" if isinstance(value, float) else str(value or BASELINE) for value in values)
        )
        raise InputError(f"The studies must have the same {option}; got {listed}. Give one with --{option}.")
    return values[0] if values else default


def _indices(folder: Path) -> list[Path]:
    """The indices of the studies in a folder; of a part of a study, that of the study."""
    inside = sorted(folder.rglob(INDEX))
    if inside:
        return inside
    around = [place / INDEX for place in folder.resolve().parents[:AROUND]]
    existing = [path for path in around if path.exists()]
    return existing[:1] or [folder / INDEX]


def metric_of(config: Config) -> str:
    """What a study is judged by: the metric of its target, else accuracy."""
    return "loss" if "loss" in config.get("target", {}) else "accuracy"


def baseline_of(names: Mapping[str, str], wanted: str = "") -> str | None:
    """The label that others are compared with, from label → method; None where it is not among them.

    A wanted baseline is a label, or else the name of a method. Without one it is the method ``uniform``, whatever its
    label is: a label alone makes no baseline.
    """
    if wanted and wanted in names:
        return wanted
    name = wanted or BASELINE
    labels = [label for label, method in names.items() if method == name and label not in REFERENCES]
    return name if name in labels else next(iter(labels), None)


def check_baseline(wanted: str, settings: Sequence[Mapping[str, str]]) -> None:
    """Refuse a baseline that no setting has; each setting is given as label → method."""
    if wanted in REFERENCES:
        raise bad("baseline", "a method that selects clients", wanted)
    if wanted and not any(baseline_of(names, wanted) for names in settings):
        labels = list(dict.fromkeys(label for names in settings for label in names if label not in REFERENCES))
        raise unknown("baseline", wanted, labels, "the study")


def resolution_of(manifests: Sequence[Mapping[str, Any]], metric: str) -> float | None:
    """The smallest step of an accuracy: one test example of the smallest test set; None where it is not known."""
    counts = [int(manifest.get("test_examples") or 0) for manifest in manifests]
    known = [count for count in counts if count > 0]
    if metric != "accuracy" or not known:
        return None
    return 1 / max(2, min(known))


@dataclass(frozen=True)
class SettingComparison:
    """The methods of one setting against each other.

    Attributes:
        figures: label → seed → figures of the finished runs.
        names: label → name of the method.
        configs: label → seed → configuration of the run.
        metric: ``accuracy`` or ``loss``.
        criteria: margin, baseline, and whether all pairs are compared.
        resolution: the smallest step of the metric, where known.
    """

    figures: Methods
    names: Mapping[str, str]
    configs: Mapping[str, Mapping[int, Config]]
    metric: str = "accuracy"
    criteria: Criteria = Criteria()
    resolution: float | None = None

    @cached_property
    def baseline(self) -> str | None:
        """The label that others are compared with."""
        return baseline_of(self.names, self.criteria.baseline)

    def against_baseline(self, figure: str = "last") -> dict[str, Comparison]:
        """Every method's ``last`` or ``mean`` figure against the baseline's, by label."""
        found = self._families[figure]
        return {comparison.method: comparison for comparison in found if comparison.baseline == self.baseline}

    def shown_first(self) -> list[Comparison]:
        """Those with the baseline, or all pairs where there is no baseline."""
        return list(self.against_baseline().values()) or self.every_pair()

    def every_pair(self, figure: str = "last") -> list[Comparison]:
        """All comparisons of the family: those with the baseline, and all others where all pairs are compared."""
        return self._families[figure]

    @cached_property
    def _families(self) -> dict[str, list[Comparison]]:
        return {figure: self._family(figure) for figure in COMPARED}

    def _family(self, figure: str) -> list[Comparison]:
        """The comparisons of one figure, which are one family of tests.

        Runs that ended at different rounds, as where they stop at a target, are not compared: the sooner one of them
        gets there, the more of its early rounds are in its means.
        """
        values = {
            label: {seed: figures.get(f"{figure}-{self.metric}") for seed, figures in runs.items()}
            for label, runs in self.figures.items()
        }
        found = compare_pairs(
            values,
            self._pairs(),
            metric=self.metric,
            margin=self.criteria.margin,
            resolution=self.resolution,
        )
        return [self._described(comparison, figure) for comparison in found]

    def _pairs(self) -> list[tuple[str, str]]:
        others = [label for label in self.figures if label not in REFERENCES and label != self.baseline]
        pairs: list[tuple[str, str]] = []
        if self.baseline is not None:
            pairs = [(label, self.baseline) for label in others]
        if self.criteria.all_pairs:
            pairs += combinations(others, 2)
        return pairs

    def _described(self, comparison: Comparison, figure: str) -> Comparison:
        """Add what the runs themselves say: whether they are alike, and what they cost."""
        ours = self.figures[comparison.method]
        theirs = self.figures[comparison.baseline]
        described = replace(
            comparison,
            figure=figure,
            unlike=unlike(self.configs.get(comparison.method, {}), self.configs.get(comparison.baseline, {})),
            traffic_ratio=_traffic_ratio(ours, theirs),
        )
        if not _ended_apart(ours, theirs):
            return described
        return Comparison(
            method=described.method,
            baseline=described.baseline,
            seeds=described.seeds,
            difference=math.nan,
            region=described.region,
            metric=described.metric,
            figure=figure,
            family=described.family,
            reason=Reason.ENDED_APART,
            unlike=described.unlike,
            traffic_ratio=described.traffic_ratio,
        )


def unlike(ours: Mapping[int, Config], theirs: Mapping[int, Config]) -> tuple[Unlike, ...]:
    """The shared keys in which the configurations of two methods differ on any seed that both have."""
    found: dict[str, Unlike] = {}
    for seed in ours:
        if seed not in theirs:
            continue
        our_values = _shared_values(ours[seed])
        their_values = _shared_values(theirs[seed])
        for key in {**their_values, **our_values}:
            our_value = our_values.get(key)
            their_value = their_values.get(key)
            if our_value != their_value:
                found.setdefault(key, Unlike(key, ours=value_text(our_value), theirs=value_text(their_value)))
    return tuple(found.values())


def _shared_values(config: Config) -> dict[str, Any]:
    values = flat({key: config[key] for key in SHARED if key in config})
    return {key: value for key, value in values.items() if key not in OF_THE_METHOD}


def _ended_apart(ours: Mapping[int, Figures], theirs: Mapping[int, Figures]) -> bool:
    """Whether runs of one seed played different numbers of rounds, where both are known."""
    for seed in ours:
        if seed in theirs:
            played = {ours[seed].get("rounds"), theirs[seed].get("rounds")} - {None}
            if len(played) > 1:
                return True
    return False


def _traffic_ratio(ours: Mapping[int, Figures], theirs: Mapping[int, Figures]) -> float | None:
    our_bytes = _megabytes_a_round(ours)
    their_bytes = _megabytes_a_round(theirs)
    return our_bytes / their_bytes if our_bytes and their_bytes else None


def _megabytes_a_round(runs: Mapping[int, Figures]) -> float | None:
    ratios = []
    for figures in runs.values():
        megabytes = figures.get("megabytes")
        rounds = figures.get("rounds")
        ratios.append(megabytes / rounds if megabytes and rounds else None)
    middle = centre(ratios)
    return None if middle is None else middle.mean

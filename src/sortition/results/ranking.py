"""Several settings: mean ranks with their critical difference, wins and losses, performance profiles."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Floats
from sortition.results.statistics import LEVEL, VERDICTS, Comparison


@dataclass(frozen=True)
class Ranking:
    """Methods that every setting has, by their mean rank over settings (1 is best).

    Attributes:
        ranks: label → mean rank, the best first; methods that are alike in a setting share the mean of their ranks.
        settings: how many there are.
        critical: Nemenyi's critical difference at 5 %: closer mean ranks are not shown to differ. Infinite for a single
            setting, which shows nothing.
        p: Friedman's test that all methods are alike; NaN with fewer than three methods or settings.
    """

    ranks: dict[str, float]
    settings: int
    critical: float
    p: float

    def groups(self) -> list[list[str]]:
        """Return the largest sets of neighbours that are not shown to differ."""
        return find_groups(self.ranks, self.critical)


def rank_methods(values: Mapping[str, Mapping[str, float]], *, higher: bool) -> Ranking:
    """Rank the methods that all settings share, from setting → label → value.

    A value that is not finite, of runs that diverged, is the worst of its setting.
    """
    from scipy import stats

    labels = shared_labels(values)
    table = np.array([[by_label[label] for label in labels] for by_label in values.values()])
    n_settings = len(values)
    n_methods = len(labels)
    if not table.size:
        return Ranking(ranks={}, settings=n_settings, critical=math.inf, p=math.nan)
    sign = -1 if higher else 1
    cost = np.where(np.isfinite(table), sign * table, np.inf)  # less is better
    mean_ranks = stats.rankdata(cost, axis=1).mean(axis=0)
    p = math.nan
    if n_methods > 2 and n_settings > 2:
        p = float(stats.friedmanchisquare(*cost.T).pvalue)
    return Ranking(
        ranks={labels[column]: float(mean_ranks[column]) for column in np.argsort(mean_ranks, kind="stable")},
        settings=n_settings,
        critical=critical_difference(n_methods, n_settings),
        p=p,
    )


def shared_labels(values: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the labels that every setting has, in the order of the first."""
    first_setting = next(iter(values.values()), {})
    return [label for label in first_setting if all(label in by_label for by_label in values.values())]


def critical_difference(methods: int, settings: int, level: float = LEVEL) -> float:
    """Return Nemenyi's critical difference: mean ranks that are so far apart or further differ significantly."""
    from scipy import stats

    if methods < 2 or settings < 2:
        return math.inf
    q = float(stats.studentized_range.isf(level, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * settings))


def find_groups(ranks: Mapping[str, float], critical: float) -> list[list[str]]:
    """Return the largest sets of neighbours by rank whose ranks differ by less than the critical difference."""
    labels = sorted(ranks, key=lambda label: ranks[label])
    largest_groups: list[list[str]] = []
    last_end = 0
    for start, first in enumerate(labels):
        group = [label for label in labels[start:] if ranks[label] - ranks[first] < critical]
        end = start + len(group)
        if len(group) > 1 and end > last_end:
            largest_groups.append(group)
            last_end = end
    return largest_groups


def count_verdicts(settings: Sequence[Mapping[str, Comparison]]) -> dict[str, Counter[str]]:
    """Count how often each verdict fell over the settings, by label; each setting is label → comparison."""
    counts: dict[str, Counter[str]] = {}
    for comparisons in settings:
        for label, comparison in comparisons.items():
            counts.setdefault(label, Counter(dict.fromkeys(VERDICTS, 0)))[comparison.verdict] += 1
    return counts


def performance_profiles(costs: Mapping[str, Floats], points: Floats) -> dict[str, Floats]:
    """Return Dolan and Moré's profiles: label → share of the problems that it solves within each factor of the best.

    Args:
        costs: label → (problems,) what each problem cost; infinite where it was not solved.
        points: the factors, from 1 on.
    """
    table = np.array(list(costs.values()))
    best = table.min(axis=0)
    solvable = np.isfinite(best)
    if not solvable.any():
        return {label: np.zeros(points.size) for label in costs}
    ratio = table[:, solvable] / np.maximum(best[solvable], np.finfo(float).tiny)
    shares = (ratio[:, :, None] <= points).mean(axis=1)
    return dict(zip(costs, shares, strict=True))

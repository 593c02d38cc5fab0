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
        ranks: label → mean rank, the best first.
        settings: how many there are.
        critical: Nemenyi's critical difference at 5 %: closer mean ranks are not shown to differ.
        p: Friedman's test that all methods are alike; NaN with fewer than three methods or settings.
    """

    ranks: dict[str, float]
    settings: int
    critical: float
    p: float

    def groups(self) -> list[list[str]]:
        """The largest sets of neighbours that are not shown to differ."""
        return groups(self.ranks, self.critical)


def rank(values: Mapping[str, Mapping[str, float]], *, higher: bool) -> Ranking | None:
    """Mean ranks from setting → label → value; None without two settings that share two methods.

    A value that is not finite, of runs that diverged, is the worst of its setting.
    """
    from scipy import stats

    first = next(iter(values.values()), {})
    shared = [label for label in first if all(label in by_label for by_label in values.values())]
    if len(shared) < 2 or len(values) < 2:
        return None
    table = np.array([[by_label[label] for label in shared] for by_label in values.values()])
    table = np.where(np.isfinite(table), -table if higher else table, np.inf)  # less is better
    ranks = stats.rankdata(table, axis=1).mean(axis=0)
    n_settings, n_methods = table.shape
    p = math.nan
    if n_methods > 2 and n_settings > 2:
        p = float(stats.friedmanchisquare(*table.T).pvalue)
    return Ranking(
        ranks={shared[column]: float(ranks[column]) for column in np.argsort(ranks, kind="stable")},
        settings=n_settings,
        critical=critical_difference(n_methods, n_settings),
        p=p,
    )


def critical_difference(methods: int, settings: int, level: float = LEVEL) -> float:
    """Nemenyi's: mean ranks that are so far apart or further differ significantly."""
    from scipy import stats

    q = float(stats.studentized_range.isf(level, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * settings))


def groups(ranks: Mapping[str, float], critical: float) -> list[list[str]]:
    """The largest sets of neighbours by rank whose ranks differ by less than the critical difference."""
    labels = sorted(ranks, key=lambda label: ranks[label])
    found: list[list[str]] = []
    last_end = 0
    for start, first in enumerate(labels):
        near = [label for label in labels[start:] if ranks[label] - ranks[first] < critical]
        end = start + len(near)
        if len(near) > 1 and end > last_end:
            found.append(near)
            last_end = end
    return found


def wins(found: Sequence[Mapping[str, Comparison]]) -> dict[str, Counter[str]]:
    """Label → how often each verdict fell, over the settings."""
    labels = dict.fromkeys(label for one in found for label in one)
    return {
        label: Counter({v: sum(one[label].verdict == v for one in found if label in one) for v in VERDICTS})
        for label in labels
    }


def profiles(costs: Mapping[str, Floats], points: Floats) -> dict[str, Floats]:
    """Dolan and Moré's profiles: label → share of the problems that it solves within each factor of the best.

    Args:
        costs: label → (problems,) what each problem cost; infinite where it was not solved.
        points: the factors, from 1 on.
    """
    table = np.array(list(costs.values()))
    best = table.min(axis=0)
    solvable = np.isfinite(best)
    ratio = table[:, solvable] / np.maximum(best[solvable], np.finfo(float).tiny)
    shares = (ratio[:, :, None] <= points).mean(axis=1) if solvable.any() else np.zeros((len(table), points.size))
    return dict(zip(costs, shares, strict=True))

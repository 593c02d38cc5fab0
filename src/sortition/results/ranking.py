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
        labels = list(self.ranks)
        ends = [
            max(at for at in range(start, len(labels)) if self.ranks[labels[at]] - self.ranks[first] <= self.critical)
            for start, first in enumerate(labels)
        ]
        kept = [(start, end) for start, end in enumerate(ends) if end > start and (not start or ends[start - 1] < end)]
        return [labels[start : end + 1] for start, end in kept]


def rank(values: Mapping[str, Mapping[str, float]], *, higher: bool) -> Ranking | None:
    """Mean ranks from setting → label → value; None without two settings that share two methods.

    A value that is not finite, of runs that diverged, is the worst of its setting.
    """
    from scipy import stats

    shared = [label for label in next(iter(values.values()), {}) if all(label in found for found in values.values())]
    if len(shared) < 2 or len(values) < 2:
        return None
    table = np.array([[found[label] for label in shared] for found in values.values()])
    table = np.where(np.isfinite(table), -table if higher else table, np.inf)  # less is better
    ranks = stats.rankdata(table, axis=1).mean(axis=0)
    n, k = table.shape
    critical = float(
        stats.studentized_range.ppf(1 - LEVEL, k, np.inf) / math.sqrt(2) * math.sqrt(k * (k + 1) / (6 * n))
    )
    p = float(stats.friedmanchisquare(*table.T).pvalue) if k > 2 and n > 2 else math.nan
    order = np.argsort(ranks, kind="stable")
    return Ranking({shared[at]: float(ranks[at]) for at in order}, n, critical, p)


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

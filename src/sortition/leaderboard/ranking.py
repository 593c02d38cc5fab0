"""What a table of runs says: ranks with a critical difference, gains over the baseline, better and worse cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import stats

from sortition.core.arrays import Floats
from sortition.leaderboard.entries import BASELINE
from sortition.results.statistics import LEVEL, compare

Values = dict[str, dict[str, dict[int, float]]]  # cell → method → seed → figure
LEAST = 2  # seeds without which a cell says nothing


@dataclass(frozen=True)
class Standing:
    """One method over the cells in which all compared methods have the same seeds.

    Attributes:
        rank: mean over the cells of its rank by the mean over seeds, 1 is best.
        gain: mean over the cells of its difference from the baseline; low, high: the 95 % interval of that mean, the
            cells taken as a sample (paired t).
        better, worse: cells in which the difference is significant, Holm-corrected over the cells.
        worst, worst_gain: the cell in which it gains least, and how much.
    """

    method: str
    rank: float
    gain: float
    low: float
    high: float
    better: int
    worse: int
    worst: str
    worst_gain: float


def values_of(rows: pl.DataFrame, figure: str) -> Values:
    """The figure by cell, method and seed."""
    found: Values = {}
    for cell, method, seed, value in rows.select("cell", "method", "seed", figure).iter_rows():
        if value is not None:
            found.setdefault(cell, {}).setdefault(method, {})[seed] = float(value)
    return found


def paired(values: Values, methods: Sequence[str]) -> Values:
    """Only these methods, in cells where all of them have at least two seeds in common, and only those seeds."""
    kept: Values = {}
    for cell, found in values.items():
        if not all(method in found for method in methods):
            continue
        seeds = set.intersection(*(set(found[method]) for method in methods))
        if len(seeds) >= LEAST:
            kept[cell] = {method: {seed: found[method][seed] for seed in sorted(seeds)} for method in methods}
    return kept


def standings(values: Values, methods: Sequence[str]) -> list[Standing]:
    """The methods by mean rank, the best first."""
    ranks = mean_ranks(values, methods)
    found = []
    for method in methods:
        tests = {cell: _test(held[method], held[BASELINE]) for cell, held in values.items()}
        gains = {cell: difference for cell, (difference, _) in tests.items()}
        significant = holm({cell: p for cell, (_, p) in tests.items()})
        better, worse = (sum(significant[cell] and sign * gains[cell] > 0 for cell in gains) for sign in (1, -1))
        worst = min(gains, key=lambda cell: gains[cell])
        low, high = interval(np.array(list(gains.values())))
        found.append(
            Standing(
                method=method,
                rank=float(ranks[method]),
                gain=float(np.mean(list(gains.values()))),
                low=low,
                high=high,
                better=better,
                worse=worse,
                worst=worst,
                worst_gain=gains[worst],
            )
        )
    return sorted(found, key=lambda one: one.rank)


def mean_ranks(values: Values, methods: Sequence[str]) -> dict[str, float]:
    """The mean over the cells of each method's rank."""
    table = np.array([[-np.mean(list(held[method].values())) for method in methods] for held in values.values()])
    return dict(zip(methods, stats.rankdata(table, axis=1).mean(axis=0).tolist(), strict=True))


def _test(ours: Mapping[int, float], base: Mapping[int, float]) -> tuple[float, float]:
    """Mean paired difference and its p-value, uncorrected."""
    one = compare(base, {"method": ours})["method"]
    return one.difference, one.p if any(ours[seed] != base[seed] for seed in ours) else 1.0


def holm(p: Mapping[str, float], level: float = LEVEL) -> dict[str, bool]:
    """Which hypotheses Holm's step-down procedure rejects."""
    rejected, left = dict.fromkeys(p, False), len(p)
    for name in sorted(p, key=lambda one: p[one]):
        if not p[name] < level / left:
            break
        rejected[name], left = True, left - 1
    return rejected


def interval(differences: Floats, level: float = LEVEL) -> tuple[float, float]:
    """The t-interval of a mean; without bounds of a single value."""
    if differences.size < LEAST:
        return -math.inf, math.inf
    half = float(stats.t.isf(level / 2, differences.size - 1) * stats.sem(differences))
    return float(differences.mean()) - half, float(differences.mean()) + half


def critical_difference(methods: int, cells: int, level: float = LEVEL) -> float:
    """Nemenyi's: mean ranks that are further apart differ significantly."""
    q = float(stats.studentized_range.isf(level, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * cells))


def friedman(values: Values, methods: Sequence[str]) -> float:
    """The p-value of Friedman's test that all methods rank alike."""
    columns = [[float(np.mean(list(held[method].values()))) for held in values.values()] for method in methods]
    return float(stats.friedmanchisquare(*columns).pvalue) if len(methods) > 2 and len(values) > 1 else 1.0


def gains_by_family(
    values: Values, families: Mapping[str, Mapping[str, str]], kind: str, methods: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Family → method → mean gain over the baseline in the cells of that family."""
    found: dict[str, dict[str, list[float]]] = {}
    for cell, held in values.items():
        base = np.mean(list(held[BASELINE].values()))
        for method in methods:
            gain = float(np.mean(list(held[method].values())) - base)
            found.setdefault(families[cell][kind], {}).setdefault(method, []).append(gain)
    return {name: {method: float(np.mean(gains)) for method, gains in held.items()} for name, held in found.items()}

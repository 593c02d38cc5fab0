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
from sortition.results.ranking import Ranking, rank_methods
from sortition.results.statistics import FEWEST_SEEDS, LEVEL, Comparison, compare, holm

Values = dict[str, dict[str, dict[int, float]]]  # cell → method → seed → figure


@dataclass(frozen=True)
class Standing:
    """One method over the cells in which all compared methods have the same seeds.

    Attributes:
        rank: mean over the cells of its rank by the mean over seeds, 1 is best.
        gain: mean over the cells of its difference from the baseline; low, high: the 95 % interval of that mean, the
            cells taken as a sample (paired t).
        better, worse: cells in which the difference is significant, with Holm's correction over all methods and cells.
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


def values_by_cell(rows: pl.DataFrame, figure: str) -> Values:
    """Return the figure by cell, method and seed."""
    values: Values = {}
    for cell, method, seed, value in rows.select("cell", "method", "seed", figure).iter_rows():
        if value is not None:
            values.setdefault(cell, {}).setdefault(method, {})[seed] = float(value)
    return values


def keep_common_seeds(values: Values, methods: Sequence[str]) -> Values:
    """Return the values of these methods on the seeds that all have, of cells with at least three such seeds."""
    paired_values: Values = {}
    for cell, by_method in values.items():
        if not all(method in by_method for method in methods):
            continue
        seeds = sorted(set.intersection(*(set(by_method[method]) for method in methods)))
        if len(seeds) >= FEWEST_SEEDS:
            paired_values[cell] = {method: {seed: by_method[method][seed] for seed in seeds} for method in methods}
    return paired_values


def compute_standings(values: Values, methods: Sequence[str]) -> list[Standing]:
    """Return the standing of each method, the best mean rank first."""
    ranks = rank_over_cells(values, methods).ranks
    comparisons = [
        (cell, comparison) for cell, by_method in values.items() for comparison in _compare_in_cell(by_method, methods)
    ]
    significant = holm([comparison.p_single for _, comparison in comparisons])
    better = dict.fromkeys(methods, 0)
    worse = dict.fromkeys(methods, 0)
    for (_, comparison), rejected in zip(comparisons, significant, strict=True):
        if rejected:
            counts = better if comparison.difference > 0 else worse
            counts[comparison.method] += 1
    standings = []
    for method in methods:
        gains: dict[str, float] = {}
        for cell, by_method in values.items():
            difference = gain_in_cell(by_method, method)
            if difference is not None:
                gains[cell] = difference
        worst = _cell_of_least_gain(gains)
        low, high = mean_interval(np.array(list(gains.values())))
        standings.append(
            Standing(
                method=method,
                rank=ranks[method],
                gain=float(np.mean(list(gains.values()))) if gains else math.nan,
                low=low,
                high=high,
                better=better[method],
                worse=worse[method],
                worst=worst,
                worst_gain=gains.get(worst, math.nan),
            )
        )
    return sorted(standings, key=lambda standing: standing.rank)


def rank_over_cells(values: Values, methods: Sequence[str]) -> Ranking:
    """Return mean ranks over the cells; runs that diverged are the worst."""
    means = {
        cell: {method: _mean_over_seeds(by_method[method]) for method in methods} for cell, by_method in values.items()
    }
    return rank_methods(means, higher=True)


def _compare_in_cell(by_method: Mapping[str, Mapping[int, float]], methods: Sequence[str]) -> list[Comparison]:
    """Compare every method of one cell with the baseline; their tests use the pooled spread of the cell."""
    challengers = {method: by_method[method] for method in methods if method != BASELINE}
    return list(compare(by_method[BASELINE], challengers).values())


def gain_in_cell(by_method: Mapping[str, Mapping[int, float]], method: str) -> float | None:
    """Return a method's mean difference from the baseline in one cell; None where the baseline itself diverged."""
    baseline = _mean_over_seeds(by_method[BASELINE])
    if not math.isfinite(baseline):
        return None
    return _mean_over_seeds(by_method[method]) - baseline


def _mean_over_seeds(by_seed: Mapping[int, float]) -> float:
    return float(np.mean(list(by_seed.values())))


def _cell_of_least_gain(gains: Mapping[str, float]) -> str:
    """Return the cell with the least gain; one that diverged counts as least."""
    return min(gains, key=lambda cell: _finite_or_worst(gains[cell]), default="")


def _finite_or_worst(value: float) -> float:
    return value if math.isfinite(value) else -math.inf


def mean_interval(differences: Floats, level: float = LEVEL) -> tuple[float, float]:
    """Return the t-interval of a mean; that of a single value is infinite."""
    if differences.size < 2:
        return -math.inf, math.inf
    half = float(stats.t.isf(level / 2, differences.size - 1) * stats.sem(differences))
    return float(differences.mean()) - half, float(differences.mean()) + half


def gains_by_family(
    values: Values, families: Mapping[str, Mapping[str, str]], kind: str, methods: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Return family → method → mean gain over the baseline in the cells of that family."""
    gains: dict[str, dict[str, list[float]]] = {}
    for cell, by_method in values.items():
        for method in methods:
            gain = gain_in_cell(by_method, method)
            if gain is not None:
                gains.setdefault(families[cell][kind], {}).setdefault(method, []).append(gain)
    return {
        family: {method: float(np.mean(gains_of_method)) for method, gains_of_method in by_method_gains.items()}
        for family, by_method_gains in gains.items()
    }

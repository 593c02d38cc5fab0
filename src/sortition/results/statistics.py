"""Comparing methods over paired seeds: differences, bootstrap intervals, Wilcoxon's test with Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from sortition.core.streams import stream

LEVEL = 0.05
RESAMPLES = 9999


@dataclass(frozen=True)
class Centre:
    """Mean and spread of the seeds whose figure is known; ``total`` counts the others too."""

    mean: float
    sd: float
    known: int
    total: int


@dataclass(frozen=True)
class Paired:
    """Mean difference over the seeds that both methods have, its 95 % interval, and how likely chance is.

    ``p`` is Wilcoxon's two-sided signed-rank test, ``adjusted`` the same after Holm's correction for all the
    comparisons made beside it; ``floor`` is the least ``adjusted`` that so few seeds allow.
    """

    n: int
    mean: float
    low: float
    high: float
    p: float
    adjusted: float
    floor: float


def centre(values: Sequence[float | None], *, geometric: bool = False) -> Centre | None:
    """Mean and standard deviation (n − 1) of what is known; None if nothing is."""
    known = np.array([value for value in values if value is not None], np.float64)
    if not known.size:
        return None
    if geometric:
        logs = np.log(known)
        return Centre(float(np.exp(logs.mean())), float("nan"), known.size, len(values))
    spread = float(known.std(ddof=1)) if known.size > 1 else float("nan")
    return Centre(float(known.mean()), spread, known.size, len(values))


def paired(ours: Mapping[int, float | None], theirs: Mapping[int, float | None]) -> Paired | None:
    """Ours minus theirs, seed by seed, where both are known."""
    seeds = [s for s in ours if ours[s] is not None and theirs.get(s) is not None]
    if not seeds:
        return None
    difference = np.array([ours[s] - theirs[s] for s in seeds])  # type: ignore[operator]
    low, high = interval(difference)
    p = wilcoxon(difference)
    return Paired(len(seeds), float(difference.mean()), low, high, p, p, least(len(seeds)))


def interval(difference: np.ndarray) -> tuple[float, float]:
    """95 % percentile bootstrap interval of the mean; nothing can be said of one seed."""
    if difference.size < 2:
        return math.nan, math.nan
    if np.ptp(difference) == 0:
        return float(difference[0]), float(difference[0])
    found = stats.bootstrap(
        (difference,), np.mean, n_resamples=RESAMPLES, method="percentile", rng=stream(0, "bootstrap")
    ).confidence_interval
    return float(found.low), float(found.high)


def wilcoxon(difference: np.ndarray) -> float:
    """Two-sided p; exactly where there are no ties or zeros; all zeros are no evidence at all."""
    return 1.0 if not difference.any() else float(stats.wilcoxon(difference).pvalue)


def least(n: int) -> float:
    """The smallest two-sided p that n pairs can give: 2 / 2ⁿ."""
    return min(1.0, 2.0 ** (1 - n))


def holm(found: Mapping[str, Paired]) -> dict[str, Paired]:
    """Step-down correction: the i-th smallest of m p-values counts (m − i) times, never less than the one before."""
    order = sorted(found, key=lambda name: found[name].p)
    result, worst = {}, 0.0
    for at, name in enumerate(order):
        worst = max(worst, min(1.0, (len(order) - at) * found[name].p))
        floor = min(1.0, len(order) * least(found[name].n))
        result[name] = replace(found[name], adjusted=worst, floor=floor)
    return {name: result[name] for name in found}


def verdict(comparison: Paired, *, higher: bool) -> str:
    """In words, so that no gain is as easy to see as a gain."""
    if comparison.adjusted < LEVEL:
        return "better" if (comparison.mean > 0) == higher else "worse"
    return "too few seeds to tell" if comparison.floor >= LEVEL else "no difference shown"

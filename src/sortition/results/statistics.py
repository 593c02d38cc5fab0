"""Comparing methods in pairs over seeds: interval, p-value and verdict from one procedure.

Paired t on the seeds' differences, with a floor under their spread and Bonferroni's correction for all pairs that are
compared. The 95 % intervals hold simultaneously, and p < 0.05 exactly where an interval excludes zero. Two one-sided
tests at 5 % with the same correction show practical equality. docs/statistics.md says why, and what it cannot do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from sortition.core.arrays import Array, Floats
from sortition.core.errors import bad, unknown

LEVEL = 0.05  # the chance of any false alarm among all comparisons of a family
MARGIN = 0.5  # points of accuracy, or % of the baseline's loss: smaller differences are practically none
LARGEST_MARGIN = 100.0  # points: beyond it every difference is practically none
FEWEST_SEEDS = 3  # fewer show no spread that could be trusted
POWER = 0.8  # the chance of a decision with the number of seeds that is advised
MOST_SEEDS = 1000
ROUNDING = 1e-9  # differences that are this close, relative to their size, differ by the rounding of numbers alone
SKEWED = 1.96  # standard errors of the skewness beyond which differences look skewed
HIGHER = {"accuracy": True, "loss": False}  # the metrics, and whether more is better
BETTER, WORSE, EQUAL, UNDECIDED = "better", "worse", "practically equal", "undecided"
VERDICTS = (BETTER, WORSE, EQUAL, UNDECIDED)
Values = Mapping[int, float | None] | Sequence[float | None]  # by seed, or in the order of the seeds


class Reason(StrEnum):
    """Why a comparison has no verdict."""

    FEW_SEEDS = "fewer than three seeds"
    DIVERGED = "a run diverged"
    ENDED_APART = "runs ended at different rounds"
    NO_SPREAD = "no spread and no known resolution"
    MORE_SEEDS = "more seeds are needed"


@dataclass(frozen=True)
class Centre:
    """Mean and spread of the seeds whose figure is known; ``total`` counts the others too."""

    mean: float
    sd: float
    known: int
    total: int


@dataclass(frozen=True)
class Unlike:
    """A key of the configuration in which a method's runs differ from those of what it is compared with."""

    key: str
    ours: str
    theirs: str


@dataclass(frozen=True)
class Comparison:
    """A method minus a baseline, over the seeds that both have: the one result that all tables and sentences render.

    Attributes:
        method, baseline: the labels; the difference is the method's figure minus the baseline's.
        metric: ``accuracy`` or ``loss``.
        figure: ``last`` for the end of training, ``mean`` for all rounds; empty for other values.
        seeds: how many pairs there are.
        difference: their mean; NaN where a run diverged, and where runs of a pair ended at different rounds.
        region: differences up to here are practically none, in the unit of the figure.
        family: how many comparisons share the level.
        sd: standard deviation of the differences over seeds, as observed.
        error: standard error of the mean difference that the tests use; the floor is in it.
        low, high: the simultaneous 95 % interval; NaN with fewer than three pairs.
        p: two-sided, corrected; below 5 % exactly where the interval excludes zero.
        p_single: the same without a correction.
        inner_low, inner_high: the 90 % interval that lies inside ±region exactly where both one-sided tests reject.
        p_equal: of the two one-sided tests, corrected.
        signed_rank: the exact signed-rank test as a check, corrected; None where so few pairs can never reach 5 %.
        verdict: better, worse, practically equal or undecided.
        reason: why there is no verdict; None where there is one.
        seeds_needed: where undecided, how many seeds would decide with a chance of 80 % if difference and spread stay
            as observed; None where decided, with fewer than three pairs, or beyond a thousand.
        skewed: whether the differences look skewed, so that the tests' error rates may not hold.
        unlike: the keys in which the two methods' configurations differ; where there are any, it is no fair comparison.
        traffic_ratio: bytes a round of the method over those of the baseline; None where unknown.
    """

    method: str
    baseline: str
    seeds: int
    difference: float
    region: float
    metric: str = "accuracy"
    figure: str = ""
    family: int = 1
    sd: float = math.nan
    error: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = 1.0
    p_single: float = 1.0
    inner_low: float = math.nan
    inner_high: float = math.nan
    p_equal: float = 1.0
    signed_rank: float | None = None
    verdict: str = UNDECIDED
    reason: Reason | None = None
    seeds_needed: int | None = None
    skewed: bool = False
    unlike: tuple[Unlike, ...] = ()
    traffic_ratio: float | None = None

    @property
    def decided(self) -> bool:
        """Whether there is a verdict."""
        return self.verdict != UNDECIDED

    @property
    def gain(self) -> float:
        """The difference, positive where the method is ahead of the baseline."""
        return self.difference if HIGHER[self.metric] else -self.difference


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


def compare(
    baseline: Values,
    others: Mapping[str, Values],
    *,
    metric: str = "accuracy",
    margin: float = MARGIN,
    resolution: float | None = None,
    level: float = LEVEL,
) -> dict[str, Comparison]:
    """Compare every method with the baseline, seed by seed; those without a common seed are left out.

    Args:
        baseline: seed → value, or the values in the order of the seeds; None where unknown.
        others: label → the same of each method. All of them are one family: the more, the wider the intervals.
        metric: ``accuracy``, as a share, where more is better, or ``loss``, where less is.
        margin: differences up to here are practically none, in points of accuracy or in % of the baseline's loss.
        resolution: the smallest step of the values, such as 1 / 500 for accuracies on 500 test examples; None where
            it is not known.
        level: the chance of any false alarm in the whole family.
    """
    name = "baseline"
    while name in others:
        name += "'"
    pairs = [(label, name) for label in others]
    found = compare_pairs(
        {**others, name: baseline}, pairs, metric=metric, margin=margin, resolution=resolution, level=level
    )
    return {comparison.method: comparison for comparison in found}


def compare_pairs(
    values: Mapping[str, Values],
    pairs: Sequence[tuple[str, str]],
    *,
    metric: str = "accuracy",
    margin: float = MARGIN,
    resolution: float | None = None,
    level: float = LEVEL,
) -> list[Comparison]:
    """Compare the (method, baseline) pairs as one family; those without a common seed are left out.

    ``values`` are label → values of each method; the other arguments are those of :func:`compare`.
    """
    if metric not in HIGHER:
        raise unknown("metric", metric, HIGHER, "compare")
    if not 0 < margin <= LARGEST_MARGIN:
        raise bad("compare.margin", f"> 0 and at most {LARGEST_MARGIN:g}", margin)
    if not 0 < level < 1:
        raise bad("compare.level", "between 0 and 1", level)
    if resolution is not None and not 0 < resolution < 1:
        raise bad("compare.resolution", "between 0 and 1, or None where it is not known", resolution)
    by_pair = {pair: differences(values[pair[0]], values[pair[1]]) for pair in pairs}
    by_pair = {pair: found for pair, found in by_pair.items() if found.size}
    variances = np.array([_variance(found) for found in by_pair.values()])
    pooled = float(pooled_variance(variances))
    comparisons = []
    for ((method, baseline), found), variance in zip(by_pair.items(), variances, strict=True):
        comparison = Comparison(
            method=method,
            baseline=baseline,
            seeds=found.size,
            difference=float(found.mean()) if np.isfinite(found).all() else math.nan,
            region=_region(metric, margin, values[baseline]),
            metric=metric,
            family=len(by_pair),
            sd=math.sqrt(variance),
        )
        identical = not found.any()  # the same figures on every seed: there is no spread to be estimated
        tested = floored_variance(variance, n=found.size, pooled=0.0 if identical else pooled, resolution=resolution)
        comparisons.append(_judged(comparison, found, math.sqrt(float(tested) / found.size), level))
    return comparisons


def differences(ours: Values, theirs: Values) -> Floats:
    """Ours minus theirs, seed by seed, where both are known."""
    our_values = _by_seed(ours)
    their_values = _by_seed(theirs)
    a = np.array([value for seed, value in our_values.items() if seed in their_values], np.float64)
    b = np.array([their_values[seed] for seed in our_values if seed in their_values], np.float64)
    with np.errstate(invalid="ignore"):
        found = a - b
        same = np.abs(found) <= ROUNDING * np.maximum(np.abs(a), np.abs(b))
    return np.where(same & np.isfinite(found), 0.0, found)


def _by_seed(values: Values) -> dict[int, float]:
    pairs = values.items() if isinstance(values, Mapping) else enumerate(values)
    return {seed: float(value) for seed, value in pairs if value is not None}


def _region(metric: str, margin: float, baseline: Values) -> float:
    """Half the region of practical equality, in the unit of the figure."""
    if metric == "accuracy":
        return margin / 100
    middle = centre(list(_by_seed(baseline).values()))
    size = 0.0 if middle is None else abs(middle.mean)
    return margin / 100 * (size if 0 < size < math.inf else 1.0)


def _variance(pairs: Floats) -> float:
    """Sample variance (n − 1); zero where the differences are equal up to rounding, NaN where there is none."""
    if pairs.size < 2 or not np.isfinite(pairs).all():
        return math.nan
    if np.ptp(pairs) <= ROUNDING * np.abs(pairs).max():
        return 0.0
    return float(pairs.var(ddof=1))


def pooled_variance(variances: Floats) -> Floats:
    """The median (…,) over the comparisons (…, m) of a family that have any spread; 0 where none has."""
    known = np.where(variances > 0, variances, np.nan)
    some = ~np.isnan(known).all(axis=-1)
    found = np.zeros(some.shape)
    found[some] = np.nanmedian(known[some], axis=-1)
    return found


def floored_variance(variance: float | Floats, *, n: int, pooled: float | Floats, resolution: float | None) -> Floats:
    """The variance that tests use: never below what the family and the resolution of the values make plausible.

    The pooled variance counts as one further degree of freedom where it is the larger one, and differences of values
    that are rounded to a step h have a variance of at least h² / 6. Degrees of freedom stay n − 1.
    """
    moderated = ((n - 1) * variance + pooled) / n
    step = 0.0 if resolution is None else resolution
    return np.maximum(np.maximum(variance, moderated), step**2 / 6)


def _judged(comparison: Comparison, pairs: Floats, error: float, level: float) -> Comparison:
    """Add interval, p-values and verdict to what is known of the differences, given their mean's standard error."""
    n = comparison.seeds
    mean = comparison.difference
    if math.isnan(mean):
        return replace(comparison, reason=Reason.DIVERGED)
    if n < FEWEST_SEEDS:
        return replace(comparison, reason=Reason.FEW_SEEDS)
    if error == 0 and mean != 0:
        return replace(comparison, error=error, reason=Reason.NO_SPREAD)
    share = level / comparison.family
    outer = _quantile(share / 2, n) * error
    inner = _quantile(share, n) * error
    p_single = min(1.0, 2 * _tail(abs(mean), error, n))
    p = min(1.0, comparison.family * p_single)
    p_equal = min(1.0, comparison.family * _tail(comparison.region - abs(mean), error, n))
    judged = replace(
        comparison,
        error=error,
        low=mean - outer,
        high=mean + outer,
        p=p,
        p_single=p_single,
        inner_low=mean - inner,
        inner_high=mean + inner,
        p_equal=p_equal,
        signed_rank=signed_rank(pairs, comparison.family, level),
        skewed=looks_skewed(pairs),
    )
    if p_equal < level:
        return replace(judged, verdict=EQUAL)
    if p < level:
        return replace(judged, verdict=BETTER if judged.gain > 0 else WORSE)
    needed = seeds_needed(mean, error * math.sqrt(n), share, comparison.region)
    return replace(judged, reason=Reason.MORE_SEEDS, seeds_needed=needed)


def _quantile(tail: float, n: int) -> float:
    """Student's quantile with n − 1 degrees of freedom that leaves this chance above it."""
    from scipy.special import stdtrit

    return float(-stdtrit(n - 1, tail))


def _tail(distance: float, error: float, n: int) -> float:
    """Student's chance to lie further out than this distance; without any spread it is sure."""
    from scipy.special import stdtr

    if error == 0:
        return 0.0 if distance > 0 else 1.0
    return float(stdtr(n - 1, -distance / error))


def looks_skewed(pairs: Floats) -> bool:
    """Whether the sample skewness is beyond what normal differences show in about 5 % of samples.

    g₁ of n normal values has the variance 6 (n − 2) / ((n + 1) (n + 3)); three values can never look skewed.
    """
    n = pairs.size
    deviations = pairs - pairs.mean()
    second = float((deviations**2).mean())
    if n < FEWEST_SEEDS or np.ptp(pairs) <= ROUNDING * np.abs(pairs).max():
        return False
    skewness = float((deviations**3).mean()) / second**1.5
    expected = math.sqrt(6 * (n - 2) / ((n + 1) * (n + 3)))
    return bool(abs(skewness) > SKEWED * expected)


def signed_rank(pairs: Array, family: float, level: float) -> float | None:
    """Wilcoxon's two-sided signed-rank test, corrected; None where n pairs cannot reach the level (2 / 2ⁿ each)."""
    if family * 2.0 ** (1 - pairs.size) >= level:
        return None
    from scipy.stats import wilcoxon  # scipy.stats takes long to import, and few seeds do not need it

    return 1.0 if not pairs.any() else min(1.0, family * float(wilcoxon(pairs).pvalue))


def seeds_needed(difference: float, sd: float, share: float, region: float) -> int | None:
    """The fewest seeds that decide with a chance of 80 % if difference and spread are as given."""
    from scipy.special import stdtr, stdtrit

    n = np.arange(FEWEST_SEEDS, MOST_SEEDS + 1)
    size = abs(difference)
    error = np.maximum(sd / np.sqrt(n), np.finfo(float).tiny)
    two_sided = -stdtrit(n - 1, share / 2)
    one_sided = -stdtrit(n - 1, share)
    different = stdtr(n - 1, size / error - two_sided)
    upper = (region - size) / error - one_sided
    lower = (-region - size) / error + one_sided
    equal = stdtr(n - 1, upper) - stdtr(n - 1, lower)
    enough = np.flatnonzero(np.maximum(different, equal) >= POWER)
    return int(n[enough[0]]) if enough.size else None


def holm(p_values: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Which hypotheses Holm's step-down procedure rejects, so that any is rejected falsely with at most this chance."""
    rejected = [False] * len(p_values)
    left = len(p_values)
    for position in sorted(range(len(p_values)), key=lambda i: p_values[i]):
        if not p_values[position] < level / left:
            break
        rejected[position] = True
        left -= 1
    return rejected

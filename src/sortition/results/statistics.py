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
from sortition.core.cost import Currency
from sortition.core.errors import bad, unknown

LEVEL = 0.05  # the chance of any false alarm among all comparisons of a family
MARGIN = 0.5  # points of accuracy, or % of the baseline's loss: smaller differences are practically none
LARGEST_MARGIN = 100.0  # points: beyond it every difference is practically none
FEWEST_SEEDS = 3  # fewer show no spread that could be trusted
POWER = 0.8  # the chance of a decision with the number of seeds that is advised
MOST_SEEDS = 1000
ROUNDING = 1e-9  # differences that are this close, relative to their size, differ by the rounding of numbers alone
SKEWED = 1.96  # standard errors of the skewness beyond which differences look skewed
HIGHER = {  # the test metrics that have a name, and whether more is better
    "accuracy": True,
    "loss": False,
    "f1": True,
    "mse": False,
    "mae": False,
    "rmse": False,
    "r2": True,
}
BETTER = "better"
WORSE = "worse"
EQUAL = "practically equal"
UNDECIDED = "undecided"
VERDICTS = (BETTER, WORSE, EQUAL, UNDECIDED)
Values = Mapping[int, float | None] | Sequence[float | None]  # by seed, or in the order of the seeds


class Reason(StrEnum):
    """Why a comparison has no verdict."""

    FEW_SEEDS = "fewer than three seeds"
    DIVERGED = "a run diverged"
    ENDED_APART = "runs ended at different rounds"
    NOT_REACHED = "not every run reached the target"
    NO_SPREAD = "no spread and no known resolution"
    MORE_SEEDS = "more seeds are needed"


@dataclass(frozen=True)
class Centre:
    """Mean and spread of the seeds whose figure is known; ``total`` counts the others too."""

    mean: float
    sd: float
    n_known: int
    total: int


@dataclass(frozen=True)
class Unlike:
    """Names a key of the configuration in which a method's runs differ from those of its baseline.

    Attributes:
        key: the key with dots, such as ``local.lr``.
        method_value: the method's value, as text.
        baseline_value: the value of what it is compared with, as text.
    """

    key: str
    method_value: str
    baseline_value: str


@dataclass(frozen=True)
class Window:
    """The rounds at the end of a run whose evaluations the figure ``last`` averages.

    Attributes:
        rounds: how many there are: ten, or all of a shorter run.
        evaluations: how many of them tested the model.
        is_whole_run: whether these are all rounds of the run.
    """

    rounds: int
    evaluations: int
    is_whole_run: bool


@dataclass(frozen=True)
class Budget:
    """What every run of a setting has spent: the cost at which methods are compared.

    Attributes:
        currency: the currency in which it is counted.
        start: the cost at which every run had been evaluated at least once; the area under a curve begins there.
        amount: the cost at which they are compared.
    """

    currency: Currency
    start: float
    amount: float

    @property
    def covers_every_run(self) -> bool:
        """Whether every run had been evaluated before this cost, so that curves have a mean up to it."""
        return self.start < self.amount


@dataclass(frozen=True)
class Comparison:
    """A method minus a baseline, over the seeds that both have: the one result that all tables and sentences render.

    Attributes:
        method, baseline: the labels; the difference is the method's figure minus the baseline's.
        metric: ``accuracy``, ``loss`` or the metric of another task.
        higher: whether more of the metric is better; None where its name says so.
        figure: ``last`` for the end of training, ``mean`` for all rounds; ``at-cost`` for the end of a budget, ``auc``
            for all of it; empty for other values.
        window: the rounds that ``last`` averages; None where they are not known.
        budget: the cost at which ``at-cost`` and ``auc`` compare; None where rounds are counted.
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
        p_equal: the p of the two one-sided tests, corrected.
        signed_rank: the exact signed-rank test as a check, corrected; None where so few pairs can never reach 5 %.
        verdict: better, worse, practically equal or undecided.
        reason: why there is no verdict; None where there is one.
        seeds_needed: where undecided, how many seeds would decide with a chance of 80 % if difference and spread stay
            as observed; None where decided, with fewer than three pairs, or beyond a thousand.
        skewed: whether the differences look skewed, so that the tests' error rates may not hold.
        unlike: the keys in which the two methods' configurations differ; where there are any, it is no fair comparison.
        traffic_ratio: bytes of the method over the baseline's, in a round or up to the budget; None where unknown.
        passes_ratio: the same of the examples that clients computed on; None where unknown.
        speed_up: cost to the target of the baseline over that of the method, the geometric mean over the seeds on
            which both reached it; None where there is no such seed.
        reached: on how many seeds both reached the target.
    """

    method: str
    baseline: str
    seeds: int
    difference: float
    region: float
    metric: str = "accuracy"
    higher: bool | None = None
    figure: str = ""
    window: Window | None = None
    budget: Budget | None = None
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
    passes_ratio: float | None = None
    speed_up: float | None = None
    reached: int = 0

    @property
    def decided(self) -> bool:
        """Tell whether there is a verdict."""
        return self.verdict != UNDECIDED

    @property
    def gain(self) -> float:
        """Return the difference, positive where the method is ahead of the baseline."""
        if self.higher_is_better:
            return self.difference
        return -self.difference

    @property
    def higher_is_better(self) -> bool:
        """Tell whether more of the metric is better."""
        if self.higher is None:
            return HIGHER[self.metric]
        return self.higher


def centre(values: Sequence[float | None], *, geometric: bool = False) -> Centre | None:
    """Return mean and standard deviation (n − 1) of the known values; None where there is none.

    A geometric mean has no standard deviation, and neither has a single value: it is NaN then.
    """
    known_values = np.array([value for value in values if value is not None], np.float64)
    if not known_values.size:
        return None
    if geometric:
        mean = float(np.exp(np.log(known_values).mean()))
        sd = math.nan
    else:
        mean = float(known_values.mean())
        sd = math.nan
        if known_values.size > 1:
            sd = float(known_values.std(ddof=1))
    return Centre(mean=mean, sd=sd, n_known=known_values.size, total=len(values))


def half_width(sd: Floats, n: Array, level: float = LEVEL) -> Floats:
    """Return half the t-interval of means over n values with these standard deviations; zero for a single value."""
    from scipy.special import stdtrit

    quantile = -stdtrit(np.maximum(n - 1, 1), level / 2)
    return np.where(n > 1, quantile * sd / np.sqrt(n), 0.0)


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
    baseline_label = "baseline"
    while baseline_label in others:
        baseline_label += "'"
    comparisons = compare_pairs(
        {**others, baseline_label: baseline},
        [(label, baseline_label) for label in others],
        metric=metric,
        margin=margin,
        resolution=resolution,
        level=level,
    )
    return {comparison.method: comparison for comparison in comparisons}


def compare_pairs(
    values: Mapping[str, Values],
    pairs: Sequence[tuple[str, str]],
    *,
    metric: str = "accuracy",
    higher: bool | None = None,
    margin: float = MARGIN,
    resolution: float | None = None,
    level: float = LEVEL,
) -> list[Comparison]:
    """Compare the (method, baseline) pairs as one family; those without a common seed are left out.

    ``values`` are label → values of each method; ``higher`` says whether more of a metric of one's own is better; the
    other arguments are those of :func:`compare`.
    """
    if higher is None and metric not in HIGHER:
        raise unknown("metric", metric, HIGHER, "compare")
    if not 0 < margin <= LARGEST_MARGIN:
        raise bad("compare.margin", f"> 0 and at most {LARGEST_MARGIN:g}", margin)
    if not 0 < level < 1:
        raise bad("compare.level", "between 0 and 1", level)
    if resolution is not None and not 0 < resolution < 1:
        raise bad("compare.resolution", "between 0 and 1, or None where it is not known", resolution)
    paired: dict[tuple[str, str], Floats] = {}
    for method, baseline in pairs:
        pair_differences = differences(values[method], values[baseline])
        if pair_differences.size:
            paired[method, baseline] = pair_differences
    variances = np.array([_variance(pair_differences) for pair_differences in paired.values()])
    pooled = float(pooled_variance(variances))
    comparisons = []
    for ((method, baseline), pair_differences), variance in zip(paired.items(), variances, strict=True):
        seeds = pair_differences.size
        comparison = Comparison(
            method=method,
            baseline=baseline,
            seeds=seeds,
            difference=float(pair_differences.mean()) if np.isfinite(pair_differences).all() else math.nan,
            region=_region(metric, margin, values[baseline]),
            metric=metric,
            higher=higher,
            family=len(paired),
            sd=math.sqrt(variance),
        )
        identical = not pair_differences.any()  # the same figures on every seed: there is no spread to be estimated
        tested_variance = floored_variance(
            variance,
            n=seeds,
            pooled=0.0 if identical else pooled,
            resolution=resolution,
        )
        error = math.sqrt(float(tested_variance) / seeds)
        comparisons.append(_judged(comparison, pair_differences, error, level))
    return comparisons


def differences(method_values: Values, baseline_values: Values) -> Floats:
    """Return the method's values minus the baseline's, seed by seed, where both are known.

    Differences that are no larger than the rounding of numbers are zero.
    """
    method_by_seed = _by_seed(method_values)
    baseline_by_seed = _by_seed(baseline_values)
    seeds = [seed for seed in method_by_seed if seed in baseline_by_seed]
    method_array = np.array([method_by_seed[seed] for seed in seeds], np.float64)
    baseline_array = np.array([baseline_by_seed[seed] for seed in seeds], np.float64)
    with np.errstate(invalid="ignore"):
        difference = method_array - baseline_array
        size = np.maximum(np.abs(method_array), np.abs(baseline_array))
        is_rounding = np.abs(difference) <= ROUNDING * size
    return np.where(is_rounding & np.isfinite(difference), 0.0, difference)


def _by_seed(values: Values) -> dict[int, float]:
    pairs = values.items() if isinstance(values, Mapping) else enumerate(values)
    return {seed: float(value) for seed, value in pairs if value is not None}


def _region(metric: str, margin: float, baseline_values: Values) -> float:
    """Return half the region of practical equality, in the unit of the figure."""
    if metric == "accuracy":
        return margin / 100
    middle = centre(list(_by_seed(baseline_values).values()))
    size = abs(middle.mean) if middle is not None else 0.0
    if not 0 < size < math.inf:
        size = 1.0
    return margin / 100 * size


def _variance(pairs: Floats) -> float:
    """Return the sample variance (n − 1); 0 where differences are equal up to rounding, NaN where there are none."""
    if pairs.size < 2 or not np.isfinite(pairs).all():
        return math.nan
    if np.ptp(pairs) <= ROUNDING * np.abs(pairs).max():
        return 0.0
    return float(pairs.var(ddof=1))


def pooled_variance(variances: Floats) -> Floats:
    """Return the median (…,) over the comparisons (…, m) of a family that have any spread; 0 where none has."""
    positive = np.where(variances > 0, variances, np.nan)
    has_spread = ~np.isnan(positive).all(axis=-1)
    pooled = np.zeros(has_spread.shape)
    pooled[has_spread] = np.nanmedian(positive[has_spread], axis=-1)
    return pooled


def floored_variance(variance: float | Floats, *, n: int, pooled: float | Floats, resolution: float | None) -> Floats:
    """Return the variance that tests use, never below what the family and the values' resolution make plausible.

    The pooled variance counts as one further degree of freedom where it is the larger one, and differences of values
    that are rounded to a step h have a variance of at least h² / 6. Degrees of freedom stay n − 1.
    """
    moderated = ((n - 1) * variance + pooled) / n
    step = resolution if resolution is not None else 0.0
    return np.maximum(np.maximum(variance, moderated), step**2 / 6)


def _judged(comparison: Comparison, pairs: Floats, error: float, level: float) -> Comparison:
    """Return the comparison with interval, p-values and verdict, given the standard error of the mean difference."""
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
    """Return Student's quantile with n − 1 degrees of freedom that leaves this chance above it."""
    from scipy.special import stdtrit

    return float(-stdtrit(n - 1, tail))


def _tail(distance: float, error: float, n: int) -> float:
    """Return Student's chance to lie further out than this distance; without any spread it is sure."""
    from scipy.special import stdtr

    if error == 0:
        return float(distance <= 0)
    return float(stdtr(n - 1, -distance / error))


def looks_skewed(pairs: Floats) -> bool:
    """Tell whether the sample skewness is beyond what normal differences show in about 5 % of samples.

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
    """Return the corrected p of Wilcoxon's two-sided signed-rank test; None where n pairs cannot reach the level."""
    least_p = 2.0 ** (1 - pairs.size)
    if family * least_p >= level:
        return None
    if not pairs.any():
        return 1.0
    from scipy.stats import wilcoxon  # scipy.stats takes long to import, and few seeds do not need it

    return min(1.0, family * float(wilcoxon(pairs).pvalue))


def seeds_needed(difference: float, sd: float, share: float, region: float) -> int | None:
    """Return the fewest seeds that decide with a chance of 80 % if difference and spread are as given."""
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
    sufficient = n[np.maximum(different, equal) >= POWER]
    if not sufficient.size:
        return None
    return int(sufficient[0])


def holm(p_values: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Tell which hypotheses Holm's step-down procedure rejects: any falsely with at most this chance."""
    rejected = [False] * len(p_values)
    hypotheses = len(p_values)
    for position in sorted(range(len(p_values)), key=lambda i: p_values[i]):
        if not p_values[position] < level / hypotheses:
            break
        rejected[position] = True
        hypotheses -= 1
    return rejected

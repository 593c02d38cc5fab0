"""Comparing methods with a baseline over paired seeds: interval, p-value and verdict from one procedure.

Paired t on the seeds' differences, with Bonferroni's correction for all methods that are compared with the baseline.
The 95 % intervals hold simultaneously, and p < 0.05 exactly where an interval excludes zero. Two one-sided tests at
5 % with the same correction show practical equality. docs/statistics.md says why, and what it cannot do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Array, Floats
from sortition.core.errors import bad

LEVEL = 0.05  # of all comparisons of a family together
MARGIN = 0.005  # half a point of accuracy: smaller differences are practically none
POWER = 0.8  # the chance of a decision with the number of seeds that is advised
MOST_SEEDS = 1000
BETTER, WORSE, EQUAL, UNDECIDED = "better", "worse", "practically equal", "undecided"
VERDICTS = (BETTER, WORSE, EQUAL, UNDECIDED)
Values = Mapping[int, float | None] | Sequence[float | None]  # by seed, or in the order of the seeds


@dataclass(frozen=True)
class Centre:
    """Mean and spread of the seeds whose figure is known; ``total`` counts the others too."""

    mean: float
    sd: float
    known: int
    total: int


@dataclass(frozen=True)
class Comparison:
    """A method minus the baseline, over the seeds that both have.

    Attributes:
        seeds: how many pairs there are.
        difference: their mean; NaN where a run diverged, and where runs of a pair ended at different rounds.
        margin: differences up to here are practically none.
        low, high: its 95 % interval, simultaneous for all methods of the family; NaN with fewer than two pairs.
        p: two-sided, corrected; below 5 % exactly where the interval excludes zero.
        inner_low, inner_high: the 90 % interval that lies inside ±margin exactly where both one-sided tests reject.
        p_equal: of the two one-sided tests, corrected.
        signed_rank: the exact signed-rank test as a check, corrected; None where so few pairs can never reach 5 %.
        verdict: better, worse, practically equal or undecided.
        seeds_needed: where undecided, how many seeds would decide with a chance of 80 % if difference and spread stay
            as observed; None where decided, with fewer than two pairs, or beyond a thousand.
        apart: whether runs of a pair ended at different rounds, so that their means over rounds cannot be compared.
    """

    seeds: int
    difference: float
    margin: float
    low: float = math.nan
    high: float = math.nan
    p: float = 1.0
    inner_low: float = math.nan
    inner_high: float = math.nan
    p_equal: float = 1.0
    signed_rank: float | None = None
    verdict: str = UNDECIDED
    seeds_needed: int | None = None
    apart: bool = False

    @property
    def decided(self) -> bool:
        """Whether there is a verdict."""
        return self.verdict != UNDECIDED


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
    higher: bool = True,
    margin: float = MARGIN,
    level: float = LEVEL,
) -> dict[str, Comparison]:
    """Every method against the baseline, seed by seed; those without a common seed are left out.

    Args:
        baseline: seed → value, or the values in the order of the seeds; None where unknown.
        others: label → the same of each method. All of them are one family: the more, the wider the intervals.
        higher: whether more is better.
        margin: differences up to here are practically none, in the unit of the values.
        level: the chance of any false alarm in the whole family.
    """
    if not margin > 0:
        raise bad("compare.margin", "> 0", margin)
    if not 0 < level < 1:
        raise bad("compare.level", "between 0 and 1", level)
    found = {label: differences(values, baseline) for label, values in others.items()}
    found = {label: pairs for label, pairs in found.items() if pairs.size}
    return {label: _comparison(pairs, level / len(found), level, higher, margin) for label, pairs in found.items()}


def differences(ours: Values, theirs: Values) -> Floats:
    """Ours minus theirs, seed by seed, where both are known."""
    a, b = _by_seed(ours), _by_seed(theirs)
    return np.array([a[seed] - b[seed] for seed in a if seed in b], np.float64)


def _by_seed(values: Values) -> dict[int, float]:
    pairs = values.items() if isinstance(values, Mapping) else enumerate(values)
    return {seed: float(value) for seed, value in pairs if value is not None}


def _comparison(pairs: Floats, share: float, level: float, higher: bool, margin: float) -> Comparison:
    """One comparison at ``share``, its part of the family's level."""
    from scipy.special import stdtrit

    n, family = pairs.size, level / share
    mean = float(pairs.mean()) if np.isfinite(pairs).all() else math.nan  # a run that diverged has no mean
    if n < 2 or math.isnan(mean):
        return Comparison(n, mean, margin)
    error = float(pairs.std(ddof=1)) / math.sqrt(n)
    outer, inner = (float(-stdtrit(n - 1, tail)) * error for tail in (share / 2, share))
    p = min(1.0, family * 2 * _tail(abs(mean), error, n))
    p_equal = min(1.0, family * _tail(margin - abs(mean), error, n))
    verdict = UNDECIDED
    if p_equal < level:
        verdict = EQUAL
    elif p < level:
        verdict = BETTER if (mean > 0) == higher else WORSE
    return Comparison(
        n,
        mean,
        margin,
        low=mean - outer,
        high=mean + outer,
        p=p,
        inner_low=mean - inner,
        inner_high=mean + inner,
        p_equal=p_equal,
        signed_rank=signed_rank(pairs, family, level),
        verdict=verdict,
        seeds_needed=seeds_needed(mean, error * math.sqrt(n), share, margin) if verdict == UNDECIDED else None,
    )


def _tail(distance: float, error: float, n: int) -> float:
    """Student's chance to lie further out than this distance; without any spread it is sure."""
    from scipy.special import stdtr

    if error == 0:
        return 0.0 if distance > 0 else 1.0
    return float(stdtr(n - 1, -distance / error))


def signed_rank(pairs: Array, family: float, level: float) -> float | None:
    """Wilcoxon's two-sided signed-rank test, corrected; None where n pairs cannot reach the level (2 / 2ⁿ each)."""
    if family * 2.0 ** (1 - pairs.size) >= level:
        return None
    from scipy.stats import wilcoxon  # scipy.stats takes long to import, and few seeds do not need it

    return 1.0 if not pairs.any() else min(1.0, family * float(wilcoxon(pairs).pvalue))


def seeds_needed(difference: float, sd: float, share: float, margin: float) -> int | None:
    """The fewest seeds that decide with a chance of 80 % if difference and spread are as given."""
    from scipy.special import stdtr, stdtrit

    n = np.arange(2, MOST_SEEDS + 1)
    error = np.maximum(sd / np.sqrt(n), np.finfo(float).tiny)
    size, two_sided, one_sided = abs(difference), -stdtrit(n - 1, share / 2), -stdtrit(n - 1, share)
    different = stdtr(n - 1, size / error - two_sided)
    upper, lower = (margin - size) / error - one_sided, (-margin - size) / error + one_sided
    equal = stdtr(n - 1, upper) - stdtr(n - 1, lower)
    enough = np.flatnonzero(np.maximum(different, equal) >= POWER)
    return int(n[enough[0]]) if enough.size else None

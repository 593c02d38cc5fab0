"""Comparisons in words: cells of tables, sentences and headings. Every page, terminal line and notebook uses these."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from sortition.core.cost import Currency
from sortition.results.comparisons import TO_TARGET, Missing, SettingComparison
from sortition.results.equal_cost import AUC
from sortition.results.metrics import LAST
from sortition.results.reference_lines import REFERENCES
from sortition.results.statistics import (
    BETTER,
    EQUAL,
    FEWEST_SEEDS,
    LEVEL,
    MOST_SEEDS,
    UNDECIDED,
    WORSE,
    Budget,
    Comparison,
    Reason,
    Unlike,
    Window,
)

Basis = Window | Budget | None  # what the figure at the end of a curve is taken of
UNITS: dict[Currency, str] = {"rounds": "rounds", "seconds": "seconds", "megabytes": "MB", "passes": "client passes"}
SHORT_UNITS: dict[Currency, str] = {"rounds": "rounds", "seconds": "s", "megabytes": "MB", "passes": "passes"}
NAMED_KEYS = 3  # keys of the configuration that a remark names
NAMED_METHODS = 3  # methods that a headline or a warning names
SAME_TRAFFIC = 0.05  # ratios that are no further from 1 are called the same
SKEWED = "the differences look skewed, so that false alarms may be more frequent than 5 %"
WHY = {
    Reason.ENDED_APART: "their runs ended at different rounds, so means over rounds cannot be compared",
    Reason.DIVERGED: "a run diverged",
    Reason.NOT_REACHED: "not every run reached the target, and those that did were the lucky ones",
    Reason.NO_SPREAD: "the seeds' differences are all the same, and the number of test examples is not known",
}
MISSING = {
    Missing.ONE_METHOD: "Only one method was run: there is nothing to compare. Add others to the study.",
    Missing.NO_PAIR: "No two methods have finished runs of one seed: there is nothing to compare yet.",
    Missing.FEW_SEEDS: (
        f"Fewer than {FEWEST_SEEDS} seeds show no spread that could be trusted, so nothing can be concluded yet: "
        "run at least 5 seeds."
    ),
}


# -- numbers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unit:
    """How differences of a metric are written.

    Attributes:
        scale: the factor between the metric and what is written.
        digits: how many follow the decimal point.
        name: ``points``; empty where the metric has no unit.
        words: what follows a number in a sentence: ``points``, or ``in loss``.
    """

    scale: float
    digits: int
    name: str
    words: str


def unit_of(metric: str) -> Unit:
    """Return points for accuracy; a loss has no unit."""
    if metric == "accuracy":
        return Unit(scale=100.0, digits=2, name="points", words="points")
    if metric.endswith(TO_TARGET):
        return Unit(scale=1.0, digits=1, name="", words=metric.replace(" to target", " to the target"))
    return Unit(scale=1.0, digits=3, name="", words=f"in {metric}")


def with_unit(text: str, metric: str) -> str:
    """Write a heading with the unit of differences, where the metric has one: ``− uniform, points``."""
    unit = unit_of(metric)
    if unit.name:
        return f"{text}, {unit.name}"
    return text


def signed(value: float, digits: int) -> str:
    """Write a number with its sign, and a true minus; what rounds to zero has a plus."""
    return f"{value:+z.{digits}f}".replace("-", "−")


def signed_difference(comparison: Comparison) -> str:
    """Write the difference in its unit, ``+1.25``; a dash where there is none."""
    if math.isnan(comparison.difference):
        return "–"
    unit = unit_of(comparison.metric)
    return signed(comparison.difference * unit.scale, unit.digits)


def interval_text(low: float, high: float, metric: str) -> str:
    """Write an interval, ``[+0.80, +1.70]``; empty where there is none."""
    if math.isnan(low):
        return ""
    unit = unit_of(metric)
    return f"[{signed(low * unit.scale, unit.digits)}, {signed(high * unit.scale, unit.digits)}]"


def difference_text(comparison: Comparison | None) -> str:
    """Write ``+1.25 [+0.80, +1.70]``, accuracy in points; empty where nothing is compared."""
    if comparison is None:
        return ""
    interval = interval_text(comparison.low, comparison.high, comparison.metric)
    return f"{signed_difference(comparison)} {interval}".rstrip()


def p_text(comparison: Comparison | None) -> str:
    """Write p with three digits, as papers print it; empty where there is no test."""
    if comparison is None or math.isnan(comparison.low):
        return ""
    if comparison.p < 0.001:
        return "< 0.001"
    return f"{comparison.p:.3f}"


def traffic_text(comparison: Comparison) -> str:
    """Write ``at the same traffic``, or at how many times as much; empty where unknown, or where it is the budget."""
    ratio = comparison.traffic_ratio
    counts_traffic = comparison.budget is not None and comparison.budget.currency == "megabytes"
    if ratio is None or counts_traffic:
        return ""
    if abs(ratio - 1) < SAME_TRAFFIC:
        return "at the same traffic"
    return f"at {ratio:.2g}× the traffic"


def speed_up_text(comparison: Comparison | None) -> str:
    """Write ``1.52×``, with how many seeds count where not all do: ``1.52× (4/5)``, ``– (0/5)``."""
    if comparison is None:
        return ""
    if comparison.speed_up is None:
        size = "–"
    else:
        size = f"{comparison.speed_up:.2f}×"
    if comparison.reached == comparison.seeds:
        return size
    return f"{size} ({comparison.reached}/{comparison.seeds})"


def ratio_text(ratio: float | None) -> str:
    """Write a ratio, ``1.50×``; empty where unknown."""
    if ratio is None:
        return ""
    return f"{ratio:.2f}×"


# -- which rounds, at which cost ---------------------------------------------------------------------------------------


def cost_text(amount: float, currency: Currency, *, short: bool = False) -> str:
    """Write four digits of a cost with what is counted: ``812 seconds``, or ``812 s`` where there is little room."""
    unit = SHORT_UNITS[currency] if short else UNITS[currency]
    rounded = float(f"{amount:.4g}")
    return f"{rounded:,.10g} {unit}"


def equal_cost_text(budget: Budget) -> str:
    """Say what is compared at a cost, and what runs have no figure there."""
    amount = cost_text(budget.amount, budget.currency)
    start = cost_text(budget.start, budget.currency)
    last_evaluation = f"Compared at equal cost: the last evaluation at or before {amount}, which every run has spent"
    if budget.covers_every_run:
        return f"{last_evaluation}; and the mean of the curve from {start} to {amount}."
    return (
        f"{last_evaluation}. A run was first evaluated at {start}: runs that were not evaluated by {amount} have no "
        f"figure there, and no run has a mean of its curve up to it. Give runs more rounds or a higher until, or "
        "evaluate more often."
    )


def figure_title(figure: str, basis: Basis) -> str:
    """Return the heading of a compared figure: ``last 10``, ``all rounds``; ``at 812 s``, ``up to 812 s``."""
    if isinstance(basis, Budget):
        preposition = "up to" if figure == AUC else "at"
        return f"{preposition} {cost_text(basis.amount, basis.currency, short=True)}"
    if figure == "mean":
        return "all rounds"
    rounds = LAST if basis is None else basis.rounds
    return f"last {rounds}"


def end_of_curve(basis: Basis) -> str:
    """Say where on its curve a method is judged: ``over the last 10 rounds``, ``after 812 seconds``."""
    if isinstance(basis, Budget):
        return f"after {cost_text(basis.amount, basis.currency)}"
    return f"over {averaged_rounds(basis)}"


def averaged_rounds(window: Window | None) -> str:
    """Say which rounds the figure ``last`` averages: ``the last 10 rounds``, ``all 6 rounds``, ``the only round``."""
    if window is None:
        return f"the last {LAST} rounds"
    if not window.is_whole_run:
        rounds = f"the last {window.rounds} rounds"
    elif window.rounds == 1:
        rounds = "the only round"
    else:
        rounds = f"all {window.rounds} rounds"
    if window.evaluations == window.rounds:
        return rounds
    return f"{rounds} ({window.evaluations} of them evaluated)"


def compared_period(comparison: Comparison) -> str:
    """Say which rounds' mean is compared, ``over the last 10 rounds``, or at which cost methods are compared."""
    if comparison.figure == "mean":
        return "over all rounds"
    budget = comparison.budget
    if budget is not None and comparison.figure == AUC:
        return f"in the mean of the first {cost_text(budget.amount, budget.currency)}"
    return end_of_curve(comparison.window if budget is None else budget)


# -- cells of tables ---------------------------------------------------------------------------------------------------


def verdict_text(comparison: Comparison | None) -> str:
    """Write the verdict with what must be known of it: ``undecided (46 seeds)``, ``better (unfair: other cohort)``."""
    if comparison is None:
        return ""
    details = []
    if comparison.seeds_needed:
        details.append(f"{comparison.seeds_needed} seeds")
    if comparison.skewed and comparison.decided:
        details.append("skewed")
    if comparison.unlike:
        details.append(f"unfair: other {_keys(comparison.unlike)}")
    if not details:
        return comparison.verdict
    return f"{comparison.verdict} ({'; '.join(details)})"


def role_text(label: str, baseline: str | None) -> str:
    """Say what a row is that is not compared."""
    if label in REFERENCES:
        return "reference"
    if label == baseline:
        return "baseline"
    return "–"


def cell_text(label: str, comparison: Comparison | None, baseline: str | None) -> str:
    """Write the verdict of a method in a table, or what its row is."""
    return verdict_text(comparison) or role_text(label, baseline)


def _keys(differences: Sequence[Unlike]) -> str:
    named = ", ".join(unlike.key for unlike in differences[:NAMED_KEYS])
    unnamed = len(differences) - NAMED_KEYS
    if unnamed > 0:
        return f"{named} and {unnamed} more"
    return named


# -- sentences ---------------------------------------------------------------------------------------------------------


def unlike_text(comparison: Comparison) -> str:
    """Say what the method has, and what its baseline has: ``cohort: 20, not 5; local.lr: 0.5, not 0.1``."""
    texts = [
        f"{unlike.key}: {unlike.method_value}, not {unlike.baseline_value}" for unlike in comparison.unlike[:NAMED_KEYS]
    ]
    unnamed = len(comparison.unlike) - NAMED_KEYS
    if unnamed > 0:
        texts.append(f"{unnamed} more")
    return "; ".join(texts)


def unfair_warning(comparisons: Iterable[Comparison]) -> str:
    """Write one sentence on all comparisons that are not fair; empty where all are."""
    unfair = [comparison for comparison in comparisons if comparison.unlike]
    if not unfair:
        return ""
    texts = [
        f"{comparison.method} is not compared fairly with {comparison.baseline} ({unlike_text(comparison)})"
        for comparison in unfair[:NAMED_METHODS]
    ]
    unnamed = len(unfair) - NAMED_METHODS
    if unnamed > 0:
        texts.append(f"{unnamed} more comparisons are not fair")
    return f"Warning: {'; '.join(texts)}."


def sort_by_gain(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Sort comparisons, the best first; those without a difference come last."""

    def sort_key(comparison: Comparison) -> float:
        if math.isnan(comparison.gain):
            return math.inf
        return -comparison.gain

    return sorted(comparisons, key=sort_key)


def size_text(comparison: Comparison) -> str:
    """Say how far apart two methods are, without a sign: ``2.40 points [2.08, 2.72] at the same traffic``."""
    unit = unit_of(comparison.metric)
    return f"{_size(comparison)} {unit.words} {_size_interval(comparison)} {traffic_text(comparison)}".rstrip()


def size_and_period(comparison: Comparison) -> str:
    """Write ``2.40 points of accuracy over the last 10 rounds [2.08, 2.72] at the same traffic``."""
    unit = unit_of(comparison.metric)
    if unit.name:
        words = f"{unit.name} of {comparison.metric}"
    else:
        words = unit.words
    interval = _size_interval(comparison)
    return f"{_size(comparison)} {words} {compared_period(comparison)} {interval} {traffic_text(comparison)}".rstrip()


def _size(comparison: Comparison) -> str:
    unit = unit_of(comparison.metric)
    return f"{abs(comparison.difference) * unit.scale:.{unit.digits}f}"


def _size_interval(comparison: Comparison) -> str:
    unit = unit_of(comparison.metric)
    nearer, farther = sorted([abs(comparison.low) * unit.scale, abs(comparison.high) * unit.scale])
    return f"[{nearer:.{unit.digits}f}, {farther:.{unit.digits}f}]"


def remark_clauses(comparison: Comparison) -> str:
    """Say what must be known beside a verdict: skewed differences, and unlike configurations."""
    texts = []
    if comparison.skewed and comparison.decided:
        texts.append(SKEWED)
    if comparison.unlike:
        texts.append(f"not compared fairly ({unlike_text(comparison)})")
    return "".join(f"; {text}" for text in texts)


def verdict_sentence(comparison: Comparison) -> str:
    """Say by how much a method differs from its baseline, at which traffic, or why that is undecided."""
    method = comparison.method
    baseline = comparison.baseline
    if comparison.verdict == BETTER:
        text = f"{method} beats {baseline} by {size_text(comparison)}"
    elif comparison.verdict == WORSE:
        text = f"{method} falls short of {baseline} by {size_text(comparison)}"
    elif comparison.verdict == EQUAL:
        text = f"{method} and {baseline} are practically equal: {_equality(comparison)}"
    else:
        text = f"{method} against {baseline} is undecided: {_indecision(comparison)}"
    return f"{text}{remark_clauses(comparison)}."


def _equality(comparison: Comparison) -> str:
    unit = unit_of(comparison.metric)
    interval = interval_text(comparison.inner_low, comparison.inner_high, comparison.metric)
    region = f"{comparison.region * unit.scale:.3g}"
    difference = f"{signed_difference(comparison)} {unit.words}"
    return f"{difference}, within ±{region}, 90 % interval {interval} {traffic_text(comparison)}".rstrip()


def _indecision(comparison: Comparison) -> str:
    reason = why_undecided(comparison)
    if math.isnan(comparison.difference):
        return reason
    unit = unit_of(comparison.metric)
    interval = interval_text(comparison.low, comparison.high, comparison.metric)
    observed = f"{signed_difference(comparison)} {unit.words} {interval}".rstrip()
    if not comparison.higher_is_better:
        observed += " (less is better)"
    return f"{observed}; {reason}"


def why_undecided(comparison: Comparison) -> str:
    """Say why there is no verdict, and what would help."""
    if comparison.reason in WHY:
        return WHY[comparison.reason]
    if comparison.reason is Reason.FEW_SEEDS:
        if comparison.seeds == 1:
            seeds = "one seed shows"
        else:
            seeds = f"{comparison.seeds} seeds show"
        return f"{seeds} no spread that could be trusted; run at least 5, and never fewer than {FEWEST_SEEDS}"
    return f"{seeds_that_decide(comparison)} seeds would decide ({comparison.seeds} were run)"


def seeds_that_decide(comparison: Comparison) -> str:
    """Say how many seeds would decide: ``about 46``, or more than the most that are computed."""
    if comparison.seeds_needed is None:
        return f"more than {MOST_SEEDS:,}"
    return f"about {comparison.seeds_needed:,}"


def diverged_text(label: str, diverged: int, runs: int) -> str:
    """Write the sentence on a method of which runs diverged."""
    return f"{label} diverged on {diverged} of {runs} seeds: its loss is infinite, or ends above that of guessing."


def count_verdicts(comparisons: Sequence[Comparison]) -> str:
    """Count all verdicts but better: ``1 worse, 2 undecided (12 seeds or more would decide)``."""
    verdicts = [comparison.verdict for comparison in comparisons]
    texts = []
    if worse := verdicts.count(WORSE):
        texts.append(f"{worse} worse")
    if equal := verdicts.count(EQUAL):
        texts.append(f"{equal} practically equal")
    if undecided := verdicts.count(UNDECIDED):
        text = f"{undecided} undecided"
        needed = [comparison.seeds_needed for comparison in comparisons if comparison.seeds_needed]
        if needed:
            text += f" ({min(needed)} seeds or more would decide)"
        ended_apart = sum(comparison.reason is Reason.ENDED_APART for comparison in comparisons)
        if ended_apart:
            text += f", {ended_apart} of them as runs ended at different rounds"
        texts.append(text)
    return ", ".join(texts)


# -- headings ----------------------------------------------------------------------------------------------------------


def heading(metric: str, baseline: str, basis: Basis = None) -> str:
    """Write what stands above the sentences: which figure they compare, and with what."""
    return f"Test {metric} {end_of_curve(basis)} against {baseline}{_in_unit(metric)}:"


def heading_of_settings(metrics: Set[str], baselines: Set[str], currencies: Set[Currency]) -> str:
    """Write what stands above the sentences of settings that differ in figure, baseline or cost.

    Args:
        metrics: what they compare.
        baselines: with what they compare.
        currencies: the costs at which they compare.
    """
    if len(metrics) > 1:
        return "At the end of training, each setting by its own metric and against its own baseline:"
    metric = next(iter(metrics))
    against = "its own baseline"
    if len(baselines) == 1:
        against = next(iter(baselines))
    end = "at its own end of training"
    if len(currencies) == 1:
        end = f"after its own number of {UNITS[next(iter(currencies))]}"
    return f"Test {metric} against {against}{_in_unit(metric)}, each setting {end}:"


def _in_unit(metric: str) -> str:
    """Say in which unit differences of a metric are; empty where it has none."""
    unit = unit_of(metric)
    if unit.name:
        return f", in {unit.name}"
    return ""


def several_settings_note(settings: int) -> str:
    """Say what is not controlled where verdicts of several settings stand side by side; empty for one setting."""
    if settings < 2:
        return ""
    expected = round(settings * LEVEL)
    if expected > 1:
        affected = f"about {expected} of them"
    else:
        affected = "any of them"
    return (
        f"Each of the {settings} settings is judged by itself, with a chance of at most 5 % of any false alarm in it: "
        f"{affected} may have one."
    )


def missing_text(setting: SettingComparison) -> str:
    """Say why no method of a setting can be judged, and what would help; empty where some can be."""
    if setting.missing is None:
        return ""
    if setting.missing is Missing.NO_BASELINE:
        baseline = setting.criteria.baseline or "Uniform"
        return f"{baseline} is not among the methods, so there is nothing to compare with: add it to the study."
    return MISSING[setting.missing]

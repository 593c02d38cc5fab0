"""Comparisons in words: cells of tables, and sentences. Every page, terminal line and notebook takes them from here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sortition.results.comparisons import SAME_TRAFFIC
from sortition.results.metrics import LAST
from sortition.results.reference_lines import REFERENCES
from sortition.results.statistics import (
    BETTER,
    EQUAL,
    FEWEST_SEEDS,
    LEVEL,
    UNDECIDED,
    WORSE,
    Comparison,
    Reason,
    Unlike,
)

PERIODS = {"last": "over the last 10 rounds", "mean": "over all rounds"}
NAMED = 3  # keys of the configuration that a remark names
SKEWED = "the differences look skewed, so that false alarms may be more frequent than 5 %"
WHY = {
    Reason.ENDED_APART: "their runs ended at different rounds, so means over rounds cannot be compared",
    Reason.DIVERGED: "a run diverged",
    Reason.NO_SPREAD: "the seeds' differences are all the same, and the number of test examples is not known",
}


class Unit(NamedTuple):
    """How differences of a metric are shown: by which factor, with how many digits, in what."""

    scale: float
    digits: int
    name: str


def unit_of(metric: str) -> Unit:
    """Points for accuracy; a loss has no unit."""
    return Unit(100.0, 2, "points") if metric == "accuracy" else Unit(1.0, 3, "")


def signed(value: float, digits: int) -> str:
    """A number with its sign, and a true minus."""
    return f"{value:+.{digits}f}".replace("-", "−")


def interval_text(low: float, high: float, metric: str) -> str:
    """``[+0.80, +1.70]``; empty where there is none."""
    if math.isnan(low):
        return ""
    unit = unit_of(metric)
    return f"[{signed(low * unit.scale, unit.digits)}, {signed(high * unit.scale, unit.digits)}]"


def difference_text(comparison: Comparison | None) -> str:
    """``+1.25 [+0.80, +1.70]``, accuracy in points; empty where nothing is compared."""
    if comparison is None:
        return ""
    if math.isnan(comparison.difference):
        return "–"
    unit = unit_of(comparison.metric)
    interval = interval_text(comparison.low, comparison.high, comparison.metric)
    return f"{signed(comparison.difference * unit.scale, unit.digits)} {interval}".rstrip()


def p_text(comparison: Comparison | None) -> str:
    """Three digits, as papers print it."""
    if comparison is None or math.isnan(comparison.low):
        return ""
    return "< 0.001" if comparison.p < 0.001 else f"{comparison.p:.3f}"


def verdict_text(comparison: Comparison | None) -> str:
    """The verdict, with what a reader must know of it: ``undecided (46 seeds)``, ``better (unfair: other cohort)``."""
    if comparison is None:
        return ""
    details = []
    if comparison.seeds_needed:
        details.append(f"{comparison.seeds_needed} seeds")
    if comparison.skewed and comparison.decided:
        details.append("skewed")
    if comparison.unlike:
        details.append(f"unfair: other {_keys(comparison.unlike)}")
    return f"{comparison.verdict} ({'; '.join(details)})" if details else comparison.verdict


def role_text(label: str, baseline: str | None) -> str:
    """What a row is that is not compared."""
    if label in REFERENCES:
        return "reference"
    return "baseline" if label == baseline else "–"


def cell_text(label: str, comparison: Comparison | None, baseline: str | None) -> str:
    """The verdict of a method in a table, or what its row is."""
    return verdict_text(comparison) or role_text(label, baseline)


def _keys(differences: Sequence[Unlike]) -> str:
    named = [unlike.key for unlike in differences[:NAMED]]
    more = len(differences) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def unlike_text(comparison: Comparison) -> str:
    """``cohort: 20, not 5; local.lr: 0.5, not 0.1``: what the method has, and what its baseline has."""
    texts = [f"{unlike.key}: {unlike.ours}, not {unlike.theirs}" for unlike in comparison.unlike[:NAMED]]
    more = len(comparison.unlike) - NAMED
    if more > 0:
        texts.append(f"{more} more")
    return "; ".join(texts)


def unfair_warning(comparisons: Iterable[Comparison]) -> str:
    """One sentence on all comparisons that are not fair; empty where all are."""
    unfair = [comparison for comparison in comparisons if comparison.unlike]
    if not unfair:
        return ""
    texts = [
        f"{comparison.method} is not compared fairly with {comparison.baseline} ({unlike_text(comparison)})"
        for comparison in unfair[:NAMED]
    ]
    if len(unfair) > NAMED:
        texts.append(f"{len(unfair) - NAMED} more comparisons are not fair")
    return f"Warning: {'; '.join(texts)}."


def in_order(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """The best first; those without a difference last."""

    def place(comparison: Comparison) -> float:
        return math.inf if math.isnan(comparison.gain) else -comparison.gain

    return sorted(comparisons, key=place)


def size_text(comparison: Comparison, *, period: bool = False) -> str:
    """``2.40 points [2.08, 2.72] at the same traffic``; with its period ``2.40 points of accuracy over …``."""
    unit = unit_of(comparison.metric)
    size = f"{abs(comparison.difference) * unit.scale:.{unit.digits}f}"
    words = [size, unit.name or f"in {comparison.metric}"]
    if period:
        words += [f"of {comparison.metric}"] if unit.name else []
        words.append(PERIODS[comparison.figure])
    ends = sorted((abs(comparison.low) * unit.scale, abs(comparison.high) * unit.scale))
    words.append(f"[{ends[0]:.{unit.digits}f}, {ends[1]:.{unit.digits}f}]")
    return " ".join([*words, traffic_text(comparison)]).rstrip()


def traffic_text(comparison: Comparison) -> str:
    """``at the same traffic``, or at how many times as much; empty where unknown."""
    ratio = comparison.traffic_ratio
    if ratio is None:
        return ""
    return "at the same traffic" if abs(ratio - 1) < SAME_TRAFFIC else f"at {ratio:.2g}× the traffic"


def remarks(comparison: Comparison) -> str:
    """What must be known beside a verdict: skewed differences, and unlike configurations."""
    texts = [SKEWED] if comparison.skewed and comparison.decided else []
    if comparison.unlike:
        texts.append(f"not compared fairly ({unlike_text(comparison)})")
    return "".join(f"; {text}" for text in texts)


def sentence(comparison: Comparison) -> str:
    """By how much a method differs from its baseline, at which traffic, or why that is undecided."""
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
    return f"{text}{remarks(comparison)}."


def _equality(comparison: Comparison) -> str:
    unit = unit_of(comparison.metric)
    words = unit.name or f"in {comparison.metric}"
    size = f"{signed(comparison.difference * unit.scale, unit.digits)} {words}"
    interval = interval_text(comparison.inner_low, comparison.inner_high, comparison.metric)
    region = f"{comparison.region * unit.scale:.3g}"
    return f"{size}, within ±{region}, 90 % interval {interval} {traffic_text(comparison)}".rstrip()


def _indecision(comparison: Comparison) -> str:
    if math.isnan(comparison.difference):
        return why_undecided(comparison)
    unit = unit_of(comparison.metric)
    size = signed(comparison.difference * unit.scale, unit.digits)
    interval = interval_text(comparison.low, comparison.high, comparison.metric)
    observed = f"{size} {unit.name or f'in {comparison.metric}'} {interval}".rstrip()
    return f"{observed}; {why_undecided(comparison)}"


def why_undecided(comparison: Comparison) -> str:
    """Why there is no verdict, and what would help."""
    if comparison.reason in WHY:
        return WHY[comparison.reason]
    if comparison.reason is Reason.FEW_SEEDS:
        many = "one seed shows" if comparison.seeds == 1 else f"{comparison.seeds} seeds show"
        return f"{many} no spread that could be trusted; run at least 5, and never fewer than {FEWEST_SEEDS}"
    needed = "more than 1,000" if comparison.seeds_needed is None else f"about {comparison.seeds_needed:,}"
    return f"{needed} seeds would decide ({comparison.seeds} were run)"


def heading(metric: str, baseline: str, evaluated: int = LAST) -> str:
    """What stands above the sentences: which figure they compare, of runs with so many evaluated rounds."""
    unit = unit_of(metric).name
    return f"Test {metric} over {averaged(evaluated)} against {baseline}{f', in {unit}' if unit else ''}:"


def averaged(evaluated: int) -> str:
    """Which rounds the compared figure is the mean of, in words: studies may have fewer evaluated rounds than ten."""
    if not 0 < evaluated < LAST:
        return f"the last {LAST} rounds"
    return "the only round" if evaluated == 1 else f"all {evaluated} rounds"


def several_settings_note(settings: int) -> str:
    """What is not controlled where verdicts of several settings stand beside each other; empty for one."""
    if settings < 2:
        return ""
    expected = round(settings * LEVEL)
    many = f"about {expected} of them" if expected > 1 else "any of them"
    return (
        f"Each of the {settings} settings is judged by itself, with a chance of at most 5 % of any false alarm in it: "
        f"{many} may have one."
    )


def counted(comparisons: Sequence[Comparison]) -> str:
    """``1 worse, 2 undecided (12 seeds or more would decide)``: all verdicts but better."""
    verdicts = [comparison.verdict for comparison in comparisons]
    texts = []
    if worse := verdicts.count(WORSE):
        texts.append(f"{worse} worse")
    if equal := verdicts.count(EQUAL):
        texts.append(f"{equal} practically equal")
    if undecided := verdicts.count(UNDECIDED):
        needed = [comparison.seeds_needed for comparison in comparisons if comparison.seeds_needed]
        text = f"{undecided} undecided"
        text += f" ({min(needed)} seeds or more would decide)" if needed else ""
        apart = sum(comparison.reason is Reason.ENDED_APART for comparison in comparisons)
        text += f", {apart} of them as runs ended at different rounds" if apart else ""
        texts.append(text)
    return ", ".join(texts)

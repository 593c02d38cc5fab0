"""The answer of the first screen: one sentence, six cards, and a sentence about each method."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sortition.report.gather import Gathered, Setting
from sortition.report.tables import speed_up, traffic_ratio
from sortition.results.metrics import near_chance
from sortition.results.reference_lines import REFERENCES
from sortition.results.statistics import BETTER, EQUAL, FEWEST_SEEDS, HIGHER, UNDECIDED, WORSE, Comparison, holm
from sortition.results.verdict_words import (
    counted,
    in_order,
    interval_text,
    sentence,
    several_settings_note,
    signed,
    size_text,
    unfair_warning,
    unit_of,
)

COLOURS = {BETTER: "good", WORSE: "bad", EQUAL: "even", UNDECIDED: "open"}
CLAIMS = {
    BETTER: "shown better than {}",
    WORSE: "shown worse than {}",
    EQUAL: "practically equal to {}",
    UNDECIDED: "undecided, not shown better than {}",
}
ONE_METHOD = "Only one method was run: there is nothing to compare. Add others to the study."
NONE_FINISHED = "No two methods have finished runs of one seed: there is nothing to compare yet."
FEW_SEEDS = (
    f"Fewer than {FEWEST_SEEDS} seeds show no spread that could be trusted, so nothing can be concluded yet: "
    "run at least 5 seeds."
)

SHOWN = 3  # methods that the sentence over several settings names


@dataclass(frozen=True)
class Card:
    """A figure of the first screen."""

    title: str
    value: str
    detail: str
    kind: str = ""


def answer(gathered: Gathered) -> str:
    """Is any method better than the baseline, and by how much? In one sentence, with a warning where it is unfair."""
    unfinished = sum(not run.done for run in gathered.runs)
    words = f"So far, with {unfinished} of {len(gathered.runs)} runs unfinished: " if unfinished else ""
    if len(gathered.settings) == 1:
        return words + of_setting(gathered.settings[0])
    return words + _of_settings(gathered)


def _of_settings(gathered: Gathered) -> str:
    """Which methods win in how many settings when all comparisons of the page are one family."""
    settings = len(gathered.settings)
    found = [comparison for setting in gathered.settings for comparison in setting.compared().values()]
    shown = shown_better(found)
    in_their_setting = sum(comparison.verdict == BETTER for comparison in found)
    together = f"all {len(found)} comparisons of the page taken together, Holm's correction"
    if shown:
        gains: dict[str, list[float]] = {}
        for comparison in shown:
            gains.setdefault(comparison.method, []).append(comparison.gain)
        won = sorted(gains, key=lambda label: (-len(gains[label]), -sum(gains[label])))
        parts = [f"{label} in {len(gains[label])} of {settings} settings" for label in won[:SHOWN]]
        more = f", and {len(won) - SHOWN} more" if len(won) > SHOWN else ""
        text = f"Better than the baseline: {', '.join(parts)}{more} ({together})."
    elif in_their_setting:
        text = (
            f"No method is shown better than the baseline in any of the {settings} settings with {together}; "
            f"{in_their_setting} of them are better in their own setting alone, which chance may explain."
        )
    else:
        text = f"No method is shown better than the baseline in any of the {settings} settings."
    return f"{text} {unfair_warning(found)}".rstrip()


def shown_better(comparisons: list[Comparison]) -> list[Comparison]:
    """Those that are better with all of these comparisons as one family: any is so falsely in at most 5 % of pages."""
    rejected = holm([comparison.p_single for comparison in comparisons])
    pairs = zip(comparisons, rejected, strict=True)
    return [comparison for comparison, holds in pairs if holds and comparison.verdict == BETTER]


def no_baseline(setting: Setting) -> str:
    """What is missing where no method of a setting is the baseline."""
    wanted = setting.criteria.baseline or "Uniform"
    return f"{wanted} is not among the methods, so there is nothing to compare with: add it to the study."


def of_setting(setting: Setting) -> str:
    """The same of one setting."""
    if setting.baseline is None:
        return no_baseline(setting)
    found = list(setting.compared().values())
    if not found:
        return ONE_METHOD if len(setting.methods) == 1 else NONE_FINISHED
    if max(comparison.seeds for comparison in found) < FEWEST_SEEDS:
        return FEW_SEEDS
    better = sum(comparison.verdict == BETTER for comparison in found)
    if better:
        text = _winner(setting, better, len(found))
    else:
        text = f"No method is shown better than {setting.baseline}: {counted(found)}."
    return f"{text} {unfair_warning(found)}".rstrip()


def _winner(setting: Setting, better: int, methods: int) -> str:
    """The sentence on the leading method, which is shown better than the baseline."""
    comparison = setting.compared()[leader(setting)]
    size = size_text(comparison, period=True)
    skewed = "; its differences look skewed" if comparison.skewed else ""
    if methods == 1:
        return f"{comparison.method} beats {setting.baseline} by {size}{skewed}."
    verb = "leads with" if better > 1 else "gains"
    return f"{better} of {methods} methods beat {setting.baseline}; {comparison.method} {verb} {size}{skewed}."


def verdict_lines(setting: Setting) -> list[tuple[str, str]]:
    """One line a comparison: kind for its colour, and the verdict with size and cost; then what else is odd."""
    against = in_order(setting.compared().values())
    others = [one for one in setting.comparison.every_pair() if one.baseline != setting.baseline]
    lines = [(COLOURS[comparison.verdict], sentence(comparison)) for comparison in [*against, *others]]
    if setting.baseline is None:
        lines.insert(0, ("even", no_baseline(setting)))
    for label, runs in setting.methods.items():
        if diverged := sum(run.diverged for run in runs):
            text = f"{label} diverged on {diverged} of {len(runs)} seeds: its loss is infinite, "
            lines.append(("bad", f"{text}or ends above that of guessing."))
    if not lines:
        lines = [("even", ONE_METHOD if len(setting.methods) == 1 else NONE_FINISHED)]
    accuracies = [setting.mean(label, "last-accuracy") for label in setting.methods]
    known = [accuracy for accuracy in accuracies if accuracy is not None]
    return [*lines, *[("bad", text) for text in near_chance(known, setting.labels())]]


def page_note(gathered: Gathered) -> str:
    """What is not controlled where verdicts of several settings stand beside each other."""
    return several_settings_note(len(gathered.settings))


def leader(setting: Setting) -> str:
    """The method of the cards: the best of those shown better, fairly if any is, else the best of all others."""
    better = [comparison for comparison in setting.compared().values() if comparison.verdict == BETTER]
    fair = [comparison for comparison in better if not comparison.unlike]
    if better:
        return max(fair or better, key=lambda comparison: comparison.gain).method
    apart = {*REFERENCES, setting.baseline}
    finished = [label for label, runs in setting.methods.items() if any(run.done for run in runs)]
    finished = finished or list(setting.methods)
    others = [label for label in finished if label not in apart] or finished
    sign = 1 if setting.higher else -1

    def height(label: str) -> float:
        value = setting.mean(label, f"last-{setting.metric}")
        return -math.inf if value is None or math.isnan(value) else sign * value

    return max(others, key=height)


def cards(setting: Setting) -> list[Card]:
    """Of the leading method: gain, speed-up, traffic, fairness and the worst-served tenth, against the baseline."""
    label = leader(setting)
    made = [
        _leading(setting, label),
        _gain(setting, setting.compared().get(label)),
        Card("Speed-up to target", speed_up(setting, label) or "–", _target(setting)),
        Card("Traffic", traffic_ratio(setting, label) or "–", _beside(setting, label, "megabytes", "{:.1f} MB")),
        _fairness(setting, label, "Evenness (Jain)", "jain", "{:.2f}"),
        _fairness(setting, label, "Worst-served tenth", "worst-tenth", "{:.1%}"),
    ]
    return made if setting.metric in HIGHER else []


def _leading(setting: Setting, label: str) -> Card:
    """The method itself: whether it leads the baseline, and what is shown of that."""
    comparison = setting.compared().get(label)
    if comparison is None:
        return Card("Leader", label, "not compared")
    if math.isnan(comparison.difference):
        title = "Method"
    elif comparison.gain < 0:
        title = f"Best after {setting.baseline}"
    else:
        title = "Leader"
    claim = CLAIMS[comparison.verdict].format(setting.baseline)
    if comparison.unlike:
        return Card(title, label, f"{claim}, not compared fairly", COLOURS[UNDECIDED])
    return Card(title, label, claim, COLOURS[comparison.verdict])


def _gain(setting: Setting, comparison: Comparison | None) -> Card:
    unit = unit_of(setting.metric)
    words = f"last-10 {setting.metric}{f', {unit.name}' if unit.name else ''}"
    if comparison is None:
        value = setting.mean(leader(setting), f"last-{setting.metric}")
        form = "{:.1%}" if setting.metric == "accuracy" else "{:.3f}"
        return Card("Last 10", "–" if value is None else _written(form, value), setting.metric)
    interval = interval_text(comparison.low, comparison.high, setting.metric)
    title = "Gain" if comparison.verdict == BETTER else f"Difference, {comparison.verdict}"
    difference = comparison.difference
    size = "–" if math.isnan(difference) else signed(difference * unit.scale, unit.digits)
    return Card(title, size, f"{interval} {words}".strip(), COLOURS[comparison.verdict])


def _target(setting: Setting) -> str:
    return "no target was set" if setting.target is None else f"rounds to {setting.metric} {setting.target:g}"


def _fairness(setting: Setting, label: str, title: str, key: str, form: str) -> Card:
    value = setting.mean(label, key)
    return Card(title, "–" if value is None else _written(form, value), _beside(setting, label, key, form))


def _beside(setting: Setting, label: str, key: str, form: str) -> str:
    if setting.baseline is None or label == setting.baseline:
        return ""
    value = setting.mean(setting.baseline, key)
    return "" if value is None else f"{setting.baseline}: {_written(form, value)}"


def _written(form: str, value: float) -> str:
    return form.format(value).replace("%", " %")  # as in tables and axes

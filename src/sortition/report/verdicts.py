"""The answer of the first screen: one sentence, six cards, and a sentence about each method."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from sortition.report.gather import Gathered, Setting
from sortition.report.tables import speed_up, traffic_ratio
from sortition.results.comparisons import conclusions, interval_text, signed, unit_of
from sortition.results.metrics import HIGHER, near_chance
from sortition.results.reference_lines import REFERENCES
from sortition.results.statistics import BETTER, EQUAL, UNDECIDED, WORSE, Comparison

COLOURS = {BETTER: "good", WORSE: "bad", EQUAL: "even", UNDECIDED: "open"}
CLAIMS = {
    BETTER: "shown better than {}",
    WORSE: "shown worse than {}",
    EQUAL: "practically equal to {}",
    UNDECIDED: "undecided, not shown better than {}",
}
NO_BASELINE = "Uniform is not among the methods, so there is nothing to compare with: add it to the study."
ONE_METHOD = "Only one method was run: there is nothing to compare. Add others to the study."
NONE_FINISHED = "No two methods have finished runs of one seed: there is nothing to compare yet."
ONE_SEED = "One seed shows no spread, so nothing can be concluded yet: run at least 5 seeds."

SHOWN = 3  # methods that the sentence over several settings names


@dataclass(frozen=True)
class Card:
    """A figure of the first screen."""

    title: str
    value: str
    detail: str
    kind: str = ""


def answer(gathered: Gathered) -> str:
    """Is any method better than the baseline, and by how much? In one sentence."""
    unfinished = sum(not run.done for run in gathered.runs)
    before = f"So far, with {unfinished} of {len(gathered.runs)} runs unfinished: " if unfinished else ""
    if len(gathered.settings) == 1:
        return before + of_setting(gathered.settings[0])
    return before + _of_settings(gathered)


def _of_settings(gathered: Gathered) -> str:
    """Which methods win in how many settings, those that gain most among equals first."""
    gains: dict[str, list[float]] = {}
    for setting in gathered.settings:
        for label, one in setting.compared().items():
            if one.verdict == BETTER:
                gains.setdefault(label, []).append(abs(one.difference))
    if not gains:
        return f"No method is shown better than the baseline in any of the {len(gathered.settings)} settings."
    won = sorted(gains, key=lambda label: (-len(gains[label]), -sum(gains[label])))
    parts = [f"{label} in {len(gains[label])} of {len(gathered.settings)} settings" for label in won[:SHOWN]]
    more = f", and {len(won) - SHOWN} more" if len(won) > SHOWN else ""
    return f"Better than the baseline: {', '.join(parts)}{more}."


def of_setting(setting: Setting) -> str:
    """The same of one setting."""
    if setting.baseline is None:
        return NO_BASELINE
    found = setting.compared()
    if not found:
        return ONE_METHOD if len(setting.methods) == 1 else NONE_FINISHED
    if max(one.seeds for one in found.values()) < 2:
        return ONE_SEED
    counts = Counter(one.verdict for one in found.values())
    if not counts[BETTER]:
        return f"No method is shown better than {setting.baseline}: {_counted(found, counts)}."
    label = leader(setting)
    text = next(t for one, t in _sentences(setting) if one is not None and t.startswith(f"{label} beats"))
    words = f"of {setting.metric}" if unit_of(setting.metric)[2] else ""
    before, bracket, interval = text.rpartition(" [")  # a label may hold one, too
    text = f"{before} {words} over the last 10 rounds{bracket}{interval}".replace("  ", " ")
    if len(found) == 1:
        return text
    many = f"{counts[BETTER]} of {len(found)} methods beat {setting.baseline}; "
    return many + text.replace(f"beats {setting.baseline} by", "leads with" if counts[BETTER] > 1 else "gains")


def _counted(found: dict[str, Comparison], counts: Counter[str]) -> str:
    needed = [one.seeds_needed for one in found.values() if one.seeds_needed]
    apart = sum(one.apart for one in found.values())
    words = {
        WORSE: f"{counts[WORSE]} worse",
        EQUAL: f"{counts[EQUAL]} practically equal",
        UNDECIDED: f"{counts[UNDECIDED]} undecided"
        + (f" ({min(needed)} seeds or more would decide)" if needed else "")
        + (f", {apart} of them as runs ended at different rounds" if apart else ""),
    }
    return ", ".join(text for verdict, text in words.items() if counts[verdict])


def _sentences(setting: Setting) -> list[tuple[Comparison, str]]:
    return conclusions(setting.figures, setting.baseline, setting.metric, setting.margin)


def verdict_lines(setting: Setting) -> list[tuple[str, str]]:
    """One line a method: kind for its colour, and the verdict with size and cost."""
    if setting.baseline is None:
        return [("even", NO_BASELINE)]
    found = [(COLOURS[one.verdict], sentence) for one, sentence in _sentences(setting)]
    found += [
        ("bad", f"{label} diverged on {n} of {len(runs)} seeds: its loss is infinite, or ends above that of guessing.")
        for label, runs in setting.methods.items()
        if (n := sum(run.diverged for run in runs))
    ]
    if not found:
        return [("even", ONE_METHOD if len(setting.methods) == 1 else NONE_FINISHED)]
    known = [value for label in setting.methods if (value := setting.mean(label, "last-accuracy")) is not None]
    remarks = [("bad", text) for text in near_chance(known, setting.labels())]
    return [*found, *remarks]


def leader(setting: Setting) -> str:
    """The method of the cards: the best of those shown better, else the best of all but the baseline."""
    sign = 1 if setting.higher else -1
    found = setting.compared()
    better = [label for label, one in found.items() if one.verdict == BETTER]
    if better:
        return max(better, key=lambda label: sign * found[label].difference)
    apart = {*REFERENCES, setting.baseline}
    finished = [label for label, runs in setting.methods.items() if any(run.done for run in runs)]
    finished = finished or list(setting.methods)
    others = [label for label in finished if label not in apart] or finished

    def height(label: str) -> float:
        value = setting.mean(label, f"last-{setting.metric}")
        return -math.inf if value is None or math.isnan(value) else sign * value

    return max(others, key=height)


def cards(setting: Setting) -> list[Card]:
    """Of the leading method: gain, speed-up, traffic, fairness and the worst-served tenth, against the baseline."""
    label, of = leader(setting), setting.metric
    made = [
        _leading(setting, label),
        _gain(setting, setting.compared().get(label)),
        Card("Speed-up to target", speed_up(setting, label) or "–", _target(setting)),
        Card("Traffic", traffic_ratio(setting, label) or "–", _beside(setting, label, "megabytes", "{:.1f} MB")),
        _fairness(setting, label, "Evenness (Jain)", "jain", "{:.2f}"),
        _fairness(setting, label, "Worst-served tenth", "worst-tenth", "{:.1%}"),
    ]
    return made if of in HIGHER else []


def _leading(setting: Setting, label: str) -> Card:
    """The method itself: whether it leads the baseline, and what is shown of that."""
    one = setting.compared().get(label)
    if one is None:
        return Card("Leader", label, "not compared")
    behind = one.difference < 0 if setting.higher else one.difference > 0
    title = "Method" if math.isnan(one.difference) else f"Best after {setting.baseline}" if behind else "Leader"
    return Card(title, label, CLAIMS[one.verdict].format(setting.baseline), COLOURS[one.verdict])


def _gain(setting: Setting, one: Comparison | None) -> Card:
    scale, digits, unit = unit_of(setting.metric)
    words = f"last-10 {setting.metric}{f', {unit}' if unit else ''}"
    if one is None:
        value = setting.mean(leader(setting), f"last-{setting.metric}")
        form = "{:.1%}" if setting.metric == "accuracy" else "{:.3f}"
        return Card("Last 10", "–" if value is None else _written(form, value), setting.metric)
    interval = interval_text(one.low, one.high, setting.metric).strip()
    title = "Gain" if one.verdict == BETTER else f"Difference, {one.verdict}"
    size = "–" if math.isnan(one.difference) else signed(one.difference * scale, digits)
    return Card(title, size, f"{interval} {words}".strip(), COLOURS[one.verdict])


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

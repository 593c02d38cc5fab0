"""The answer of the first screen: one sentence, six cards, and a sentence about each method."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sortition.report.gather import Gathered, Setting
from sortition.results.comparisons import Missing
from sortition.results.equal_cost import AT_COST
from sortition.results.headline import headline, headline_over_settings
from sortition.results.metrics import chance_remarks
from sortition.results.statistics import BETTER, EQUAL, UNDECIDED, WORSE, Comparison
from sortition.results.task_metric import task_metric
from sortition.results.verdict_words import (
    UNITS,
    Basis,
    diverged_text,
    end_of_curve,
    interval_text,
    missing_text,
    ratio_text,
    signed_difference,
    sort_by_gain,
    speed_up_text,
    unit_of,
    verdict_sentence,
)

VERDICT_CLASSES = {BETTER: "good", WORSE: "bad", EQUAL: "even", UNDECIDED: "open"}
CLAIMS = {
    BETTER: "shown better than {}",
    WORSE: "shown worse than {}",
    EQUAL: "practically equal to {}",
    UNDECIDED: "undecided, not shown better than {}",
}


@dataclass(frozen=True)
class Card:
    """A figure of the first screen.

    Attributes:
        title: what it is.
        value: the figure, as text.
        detail: what stands below it.
        kind: the class of its colour; empty for none.
    """

    title: str
    value: str
    detail: str
    kind: str = ""


def first_sentence(gathered: Gathered) -> str:
    """Say whether any method beats the baseline, by how much, and whether the comparison is fair."""
    comparisons = [setting.comparison for setting in gathered.settings]
    if len(comparisons) == 1:
        text = headline(comparisons[0])
    else:
        text = headline_over_settings(comparisons)
    unfinished = sum(not run.done for run in gathered.runs)
    if unfinished:
        return f"So far, with {unfinished} of {len(gathered.runs)} runs unfinished: {text}"
    return text


def verdict_lines(setting: Setting) -> list[tuple[str, str]]:
    """Return a colour and a sentence for each comparison, then for what else a reader must know."""
    comparison = setting.comparison
    lines: list[tuple[str, str]] = []
    if comparison.missing is Missing.NO_BASELINE:
        lines.append(("even", missing_text(comparison)))
    pairs = [*sort_by_gain(comparison.against_baseline().values()), *comparison.without_baseline()]
    lines += [(VERDICT_CLASSES[pair.verdict], verdict_sentence(pair)) for pair in pairs]
    for label, runs in setting.methods.items():
        diverged = sum(run.diverged for run in runs)
        if diverged:
            lines.append(("bad", diverged_text(label, diverged, len(runs))))
    if not lines:
        lines.append(("even", missing_text(comparison)))
    accuracies = [setting.mean(label, "last-accuracy") for label in setting.methods]
    known_accuracies = [accuracy for accuracy in accuracies if accuracy is not None]
    lines += [("bad", remark) for remark in chance_remarks(known_accuracies, setting.label_counts)]
    return lines


def leader_cards(setting: Setting) -> list[Card]:
    """Make the cards of the leading method: gain, speed-up, traffic, evenness and the worst-served tenth."""
    label = setting.comparison.leader
    comparison = setting.against_baseline().get(label)
    return [
        _leader_card(setting, label, comparison),
        _gain_card(setting, label, comparison),
        _speed_up_card(setting, comparison),
        _traffic_card(setting, label, comparison),
        _mean_card(setting, label, title="Evenness (Jain)", figure="jain", form="{:.2f}"),
        _mean_card(
            setting,
            label,
            title="Worst-served tenth",
            figure="worst-tenth",
            form="{:.1%}" if task_metric(setting.first.config) == "accuracy" else "{:.3f}",
        ),
    ]


def _leader_card(setting: Setting, label: str, comparison: Comparison | None) -> Card:
    """Make the card of the method itself: whether it leads the baseline, and what is shown of that."""
    if comparison is None:
        return Card(title="Leader", value=label, detail="not compared")
    if math.isnan(comparison.difference):
        title = "Method"
    elif comparison.gain < 0:
        title = f"Best after {setting.baseline}"
    else:
        title = "Leader"
    claim = CLAIMS[comparison.verdict].format(setting.baseline)
    if comparison.unlike:
        return Card(title=title, value=label, detail=f"{claim}, not compared fairly", kind=VERDICT_CLASSES[UNDECIDED])
    return Card(title=title, value=label, detail=claim, kind=VERDICT_CLASSES[comparison.verdict])


def _gain_card(setting: Setting, label: str, comparison: Comparison | None) -> Card:
    """Make the card of the difference from the baseline, or of the figure itself where nothing is compared."""
    if comparison is None:
        value = setting.mean(label, setting.end_figure)
        form = "{:.1%}" if setting.metric == "accuracy" else "{:.3f}"
        return Card(title=setting.end_title.capitalize(), value=_value_text(form, value), detail=setting.metric)
    if comparison.verdict == BETTER:
        title = "Gain"
    else:
        title = f"Difference, {comparison.verdict}"
    interval = interval_text(comparison.low, comparison.high, setting.metric)
    unit = unit_of(setting.metric)
    if unit.name:
        words = f"{unit.name} of {setting.metric}"
    else:
        words = setting.metric
    return Card(
        title=title,
        value=signed_difference(comparison),
        detail=f"{interval} {words}, {_basis_text(setting.comparison.basis)}".strip(),
        kind=VERDICT_CLASSES[comparison.verdict],
    )


def _basis_text(basis: Basis) -> str:
    """Say where on its curve a method is judged, on a card: ``the last 10 rounds``, ``after 812 seconds``."""
    return end_of_curve(basis).removeprefix("over ")


def _speed_up_card(setting: Setting, comparison: Comparison | None) -> Card:
    """Make the card of how much sooner the target was reached than by the baseline."""
    title = "Speed-up to target"
    if setting.target is None:
        return Card(title=title, value="–", detail="no target was set")
    detail = f"{UNITS[setting.comparison.currency]} to {setting.metric} {setting.target:g}"
    return Card(title=title, value=speed_up_text(comparison) or "–", detail=detail)


def _traffic_card(setting: Setting, label: str, comparison: Comparison | None) -> Card:
    """Make the card of the method's traffic as a multiple of the baseline's."""
    ratio = None if comparison is None else comparison.traffic_ratio
    if setting.comparison.budget is None:
        figure = "megabytes"
    else:
        figure = f"megabytes-{AT_COST}"
    detail = _baseline_text(setting, label, figure, "{:.1f} MB")
    return Card(title="Traffic", value=ratio_text(ratio) or "–", detail=detail)


def _mean_card(setting: Setting, label: str, *, title: str, figure: str, form: str) -> Card:
    """Make the card of a figure's mean over seeds, with the baseline's below it."""
    return Card(
        title=title,
        value=_value_text(form, setting.mean(label, figure)),
        detail=_baseline_text(setting, label, figure, form),
    )


def _baseline_text(setting: Setting, label: str, figure: str, form: str) -> str:
    """Write the baseline's mean, such as ``uniform: 12.3 MB``; nothing where there is none, or it is the method."""
    if setting.baseline is None or label == setting.baseline:
        return ""
    value = setting.mean(setting.baseline, figure)
    if value is None:
        return ""
    return f"{setting.baseline}: {_value_text(form, value)}"


def _value_text(form: str, value: float | None) -> str:
    """Write a value; a dash where it is unknown, and a blank before %, as in tables and axes."""
    if value is None:
        return "–"
    return form.format(value).replace("%", " %")

"""The headline of a comparison: the first sentence of a page, which says whether any method beats the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from sortition.results.comparisons import SettingComparison, shown_better
from sortition.results.statistics import BETTER, Comparison
from sortition.results.verdict_words import NAMED_METHODS, count_verdicts, missing_text, size_and_period, unfair_warning


def headline(setting: SettingComparison) -> str:
    """Say whether any method of a setting beats the baseline, and by how much; warn where the comparison is unfair."""
    if setting.missing is not None:
        return missing_text(setting)
    comparisons = list(setting.against_baseline().values())
    better = sum(comparison.verdict == BETTER for comparison in comparisons)
    if not better:
        text = f"No method is shown better than {setting.baseline}: {count_verdicts(comparisons)}."
    else:
        text = _winner(setting.against_baseline()[setting.leader], better=better, methods=len(comparisons))
    return f"{text} {unfair_warning(comparisons)}".rstrip()


def _winner(comparison: Comparison, *, better: int, methods: int) -> str:
    """Write the sentence on the leading method, which is one of those that are better than the baseline."""
    size = size_and_period(comparison)
    skewed = "; its differences look skewed" if comparison.skewed else ""
    if methods == 1:
        return f"{comparison.method} beats {comparison.baseline} by {size}{skewed}."
    verb = "leads with" if better > 1 else "gains"
    return f"{better} of {methods} methods beat {comparison.baseline}; {comparison.method} {verb} {size}{skewed}."


def headline_over_settings(settings: Sequence[SettingComparison]) -> str:
    """Say which methods win in how many settings when all comparisons of the settings are one family."""
    comparisons = [comparison for setting in settings for comparison in setting.against_baseline().values()]
    family = f"all {len(comparisons)} comparisons of the page taken together, Holm's correction"
    winners = shown_better(comparisons)
    better_alone = sum(comparison.verdict == BETTER for comparison in comparisons)
    if winners:
        text = f"Better than the baseline: {_winners(winners, len(settings))} ({family})."
    elif better_alone:
        text = (
            f"No method is shown better than the baseline in any of the {len(settings)} settings with {family}; "
            f"{better_alone} of them are better in their own setting alone, which chance may explain."
        )
    else:
        text = f"No method is shown better than the baseline in any of the {len(settings)} settings."
    return f"{text} {unfair_warning(comparisons)}".rstrip()


def _winners(comparisons: Sequence[Comparison], settings: int) -> str:
    """List winners by settings won, then by gain: ``d in 2 of 2 settings, c in 1 of 2 settings, and 1 more``."""
    gains: dict[str, list[float]] = {}
    for comparison in comparisons:
        gains.setdefault(comparison.method, []).append(comparison.gain)
    labels = sorted(gains, key=lambda label: (-len(gains[label]), -sum(gains[label])))
    text = ", ".join(f"{label} in {len(gains[label])} of {settings} settings" for label in labels[:NAMED_METHODS])
    unnamed = len(labels) - NAMED_METHODS
    if unnamed > 0:
        return f"{text}, and {unnamed} more"
    return text

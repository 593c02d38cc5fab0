"""Several settings beside each other: mean ranks, and performance profiles."""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt
import numpy as np

from sortition.core.arrays import Floats
from sortition.report.charts import Chart, chart_on, fill_width
from sortition.report.charts.learning import draw_lines, end_labels, method_colour
from sortition.report.gather import Gathered, Setting
from sortition.report.look import Look
from sortition.report.palette import Palette
from sortition.results.comparisons import figure_to_target
from sortition.results.ranking import Ranking, performance_profiles, rank_methods
from sortition.results.reference_lines import REFERENCES
from sortition.results.statistics import Reason

AT_MOST_ONE = ("accuracy", "f1", "r2")  # metrics whose best value is 1: the rest is the error
LARGEST_FACTOR = 4.0  # of the best's cost that a profile shows
POINTS = 61  # of a profile
HEIGHT = 260
PROFILE = (
    "Performance profile: how often a method needs at most so many times what the best one needs; higher is better."
)
PROFILE_OF_COSTS = (
    " Costs to the target are those of the 5-round mean; seeds on which no method reached it are left out."
)


def draw_charts(gathered: Gathered, look: Look) -> list[Chart]:
    """Draw ranks and profiles of several settings that are judged by one metric; nothing for a single setting."""
    metrics = {setting.metric for setting in gathered.settings}
    if len(gathered.settings) < 2 or len(metrics) > 1:
        return []
    left_out_note = _left_out_sentence(gathered)
    charts = []
    ranking = rank_over_settings(gathered)
    if ranking is not None:
        charts.append(_draw_ranks(ranking, look.palette, left_out_note))
    profile = _draw_profiles(gathered, look, left_out_note)
    if profile is not None:
        charts.append(profile)
    return charts


def rank_over_settings(gathered: Gathered) -> Ranking | None:
    """Rank methods by the mean at the end of training over seeds.

    None where fewer than two methods are in every setting, and where runs ended at different rounds.
    """
    comparisons = [comparison for setting in gathered.settings for comparison in setting.against_baseline().values()]
    if any(comparison.reason is Reason.ENDED_APART for comparison in comparisons):
        return None
    values = {setting.name: _end_means(setting) for setting in gathered.settings}
    ranking = rank_methods(values, higher=gathered.settings[0].higher_is_better)
    if len(ranking.ranks) > 1:
        return ranking
    return None


def _end_means(setting: Setting) -> dict[str, float]:
    """Return label → mean at the end of training, of the methods that have finished runs."""
    means = {}
    for label in setting.methods:
        mean = setting.mean(label, setting.end_figure)
        if mean is not None and label not in REFERENCES:
            means[label] = mean
    return means


def _left_out_sentence(gathered: Gathered) -> str:
    """Write a sentence on the methods that some setting lacks, which cannot be ranked over all; empty without one."""
    shared = _shared_methods(gathered)
    texts = []
    for label in gathered.methods:
        if label not in shared and label not in REFERENCES:
            lacking = [setting.name for setting in gathered.settings if label not in setting.methods]
            texts.append(f"{label} (not in {', '.join(lacking)})")
    if not texts:
        return ""
    return f" Left out, since a setting lacks them: {'; '.join(texts)}."


def _draw_ranks(ranking: Ranking, palette: Palette, left_out_note: str) -> Chart:
    """Draw a critical-difference diagram: bars join methods whose mean ranks are not shown to differ."""
    order = list(ranking.ranks)
    rows = [{"method": label, "rank": round(mean_rank, 3)} for label, mean_rank in ranking.ranks.items()]
    groups = [{"first": group[0], "last": group[-1], "at": slot} for slot, group in enumerate(ranking.groups())]
    method_scale = alt.Scale(domain=order)
    y = alt.Y("method:N", scale=method_scale, title=None, axis=alt.Axis(labelLimit=180, domain=False, ticks=False))
    x = alt.X("rank:Q", title="mean rank (1 is best)", scale=alt.Scale(domain=[0.8, len(order) + 1]))
    base = chart_on("ranks").encode(x=x, y=y)
    points = base.mark_point(filled=True, size=110, opacity=1).encode(color=method_colour(palette, None))
    text = base.mark_text(dx=10, align="left", fontSize=11).encode(text=alt.Text("rank:Q", format=".2f"))
    slots = alt.X("at:Q", axis=None, scale=alt.Scale(domain=[-0.5, 20], reverse=True))
    bars = (
        chart_on("groups")
        .mark_rule(strokeWidth=5, opacity=0.5)
        .encode(y=alt.Y("first:N", scale=method_scale), y2="last:N", x=slots)
    )
    if math.isnan(ranking.p):
        friedman = ""
    else:
        friedman = f" Friedman's test that all are alike: p = {ranking.p:.3f}."
    return Chart(
        name="ranks",
        title="Mean ranks",
        caption=(
            f"Critical difference (Nemenyi, 5 %) of {ranking.settings} settings: {ranking.critical:.2f}. Bars join "
            f"methods whose mean ranks differ by less.{friedman} Few settings show little.{left_out_note}"
        ),
        drawing=fill_width(alt.layer(points + text, bars).resolve_scale(x="independent"), 26 * len(order)),
        tables={"ranks": rows, "groups": groups},
        span=3,
    )


def _draw_profiles(gathered: Gathered, look: Look, left_out_note: str) -> Chart | None:
    """Draw performance profiles: a setting and seed is a problem, its cost the rounds to target, or else the error."""
    shared = _shared_methods(gathered)
    has_targets = all(setting.target is not None for setting in gathered.settings)
    by_rounds = has_targets and any(
        run.figures.get(figure_to_target(setting.comparison.currency))
        for setting in gathered.settings
        for run in setting.runs
    )
    first = gathered.settings[0]
    if not by_rounds and first.higher_is_better and first.metric not in AT_MOST_ONE:
        return None  # of such a metric nobody knows how far from the best possible it is
    costs = {
        label: np.concatenate([_seed_costs(setting, label, shared, by_rounds) for setting in gathered.settings])
        for label in shared
    }
    if len(shared) < 2 or not costs[shared[0]].size:
        return None
    factors = np.linspace(1, LARGEST_FACTOR, POINTS)
    rows = [
        {"method": label, "factor": round(float(factor), 3), "share": round(float(share), 4)}
        for label, shares in performance_profiles(costs, factors).items()
        for factor, share in zip(factors, shares, strict=True)
    ]
    cost_name = _cost_name(first, by_rounds)
    x = alt.X("factor:Q", title=f"{cost_name}, times the best's", scale=alt.Scale(nice=False))
    y = alt.Y("share:Q", title="share of settings and seeds", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    chart = draw_lines("profiles", look, x=x, y=y, tooltip=["method:N", "factor:Q", "share:Q"])
    return Chart(
        name="profiles",
        title="Performance profiles",
        caption=PROFILE + (PROFILE_OF_COSTS if by_rounds else "") + left_out_note,
        drawing=fill_width(chart, look.height(HEIGHT)),
        tables={"profiles": rows, "profiles_names": end_labels(rows, "share", look.height(HEIGHT), zero=True)},
        span=3,
    )


def _cost_name(setting: Setting, by_rounds: bool) -> str:
    """Return what a profile counts as the cost of a run."""
    if by_rounds:
        return f"{setting.comparison.currency} to target"
    if setting.higher_is_better:
        return "error"
    return setting.metric


def _shared_methods(gathered: Gathered) -> list[str]:
    """Return the methods that every setting has."""
    return [
        label
        for label in gathered.methods
        if label not in REFERENCES and all(label in setting.methods for setting in gathered.settings)
    ]


def _seed_costs(setting: Setting, label: str, shared: Sequence[str], by_rounds: bool) -> Floats:
    """Return what each seed cost that all methods have finished; infinite where the target was not reached."""
    finished = [{run.seed for run in setting.methods[method] if run.done} for method in shared]
    figures_by_seed = {run.seed: run.figures for run in setting.methods[label]}
    if by_rounds:
        key = figure_to_target(setting.comparison.currency)
    else:
        key = setting.end_figure
    values = [figures_by_seed[seed].get(key) for seed in sorted(set.intersection(*finished))]
    costs = np.array([math.inf if value is None else float(value) for value in values])
    if not by_rounds and setting.higher_is_better:
        costs = 1 - costs
    return np.where(np.isfinite(costs), costs, np.inf)

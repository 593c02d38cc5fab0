"""Several settings beside each other: mean ranks, and performance profiles."""

from __future__ import annotations

import math

import altair as alt
import numpy as np

from sortition.core.arrays import Floats
from sortition.report.charts import Chart, filling, on
from sortition.report.charts.learning import colour, end_labels, lines
from sortition.report.gather import Gathered, Setting
from sortition.report.palette import Palette
from sortition.results.ranking import Ranking, profiles, rank
from sortition.results.reference_lines import REFERENCES
from sortition.results.statistics import Reason

TO_TARGET = "rounds-to-target-smoothed"  # as the tables have it
FURTHEST, POINTS = 4.0, 61  # factors of the best that a profile shows
PROFILE = (
    "Performance profile: how often a method needs at most so many times what the best one needs; higher is better."
)
OF_ROUNDS = " Rounds to the target are those of the 5-round mean; seeds on which no method reached it are left out."


def figures(gathered: Gathered, palette: Palette) -> list[Chart]:
    """Nothing for a single setting."""
    if len(gathered.settings) < 2 or len({s.metric for s in gathered.settings}) > 1:
        return []
    found, missing = mean_ranks(gathered), _left_out(gathered)
    made = [] if found is None else [_ranks(found, palette, missing)]
    profile = _profiles(gathered, palette, missing)
    return made if profile is None else [*made, profile]


def mean_ranks(gathered: Gathered) -> Ranking | None:
    """By the mean of the last ten rounds over seeds; None where runs ended at different rounds."""
    compared = [comparison for setting in gathered.settings for comparison in setting.compared().values()]
    if any(comparison.reason is Reason.ENDED_APART for comparison in compared):
        return None
    values = {
        s.name: {
            label: v
            for label in s.methods
            if label not in REFERENCES and (v := s.mean(label, f"last-{s.metric}")) is not None
        }
        for s in gathered.settings
    }
    return rank(values, higher=gathered.settings[0].higher)


def _left_out(gathered: Gathered) -> str:
    """A sentence on the methods that some setting lacks, which cannot be ranked over all; empty without one."""
    shared = _shared(gathered)
    missing = {
        label: [setting.name for setting in gathered.settings if label not in setting.methods]
        for label in gathered.methods
        if label not in shared and label not in REFERENCES
    }
    if not missing:
        return ""
    listed = "; ".join(f"{label} (not in {', '.join(names)})" for label, names in missing.items())
    return f" Left out, since a setting lacks them: {listed}."


def _ranks(found: Ranking, palette: Palette, missing: str) -> Chart:
    """A critical-difference diagram: bars join methods whose mean ranks are not shown to differ."""
    order = list(found.ranks)
    rows = [{"method": label, "rank": round(value, 3)} for label, value in found.ranks.items()]
    groups = [{"first": group[0], "last": group[-1], "at": at} for at, group in enumerate(found.groups())]
    rows_of = alt.Scale(domain=order)
    y = alt.Y("method:N", scale=rows_of, title=None, axis=alt.Axis(labelLimit=180, domain=False, ticks=False))
    x = alt.X("rank:Q", title="mean rank (1 is best)", scale=alt.Scale(domain=[0.8, len(order) + 1]))
    base = on("ranks").encode(x=x, y=y)
    points = base.mark_point(filled=True, size=110, opacity=1).encode(color=colour(palette, None))
    text = base.mark_text(dx=10, align="left", fontSize=11).encode(text=alt.Text("rank:Q", format=".2f"))
    slots = alt.X("at:Q", axis=None, scale=alt.Scale(domain=[-0.5, 20], reverse=True))
    joined = (
        on("groups")
        .mark_rule(strokeWidth=5, opacity=0.5)
        .encode(y=alt.Y("first:N", scale=rows_of), y2="last:N", x=slots)
    )
    p = "" if math.isnan(found.p) else f" Friedman's test that all are alike: p = {found.p:.3f}."
    caption = (
        f"Critical difference (Nemenyi, 5 %) of {found.settings} settings: {found.critical:.2f}. Bars join methods "
        f"whose mean ranks differ by less.{p} Few settings show little.{missing}"
    )
    drawn = filling(alt.layer(points + text, joined).resolve_scale(x="independent"), 26 * len(order))
    return Chart("ranks", "Mean ranks", caption, drawn, {"ranks": rows, "groups": groups}, span=3)


def _profiles(gathered: Gathered, palette: Palette, missing: str) -> Chart | None:
    """Each setting and seed is a problem; its cost the rounds to target, or the error where there is no target."""
    shared = _shared(gathered)
    by_rounds = any(run.figures.get(TO_TARGET) for run in gathered.runs)
    by_rounds = by_rounds and all(s.target is not None for s in gathered.settings)
    costs = {
        label: np.concatenate([_costs(s, label, shared, by_rounds) for s in gathered.settings]) for label in shared
    }
    if len(shared) < 2 or not costs[shared[0]].size:
        return None
    factors = np.linspace(1, FURTHEST, POINTS)
    rows = [
        {"method": label, "factor": round(float(f), 3), "share": round(float(share), 4)}
        for label, shares in profiles(costs, factors).items()
        for f, share in zip(factors, shares, strict=True)
    ]
    what = "rounds to target" if by_rounds else ("error" if gathered.settings[0].metric == "accuracy" else "loss")
    x = alt.X("factor:Q", title=f"{what}, times the best's", scale=alt.Scale(nice=False))
    y = alt.Y("share:Q", title="share of settings and seeds", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    chart = lines("profiles", palette, x, y, ["method:N", "factor:Q", "share:Q"])
    caption = PROFILE + (OF_ROUNDS if by_rounds else "") + missing
    tables = {"profiles": rows, "profiles_names": end_labels(rows, "share", 260, zero=True)}
    return Chart("profiles", "Performance profiles", caption, filling(chart, 260), tables, span=3)


def _shared(gathered: Gathered) -> list[str]:
    """The methods that every setting has."""
    everywhere = [label for label in gathered.methods if all(label in s.methods for s in gathered.settings)]
    return [label for label in everywhere if label not in REFERENCES]


def _costs(setting: Setting, label: str, shared: list[str], by_rounds: bool) -> Floats:
    """What each seed cost that all methods have finished; infinite where the target was not reached."""
    finished = [{run.seed for run in setting.methods[one] if run.done} for one in shared]
    runs = {run.seed: run.figures for run in setting.methods[label]}
    values = [
        runs[seed].get(TO_TARGET if by_rounds else f"last-{setting.metric}")
        for seed in sorted(set.intersection(*finished))
    ]
    found = np.array([math.inf if value is None else float(value) for value in values])
    if not by_rounds and setting.metric == "accuracy":
        found = 1 - found
    return np.where(np.isfinite(found), found, np.inf)

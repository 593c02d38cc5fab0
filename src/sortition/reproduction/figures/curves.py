"""Accuracy over rounds of every method, a panel for each setting, smoothed and averaged over seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sortition.reproduction.context import Context, Marks
from sortition.results.metrics import smoothed
from sortition.results.run_folder import Run

if TYPE_CHECKING:
    import altair as alt

POINTS = 120  # of a curve in a picture


def make(
    context: Context, *, smooth: int = 10, of: str = "accuracy", methods: list[str] | None = None, name: str = ""
) -> str:
    """Draw one picture, ``<preset>-<name or of>.png``, with the settings side by side."""
    import altair as alt

    runs = context.finished_runs(methods=methods)
    labels = list(dict.fromkeys(run.method for run in runs))
    panels = []
    for setting in dict.fromkeys(run.setting for run in runs):
        points: Marks = []
        for label in labels:
            seeds = [run for run in runs if run.setting == setting and run.method == label]
            points += _mean_curve(seeds, of, smooth)
        panels.append(_draw_panel(setting, points, of, labels))
    if not panels:
        return ""
    return context.save(name or of, alt.concat(*panels, columns=2, spacing=20))


def _draw_panel(setting: str, points: Marks, of: str, labels: list[str]) -> alt.Chart:
    import altair as alt

    return (
        alt.Chart(alt.InlineData(values=points), title=setting)
        .mark_line(strokeWidth=1.4)
        .encode(
            x=alt.X("round:Q", title="round"),
            y=alt.Y("value:Q", title=of, scale=alt.Scale(zero=False)),
            color=alt.Color("method:N", sort=labels, scale=alt.Scale(domain=labels), title=None),
        )
        .properties(width=300, height=220)
    )


def _mean_curve(runs: list[Run], of: str, smooth: int) -> Marks:
    """Return the mean over seeds of the smoothed curves, as far as all of them go."""
    curves = [smoothed(*run.curve(of), smooth) for run in runs]
    length = min((values.size for _, values in curves), default=0)
    if not length:
        return []
    rounds = curves[0][0]
    mean = np.mean([values[:length] for _, values in curves], axis=0)
    positions = np.unique(np.linspace(0, length - 1, min(POINTS, length)).round().astype(int))
    return [
        {"round": int(rounds[position]), "value": round(float(mean[position]), 4), "method": runs[0].method}
        for position in positions
    ]

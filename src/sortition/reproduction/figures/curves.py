"""Accuracy over rounds of every method, a panel for each setting, smoothed and averaged over seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from sortition.reproduction.context import Context
from sortition.results.metrics import smoothed
from sortition.results.run_folder import Run

POINTS = 120  # of a curve in a picture


def make(
    context: Context, *, smooth: int = 10, of: str = "accuracy", methods: list[str] | None = None, name: str = ""
) -> str:
    """One picture, ``<preset>-<name or of>.png``: settings side by side."""
    import altair as alt

    runs = context.done(methods=methods)
    order = list(dict.fromkeys(run.method for run in runs))
    panels = []
    for setting in dict.fromkeys(run.setting for run in runs):
        chosen = [run for run in runs if run.setting == setting]
        values = [row for label in order for row in _mean_curve([r for r in chosen if r.method == label], of, smooth)]
        panels.append(_panel(alt, setting, values, of, order))
    return context.save(name or of, alt.concat(*panels, columns=2, spacing=20)) if panels else ""


def _panel(alt: Any, setting: str, values: list[dict[str, Any]], of: str, order: list[str]) -> Any:
    return (
        alt.Chart(alt.InlineData(values=values), title=setting)
        .mark_line(strokeWidth=1.4)
        .encode(
            x=alt.X("round:Q", title="round"),
            y=alt.Y("value:Q", title=of, scale=alt.Scale(zero=False)),
            color=alt.Color("method:N", sort=order, scale=alt.Scale(domain=order), title=None),
        )
        .properties(width=300, height=220)
    )


def _mean_curve(runs: list[Run], of: str, smooth: int) -> list[dict[str, Any]]:
    """Mean over seeds of the smoothed curves, as far as all of them go."""
    curves = [run.curve(of) for run in runs]
    rounds, means = zip(*(smoothed(*curve, smooth) for curve in curves), strict=True) if curves else ((), ())
    if not means or not min(mean.size for mean in means):
        return []
    length = min(mean.size for mean in means)
    value = np.mean([mean[:length] for mean in means], axis=0)
    keep = np.unique(np.linspace(0, length - 1, min(POINTS, length)).round().astype(int))
    return [{"round": int(rounds[0][i]), "value": round(float(value[i]), 4), "method": runs[0].method} for i in keep]

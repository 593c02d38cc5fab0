"""LongFed's Figs. 4, 5 and 9 to 12: which clients a cohort stands for, as circles in the plane of first updates."""

from __future__ import annotations

from typing import Any

import numpy as np

from sortition.core.arrays import Array, Floats
from sortition.reproduction.figures.longfed import first_gradients
from sortition.reproduction.reproduce import Context
from sortition.results.run_folder import Run, find


def make(
    context: Context, *, settings: list[str], methods: list[str], at: int = 30, rounds: int = 4, radius: float = 0.8
) -> str:
    """Clients in the plane of their first updates' two main directions, with circles around a round's cohort.

    All circles of a setting have one radius: the ``radius`` quantile of the distance to the last method's choice. The
    last panel shows the cohorts of several rounds of the last method.
    """
    import altair as alt

    if context.runs is None:
        return ""
    shown = []
    for setting in settings:
        runs = {run.method: run for run in reversed(find(context.runs)) if run.done and run.setting == setting}
        kept = [runs[label] for label in methods if label in runs]
        kept = [run for run in kept if run.seed == kept[0].seed and len(run.records) > at]
        kept = [run for run in kept if run.records[at]["cohort"]]  # nobody may have been there
        if not kept:
            continue
        context.say(f"circles: {setting}")
        places, labels = _plane(kept[0])
        reach = float(np.quantile(_nearest(places, kept[-1].records[at]["cohort"]), radius))
        reach = max(reach, 0.04 * float(np.ptp(places)))  # tight clusters still get a circle that can be seen
        panels = [_panel(alt, run.method, places, labels, [run.records[at]["cohort"]], reach) for run in kept]
        several = [kept[-1].records[t]["cohort"] for t in range(at, min(at + rounds, len(kept[-1].records)))]
        title = f"{kept[-1].method}, {len(several)} rounds"
        panels.append(_panel(alt, title, places, labels, several, reach))
        shown.append(alt.concat(*panels, columns=3, spacing=12, title=f"{setting}, round {at + 1}"))
    return context.save("circles", alt.vconcat(*shown)) if shown else ""


def _plane(run: Run) -> tuple[Floats, Array]:
    """(N, 2) principal coordinates of the first updates, and each client's most frequent label."""
    rows = first_gradients(run)
    left, values, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    return left[:, :2] * values[:2], run.federation()["label_counts"].argmax(axis=1)


def _nearest(places: Floats, ids: list[int]) -> Floats:
    return np.asarray(np.linalg.norm(places[:, None] - places[ids], axis=2).min(axis=1, initial=np.inf))


def _panel(alt: Any, title: str, places: Floats, labels: Array, cohorts: list[list[int]], reach: float) -> Any:
    covered = np.mean([np.mean(_nearest(places, ids) <= reach) for ids in cohorts])
    dots = [{"x": float(x), "y": float(y), "label": int(c)} for (x, y), c in zip(places, labels, strict=True)]
    turn = np.linspace(0, 2 * np.pi, 49)
    lines = [
        {"x": float(places[k, 0] + reach * np.cos(a)), "y": float(places[k, 1] + reach * np.sin(a)), "who": f"{t}-{k}",
         "order": i, "round": t + 1}
        for t, ids in enumerate(cohorts) for k in ids for i, a in enumerate(turn)
    ]  # fmt: skip
    frame = alt.Scale(
        domain=[float(places.min() - reach), float(places.max() + reach)], nice=False
    )  # one, so circles stay round
    axes = {"x": alt.X("x:Q", axis=None, scale=frame), "y": alt.Y("y:Q", axis=None, scale=frame)}
    points = alt.Chart(alt.InlineData(values=dots)).mark_circle(size=28, opacity=0.9)
    rings = alt.Chart(alt.InlineData(values=lines)).mark_line(strokeWidth=1)
    stroke = alt.Color("round:O", legend=None, scale=alt.Scale(scheme="dark2"))
    return alt.layer(
        points.encode(**axes, color=alt.Color("label:N", legend=None, scale=alt.Scale(scheme="tableau10"))),
        rings.encode(**axes, detail="who:N", order="order:Q", color=stroke),
        title=alt.TitleParams(title, subtitle=f"{100 * covered:.0f} % of clients inside"),
    ).resolve_scale(color="independent").properties(width=210, height=210)  # fmt: skip

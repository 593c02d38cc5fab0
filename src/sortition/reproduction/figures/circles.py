"""LongFed's Figs. 4, 5 and 9 to 12: which clients a cohort stands for, as circles in the plane of first updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sortition.core.arrays import Array, Floats
from sortition.reproduction.context import Context, Marks
from sortition.reproduction.figures.longfed import first_gradients
from sortition.results.run_folder import Run

if TYPE_CHECKING:
    import altair as alt

SMALLEST = 0.04  # radius of a circle, as a share of the plane's width: tight clusters get a circle that can be seen


@dataclass(frozen=True)
class Plane:
    """Clients in the plane of their first updates' two main directions.

    Attributes:
        positions: (N, 2).
        labels: (N,), each client's most frequent label.
        radius: of all circles in this plane.
    """

    positions: Floats
    labels: Array
    radius: float


def make(
    context: Context, *, settings: list[str], methods: list[str], at: int = 30, rounds: int = 4, radius: float = 0.8
) -> str:
    """Draw the clients in the plane of their first updates' two main directions, with circles around cohorts.

    All circles of a setting have one radius: the ``radius`` quantile of the distance to the last method's choice in
    round ``at``. The last panel shows the cohorts of several rounds of the last method.
    """
    import altair as alt

    rows = []
    for setting in settings:
        runs = _runs_to_compare(context, setting, methods, at)
        if runs:
            context.say(f"circles: {setting}")
            panels = _draw_panels(runs, first_round=at, n_rounds=rounds, quantile=radius)
            rows.append(alt.concat(*panels, columns=3, spacing=12, title=f"{setting}, round {at + 1}"))
    if not rows:
        return ""
    return context.save("circles", alt.vconcat(*rows))


def _runs_to_compare(context: Context, setting: str, methods: list[str], t: int) -> list[Run]:
    """Return one run per method, all of one seed, that chose somebody in round ``t``."""
    first_run = {run.method: run for run in reversed(context.finished_runs(setting=setting))}
    runs = [first_run[label] for label in methods if label in first_run]
    return [run for run in runs if run.seed == runs[0].seed and len(run.records) > t and run.records[t]["cohort"]]


def _draw_panels(runs: list[Run], *, first_round: int, n_rounds: int, quantile: float) -> list[alt.LayerChart]:
    """Draw a panel per run at the first round, and one of several rounds of the last run."""
    last_run = runs[-1]
    plane = _find_plane(runs[0], last_run.records[first_round]["cohort"], quantile)
    panels = [_draw_panel(run.method, plane, [run.records[first_round]["cohort"]]) for run in runs]
    cohorts = [record["cohort"] for record in last_run.records[first_round : first_round + n_rounds]]
    return [*panels, _draw_panel(f"{last_run.method}, {len(cohorts)} rounds", plane, cohorts)]


def _find_plane(run: Run, cohort: list[int], quantile: float) -> Plane:
    """Return the principal coordinates of the first updates; the radius is a quantile of the distance to a cohort."""
    updates = first_gradients(run)
    left_vectors, singular_values, _ = np.linalg.svd(updates - updates.mean(axis=0), full_matrices=False)
    positions = left_vectors[:, :2] * singular_values[:2]
    radius = float(np.quantile(_distance_to_cohort(positions, cohort), quantile))
    return Plane(
        positions=positions,
        labels=run.federation()["label_counts"].argmax(axis=1),
        radius=max(radius, SMALLEST * float(np.ptp(positions))),
    )


def _distance_to_cohort(positions: Floats, cohort: list[int]) -> Floats:
    """Return the distance of every client (N,) to the nearest member."""
    distances = np.linalg.norm(positions[:, None] - positions[cohort], axis=2)
    return np.asarray(distances.min(axis=1, initial=np.inf))


def _draw_panel(title: str, plane: Plane, cohorts: list[list[int]]) -> alt.LayerChart:
    """Draw clients as dots in the colour of their main label, with circles around those chosen."""
    import altair as alt

    inside = [np.mean(_distance_to_cohort(plane.positions, cohort) <= plane.radius) for cohort in cohorts]
    dots: Marks = [
        {"x": float(x), "y": float(y), "label": int(label)}
        for (x, y), label in zip(plane.positions, plane.labels, strict=True)
    ]
    circles: Marks = []
    for t, cohort in enumerate(cohorts):
        for client in cohort:
            circles += _circle_points(plane.positions[client], plane.radius, name=f"{t}-{client}", round_number=t + 1)
    domain = [float(plane.positions.min() - plane.radius), float(plane.positions.max() + plane.radius)]
    scale = alt.Scale(domain=domain, nice=False)  # one for both axes, so circles stay round
    axes = {"x": alt.X("x:Q", axis=None, scale=scale), "y": alt.Y("y:Q", axis=None, scale=scale)}
    label_colour = alt.Color("label:N", legend=None, scale=alt.Scale(scheme="tableau10"))
    round_colour = alt.Color("round:O", legend=None, scale=alt.Scale(scheme="dark2"))
    points = alt.Chart(alt.InlineData(values=dots)).mark_circle(size=28, opacity=0.9)
    rings = alt.Chart(alt.InlineData(values=circles)).mark_line(strokeWidth=1)
    panel = alt.layer(
        points.encode(**axes, color=label_colour),
        rings.encode(**axes, detail="who:N", order="order:Q", color=round_colour),
        title=alt.TitleParams(title, subtitle=f"{100 * np.mean(inside):.0f} % of clients inside"),
    )
    return panel.resolve_scale(color="independent").properties(width=210, height=210)


def _circle_points(centre: Array, radius: float, *, name: str, round_number: int) -> Marks:
    """Return the points of one circle, in order."""
    angles = np.linspace(0, 2 * np.pi, 49)
    points = centre + radius * np.column_stack([np.cos(angles), np.sin(angles)])
    return [
        {"x": x, "y": y, "who": name, "order": order, "round": round_number}
        for order, (x, y) in enumerate(points.tolist())
    ]

"""LongFed's Figs. 4, 5 and 9 to 12: which clients a cohort stands for, as circles in the plane of first updates."""

from __future__ import annotations

from typing import Any

import numpy as np

from sortition.core.arrays import Array, Floats
from sortition.reproduction.context import Context
from sortition.reproduction.figures.longfed import first_gradients
from sortition.results.run_folder import Run


def make(
    context: Context, *, settings: list[str], methods: list[str], at: int = 30, rounds: int = 4, radius: float = 0.8
) -> str:
    """Clients in the plane of their first updates' two main directions, with circles around a round's cohort.

    All circles of a setting have one radius: the ``radius`` quantile of the distance to the last method's choice. The
    last panel shows the cohorts of several rounds of the last method.
    """
    import altair as alt

    shown = []
    for setting in settings:
        if runs := _comparable(context, setting, methods, at):
            context.say(f"circles: {setting}")
            panels = _panels(alt, runs, at, rounds, radius)
            shown.append(alt.concat(*panels, columns=3, spacing=12, title=f"{setting}, round {at + 1}"))
    return context.save("circles", alt.vconcat(*shown)) if shown else ""


def _comparable(context: Context, setting: str, methods: list[str], at: int) -> list[Run]:
    """One run a method, of the first seed, that chose somebody in round ``at``."""
    first = {run.method: run for run in reversed(context.done(setting=setting))}
    kept = [first[label] for label in methods if label in first]
    return [run for run in kept if run.seed == kept[0].seed and len(run.records) > at and run.records[at]["cohort"]]


def _panels(alt: Any, runs: list[Run], at: int, rounds: int, radius: float) -> list[Any]:
    """A panel a run at round ``at``, and one of several rounds of the last run."""
    last = runs[-1]
    places, labels = _plane(runs[0])
    reach = float(np.quantile(_distance_to_cohort(places, last.records[at]["cohort"]), radius))
    reach = max(reach, 0.04 * float(np.ptp(places)))  # tight clusters still get a circle that can be seen
    several = [record["cohort"] for record in last.records[at : at + rounds]]
    panels = [_panel(alt, run.method, places, labels, [run.records[at]["cohort"]], reach) for run in runs]
    return [*panels, _panel(alt, f"{last.method}, {len(several)} rounds", places, labels, several, reach)]


def _plane(run: Run) -> tuple[Floats, Array]:
    """(N, 2) principal coordinates of the first updates, and each client's most frequent label."""
    rows = first_gradients(run)
    left, values, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    return left[:, :2] * values[:2], run.federation()["label_counts"].argmax(axis=1)


def _distance_to_cohort(places: Floats, ids: list[int]) -> Floats:
    """(N,) distance of every client to the nearest member."""
    return np.asarray(np.linalg.norm(places[:, None] - places[ids], axis=2).min(axis=1, initial=np.inf))


def _panel(alt: Any, title: str, places: Floats, labels: Array, cohorts: list[list[int]], reach: float) -> Any:
    """Clients as dots in the colour of their main label, circles around those chosen."""
    covered = np.mean([np.mean(_distance_to_cohort(places, ids) <= reach) for ids in cohorts])
    dots = [{"x": float(x), "y": float(y), "label": int(c)} for (x, y), c in zip(places, labels, strict=True)]
    circles = [row for t, ids in enumerate(cohorts) for k in ids for row in _circle(places[k], reach, f"{t}-{k}", t)]
    domain = [float(places.min() - reach), float(places.max() + reach)]
    frame = alt.Scale(domain=domain, nice=False)  # one for both axes, so circles stay round
    axes = {"x": alt.X("x:Q", axis=None, scale=frame), "y": alt.Y("y:Q", axis=None, scale=frame)}
    points = alt.Chart(alt.InlineData(values=dots)).mark_circle(size=28, opacity=0.9)
    rings = alt.Chart(alt.InlineData(values=circles)).mark_line(strokeWidth=1)
    stroke = alt.Color("round:O", legend=None, scale=alt.Scale(scheme="dark2"))
    return alt.layer(
        points.encode(**axes, color=alt.Color("label:N", legend=None, scale=alt.Scale(scheme="tableau10"))),
        rings.encode(**axes, detail="who:N", order="order:Q", color=stroke),
        title=alt.TitleParams(title, subtitle=f"{100 * covered:.0f} % of clients inside"),
    ).resolve_scale(color="independent").properties(width=210, height=210)  # fmt: skip


def _circle(centre: Array, radius: float, who: str, t: int) -> list[dict[str, Any]]:
    """The points of one circle, in order."""
    angles = np.linspace(0, 2 * np.pi, 49)
    around = centre + radius * np.column_stack([np.cos(angles), np.sin(angles)])
    return [{"x": x, "y": y, "who": who, "order": i, "round": t + 1} for i, (x, y) in enumerate(around.tolist())]

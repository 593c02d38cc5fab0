"""Who was selected: counts, counts against availability, a timeline, and the labels that the cohorts held."""

from __future__ import annotations

import altair as alt
import numpy as np
import polars as pl

from sortition.report.charts import Chart, filling, headed, on, whole_rounds
from sortition.report.charts.learning import colour, end_labels, lines, rounded
from sortition.report.digest import TIMELINE
from sortition.report.gather import Setting, evenly_spread
from sortition.report.palette import Palette

BINS = 100  # clients shown one by one up to here, in groups of equal size beyond


def figures(setting: Setting, palette: Palette) -> list[Chart]:
    """Those that the runs have data for."""
    made = []
    if setting.first.counts:
        made += [selection_counts(setting, palette), against_availability(setting, palette)]
        made.append(timeline(setting, palette))
    if setting.first.skew.size:
        made.append(cohort_labels(setting, palette))
    return made


def selection_counts(setting: Setting, palette: Palette) -> Chart:
    """FedGS Fig. 4, FedCor Fig. 6: how often each client trained, clients in order of their count."""
    rows = []
    for label, runs in setting.methods.items():
        finished = [run for run in runs if run.done] or runs
        ranked = np.mean([np.sort(run.counts["selected"])[::-1] for run in finished], axis=0)
        keep = evenly_spread(ranked.size, BINS)
        rows += [{"method": label, "rank": int(at) + 1, "count": round(float(ranked[at]), 2)} for at in keep]
    x = alt.X("rank:Q", title="clients, most often selected first", scale=alt.Scale(nice=False))
    chart = lines("counts", palette, x, alt.Y("count:Q", title="times selected"), ["method:N", "rank:Q", "count:Q"])
    return Chart(
        "counts",
        "How often each client trained",
        "Mean over seeds; a flat line is even.",
        filling(chart, 260),
        {"counts": rows, "counts_names": end_labels(rows, "count", 260, zero=True)},
        span=3,
    )


def against_availability(setting: Setting, palette: Palette) -> Chart:
    """Times selected against rounds available: raw counts would blame a method for clients that were away."""
    rows = []
    for label, runs in setting.methods.items():
        run = runs[0]
        order = np.argsort(run.counts["available"], kind="stable")
        rows += [
            {
                "method": label,
                "available": round(float(run.counts["available"][part].mean()), 2),
                "selected": round(float(run.counts["selected"][part].mean()), 2),
                "clients": part.size,
            }
            for part in np.array_split(order, min(order.size, 60))
        ]
    chosen = alt.selection_point(fields=["method"], bind="legend", name="legend_shares")
    chart = (
        on("shares")
        .mark_circle(size=34)
        .encode(
            x=alt.X("available:Q", title="rounds available", scale=alt.Scale(zero=False)),
            y=alt.Y("selected:Q", title="times selected"),
            color=colour(palette, symbol="circle"),
            opacity=alt.condition(chosen, alt.value(0.75), alt.value(0.06)),
            tooltip=["method:N", "available:Q", "selected:Q", "clients:Q"],
        )
        .add_params(chosen)
    )
    binned = " Clients are averaged in groups of neighbours." if setting.first.counts["selected"].size > 60 else ""
    return Chart(
        "availability-counts",
        "Selected against available",
        f"One seed ({setting.first.seed}). A level cloud means that being away costs a client nothing later.{binned}",
        filling(chart, 260),
        {"shares": rows},
        span=3,
    )


def timeline(setting: Setting, palette: Palette) -> Chart:
    """FedGS Fig. 8: round × client, unavailable clients greyed, selected ones in the method's colour."""
    n = setting.first.counts["selected"].size
    group = -(-n // BINS)
    rounds = min(TIMELINE, max(len(run.cohorts) for run in setting.runs))
    away = setting.federation.get("availability")
    grey = []
    if away is not None:
        for t in range(min(rounds, len(away))):
            here = np.add.reduceat(away[t], np.arange(0, n, group))
            grey += [{"round": t + 1, "client": int(c) * group} for c in np.flatnonzero(here == 0)]
    rows = []
    for label, runs in setting.methods.items():
        rows += [
            {"method": label, "round": t + 1, "client": c // group * group}
            for t, cohort in enumerate(runs[0].cohorts)
            for c in sorted({k // group * group for k in cohort})
        ]
    options = list(setting.methods)
    start = next((label for label in options if label != setting.baseline), options[0])
    picked = alt.param(name="timeline_method", value=start, bind=alt.binding_select(options=options, name="method "))
    height = max(160, min(420, -(-n // group) * 4))
    x = alt.X(
        "round:O", title="round", axis=alt.Axis(values=list(range(10, rounds + 1, 10)), labelAngle=0, ticks=False)
    )
    y = alt.Y("client:O", title="client" if group == 1 else f"clients, {group} a row", axis=_sparse(n, group))
    size = {"width": alt.RelativeBandSize(0.9), "height": alt.RelativeBandSize(0.9)}
    background = on("away").mark_rect(color="#9993", **size).encode(x=x, y=y)
    marks = (
        on("timeline")
        .transform_filter("datum.method == timeline_method")
        .mark_rect(**size)
        .encode(x=x, y=y, color=colour(palette, None), tooltip=["method:N", "round:O", "client:O"])
    )
    return Chart(
        "timeline",
        "Round by round",
        f"Seed {setting.first.seed}, first {rounds} rounds: coloured where a client trained, grey where it was away.",
        headed(filling((background + marks).add_params(picked), height), alt.ExprRef("timeline_method")),
        {"away": grey, "timeline": rows},
    )


def _sparse(n: int, group: int) -> alt.Axis:
    step = max(group, -(-n // 8))
    return alt.Axis(values=[c // group * group for c in range(0, n, step)], ticks=False)


def cohort_labels(setting: Setting, palette: Palette) -> Chart:
    """Distance of each cohort's label mixture from the population's."""
    frames = []
    for run in setting.runs:
        keep = np.flatnonzero(np.isfinite(run.skew))
        frames.append(pl.DataFrame({"round": keep + 1, "skew": run.skew[keep]}).with_columns(method=pl.lit(run.method)))
    frame = pl.concat(frames)
    width = max(1, max(run.played for run in setting.runs) // 60)
    frame = (
        frame.with_columns(((pl.col("round") - 1) // width * width + 1).alias("round"))
        .group_by(["method", "round"], maintain_order=True)
        .agg(pl.col("skew").mean())
        .sort("method", "round")
    )
    rows = rounded(frame)
    y = alt.Y("skew:Q", title="distance from the population's labels")
    chart = lines("mixtures", palette, whole_rounds(), y, ["method:N", "round:Q", "skew:Q"])
    return Chart(
        "mixtures",
        "Labels of the cohort against the population's",
        f"Total variation between the labels behind a round's update and everybody's (0: the same), mean over seeds"
        f"{f' and {width} rounds' if width > 1 else ''}. It needs no training, and shows much of how a method works.",
        filling(chart, 260),
        {"mixtures": rows, "mixtures_names": end_labels(rows, "skew", 260, zero=True)},
    )

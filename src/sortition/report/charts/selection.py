"""Who was chosen: counts, counts against availability, a timeline, and the labels that the cohorts held."""

from __future__ import annotations

import altair as alt
import numpy as np
import polars as pl

from sortition.report.charts import Chart, Row, chart_on, fill_width, rounds_axis, with_title_lines
from sortition.report.charts.learning import draw_lines, end_labels, method_colour, rounded_rows
from sortition.report.digest import TIMELINE
from sortition.report.gather import Setting, evenly_spread_positions
from sortition.report.look import Look
from sortition.report.palette import Palette

HEIGHT = 260
ROWS = 100  # clients shown one by one up to here, in groups of equal size beyond
DOTS = 60  # of a method in the cloud; of more clients, neighbours share one
SPANS = 60  # of rounds in the curve of labels; of more rounds, neighbours share one


def draw_charts(setting: Setting, look: Look) -> list[Chart | str]:
    """Draw the charts that the runs have data for.

    A sentence replaces the chart of counts against availability where all clients were available equally often.
    """
    charts: list[Chart | str] = []
    if setting.first.counts:
        charts.append(draw_selection_counts(setting, look))
        charts.append(draw_counts_against_availability(setting, look))
        charts.append(draw_timeline(setting, look.palette))
    if setting.first.skew.size:
        charts.append(draw_cohort_labels(setting, look))
    return charts


def draw_selection_counts(setting: Setting, look: Look) -> Chart:
    """Draw how often each client was chosen, the most often chosen first (FedGS's Fig. 4, FedCor's Fig. 6)."""
    rows = []
    for label, runs in setting.methods.items():
        counted_runs = [run for run in runs if run.done] or runs
        ranked_counts = [np.sort(run.counts["selected"])[::-1] for run in counted_runs]
        mean_counts = np.mean(ranked_counts, axis=0)
        rows += [
            {"method": label, "rank": int(position) + 1, "count": round(float(mean_counts[position]), 2)}
            for position in evenly_spread_positions(mean_counts.size, ROWS)
        ]
    chart = draw_lines(
        "counts",
        look,
        x=alt.X("rank:Q", title="clients, most often chosen first", scale=alt.Scale(nice=False)),
        y=alt.Y("count:Q", title="times chosen"),
        tooltip=["method:N", "rank:Q", "count:Q"],
    )
    return Chart(
        name="counts",
        title="How often each client was chosen",
        caption="Mean over seeds; a flat line is even.",
        drawing=fill_width(chart, look.height(HEIGHT)),
        tables={"counts": rows, "counts_names": end_labels(rows, "count", look.height(HEIGHT), zero=True)},
        span=3,
    )


def draw_counts_against_availability(setting: Setting, look: Look) -> Chart | str:
    """Draw times chosen against rounds available: counts alone would blame a method for absent clients.

    Where all clients were available equally often, all points lie above each other, and a sentence says so.
    """
    rounds_available = np.unique([runs[0].counts["available"] for runs in setting.methods.values()])
    if rounds_available.size == 1:
        return (
            f"Every client was available in {rounds_available[0]:,} rounds, so counts alone say how even a method is."
        )
    rows = []
    for label, runs in setting.methods.items():
        available = runs[0].counts["available"]
        selected = runs[0].counts["selected"]
        order = np.argsort(available, kind="stable")
        rows += [
            {
                "method": label,
                "available": round(float(available[clients].mean()), 2),
                "selected": round(float(selected[clients].mean()), 2),
                "clients": clients.size,
            }
            for clients in np.array_split(order, min(order.size, DOTS))
        ]
    chosen = alt.selection_point(fields=["method"], bind="legend", name="legend_shares")
    chart = (
        chart_on("shares")
        .mark_circle(size=34)
        .encode(
            x=alt.X("available:Q", title="rounds available", scale=alt.Scale(zero=False)),
            y=alt.Y("selected:Q", title="times chosen"),
            color=method_colour(look.palette, look.method_legend("circle")),
            opacity=alt.condition(chosen, alt.value(0.75), alt.value(0.06)),
            tooltip=["method:N", "available:Q", "selected:Q", "clients:Q"],
        )
        .add_params(chosen)
    )
    caption = f"One seed ({setting.first.seed}). Where the cloud is level, clients that were often away were "
    caption += "chosen as often as the others."
    if setting.first.counts["selected"].size > DOTS:
        caption += " Clients are averaged in groups of neighbours."
    return Chart(
        name="availability-counts",
        title="Chosen against available",
        caption=caption,
        drawing=fill_width(chart, look.height(HEIGHT)),
        tables={"shares": rows},
        span=3,
    )


def draw_timeline(setting: Setting, palette: Palette) -> Chart:
    """Draw rounds × clients as FedGS's Fig. 8: absent clients in grey, chosen ones in the method's colour."""
    n_clients = setting.first.counts["selected"].size
    clients_per_row = -(-n_clients // ROWS)  # clients that share a row
    n_rounds = min(TIMELINE, max(len(run.cohorts) for run in setting.runs))
    labels = list(setting.methods)
    first_shown = next((label for label in labels if label != setting.baseline), labels[0])
    method = alt.param(
        name="timeline_method",
        value=first_shown,
        bind=alt.binding_select(options=labels, name="method "),
    )
    x = alt.X(
        "round:O",
        title="round",
        axis=alt.Axis(values=list(range(10, n_rounds + 1, 10)), labelAngle=0, ticks=False),
    )
    y = alt.Y(
        "client:O",
        title="client" if clients_per_row == 1 else f"clients, {clients_per_row} a row",
        axis=_sparse_axis(n_clients, clients_per_row),
    )
    size = {"width": alt.RelativeBandSize(0.9), "height": alt.RelativeBandSize(0.9)}
    background = chart_on("away").mark_rect(color="#9993", **size).encode(x=x, y=y)
    marks = (
        chart_on("timeline")
        .transform_filter("datum.method == timeline_method")
        .mark_rect(**size)
        .encode(x=x, y=y, color=method_colour(palette, None), tooltip=["method:N", "round:O", "client:O"])
    )
    n_rows = -(-n_clients // clients_per_row)
    height = max(160, min(420, 4 * n_rows))
    drawing = fill_width((background + marks).add_params(method), height)
    return Chart(
        name="timeline",
        title="Round by round",
        caption=(
            f"Seed {setting.first.seed}, first {n_rounds} rounds: coloured where a client was chosen, grey where it "
            "was away."
        ),
        reading=f"The method is {first_shown}.",
        drawing=with_title_lines(drawing, alt.ExprRef("timeline_method")),
        tables={
            "away": _absent_rows(setting, n_rounds, clients_per_row),
            "timeline": _chosen_rows(setting, clients_per_row),
        },
    )


def _absent_rows(setting: Setting, n_rounds: int, clients_per_row: int) -> list[Row]:
    """Return the rounds and rows of clients in which nobody was available."""
    mask = setting.availability
    if mask is None:
        return []
    rows = []
    for round_index, available in enumerate(mask[:n_rounds]):
        available_by_row = np.add.reduceat(available, np.arange(0, available.size, clients_per_row))
        empty_rows = np.flatnonzero(available_by_row == 0)
        rows += [{"round": round_index + 1, "client": int(row) * clients_per_row} for row in empty_rows]
    return rows


def _chosen_rows(setting: Setting, clients_per_row: int) -> list[Row]:
    """Return the rounds and rows of clients in which somebody was chosen, of the first seed of each method."""
    rows = []
    for label, runs in setting.methods.items():
        for round_number, cohort in enumerate(runs[0].cohorts, 1):
            first_clients = sorted({client // clients_per_row * clients_per_row for client in cohort})
            rows += [{"method": label, "round": round_number, "client": client} for client in first_clients]
    return rows


def _sparse_axis(n_clients: int, clients_per_row: int) -> alt.Axis:
    """Return an axis of clients with about eight labels, each the first client of its row."""
    step = max(clients_per_row, -(-n_clients // 8))
    first_clients = [client // clients_per_row * clients_per_row for client in range(0, n_clients, step)]
    return alt.Axis(values=first_clients, ticks=False)


def draw_cohort_labels(setting: Setting, look: Look) -> Chart:
    """Draw the distance of each cohort's label mixture from the population's."""
    width = max(1, max(run.played for run in setting.runs) // SPANS)
    frames = []
    for run in setting.runs:
        rounds = np.flatnonzero(np.isfinite(run.skew))
        first_rounds = rounds // width * width + 1
        frame = pl.DataFrame({"round": first_rounds, "skew": run.skew[rounds]})
        frames.append(frame.with_columns(method=pl.lit(run.method)))
    means = (
        pl.concat(frames)
        .group_by(["method", "round"], maintain_order=True)
        .agg(pl.col("skew").mean())
        .sort("method", "round")
    )
    rows = rounded_rows(means)
    chart = draw_lines(
        "mixtures",
        look,
        x=rounds_axis(),
        y=alt.Y("skew:Q", title="distance from the population's labels"),
        tooltip=["method:N", "round:Q", "skew:Q"],
    )
    averaged = f" and {width} rounds" if width > 1 else ""
    return Chart(
        name="mixtures",
        title="Labels of the cohort against the population's",
        caption=(
            "Total variation between the labels behind a round's update and everybody's (0: the same), mean over seeds"
            f"{averaged}. It needs no training, and shows much of how a method works."
        ),
        drawing=fill_width(chart, look.height(HEIGHT)),
        tables={"mixtures": rows, "mixtures_names": end_labels(rows, "skew", look.height(HEIGHT), zero=True)},
    )

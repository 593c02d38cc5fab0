"""The federation itself: who holds what, how much, and who is there when."""

from __future__ import annotations

import altair as alt
import numpy as np

from sortition.core.arrays import Array
from sortition.report.charts import Chart, chart_on, fill_width
from sortition.report.gather import Setting, evenly_spread_positions
from sortition.report.palette import LABELS

HEIGHT = 240
SHOWN_CLIENTS = 100
CELLS = 80  # along each side of the chart of availability; neighbours share one
BINS = 30  # of the histogram of sizes


def draw_charts(setting: Setting) -> list[Chart | str]:
    """Draw the charts that the runs have data for; return a sentence instead of a chart that would show nothing."""
    charts: list[Chart | str] = []
    label_counts = setting.label_counts
    if label_counts is not None:
        charts.append(draw_label_holdings(label_counts, f", seed {setting.first.seed}"))
    if "sizes" in setting.federation:
        charts.append(draw_size_histogram(setting.federation["sizes"]))
    if setting.availability is not None:
        charts.append(draw_presence(setting.availability))
    return charts


def draw_label_holdings(counts: Array, of_seed: str = "") -> Chart:
    """Draw the labels that each client holds, one bar a client, as FedGS's Fig. 7."""
    shown_clients = evenly_spread_positions(len(counts), SHOWN_CLIENTS)
    rows = [
        {"client": int(client), "label": str(label), "examples": int(counts[client, label])}
        for client in shown_clients
        for label in np.flatnonzero(counts[client])
    ]
    labels = [str(label) for label in range(counts.shape[1])]
    colours = [LABELS[position % len(LABELS)] for position in range(len(labels))]
    ticks = shown_clients[:: max(1, len(shown_clients) // 10)].tolist()
    chart = (
        chart_on("partition")
        .mark_bar()
        .encode(
            x=alt.X("client:O", axis=alt.Axis(labelAngle=0, values=ticks, ticks=False)),
            y=alt.Y("examples:Q", title="examples"),
            color=alt.Color(
                "label:N",
                scale=alt.Scale(domain=labels, range=colours),
                legend=alt.Legend(columns=1 + len(labels) // 15),
            ),
            tooltip=["client:O", "label:N", "examples:Q"],
        )
    )
    caption = f"Labels of each client's examples{of_seed}."
    if len(counts) > SHOWN_CLIENTS:
        caption += f" {SHOWN_CLIENTS} of {len(counts):,} clients."
    return Chart(
        name="partition",
        title="Who holds what",
        caption=caption,
        drawing=fill_width(chart, HEIGHT),
        tables={"partition": rows},
    )


def draw_size_histogram(client_sizes: Array) -> Chart | str:
    """Draw a histogram of examples per client; return a sentence instead where sizes differ by at most one.

    Args:
        client_sizes: (N,) the number of examples that each client holds.
    """
    smallest = client_sizes.min()
    largest = client_sizes.max()
    distinct = np.unique(client_sizes)
    if largest - smallest <= 1:
        numbers = " or ".join(f"{size:,.0f}" for size in distinct)
        noun = "examples"
        if largest == 1:
            noun = "example"
        return f"Each of the {client_sizes.size:,} clients holds {numbers} {noun}."
    counts, edges = np.histogram(client_sizes, bins=min(BINS, distinct.size))
    rows = [
        {"from": float(lower), "to": float(upper), "clients": int(count)}
        for lower, upper, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    chart = (
        chart_on("sizes")
        .mark_bar(color="#56B4E9")
        .encode(
            x=alt.X("from:Q", title="examples per client", bin="binned"),
            x2="to:Q",
            y=alt.Y("clients:Q"),
            tooltip=["from:Q", "to:Q", "clients:Q"],
        )
    )
    return Chart(
        name="sizes",
        title="Examples per client",
        caption=(
            f"{client_sizes.size:,} clients hold {int(client_sizes.sum()):,} examples; "
            f"median {np.median(client_sizes):,.0f}, from {smallest:,.0f} to {largest:,.0f}."
        ),
        drawing=fill_width(chart, HEIGHT),
        tables={"sizes": rows},
        span=3,
    )


def sparse_ticks(length: int, step: int, start: int) -> list[int]:
    """Return about eight values for the ticks of an axis of groups."""
    values = list(range(start, length + start, step))
    return values[:: max(1, len(values) // 8)]


def draw_presence(mask: Array, first: int = 1) -> Chart | str:
    """Draw the share of clients that are reachable, by group of clients and span of rounds.

    Return a sentence instead where every client is always reachable.

    Args:
        mask: (rounds, N) who was there.
        first: number of the first round.
    """
    if mask.all():
        return "Every client is reachable in every round."
    n_rounds, n_clients = mask.shape
    span = -(-n_rounds // CELLS)  # rounds that share a column
    group = -(-n_clients // CELLS)  # clients that share a row
    span_starts = np.arange(0, n_rounds, span)
    group_starts = np.arange(0, n_clients, group)
    counts = np.add.reduceat(np.add.reduceat(mask, group_starts, axis=1), span_starts, axis=0)
    span_lengths = np.diff(np.append(span_starts, n_rounds))
    group_sizes = np.diff(np.append(group_starts, n_clients))
    shares = counts / span_lengths[:, None] / group_sizes[None, :]
    rows = [
        {"round": int(start) + first, "client": int(client), "available": round(float(share), 2)}
        for start, row in zip(span_starts, shares, strict=True)
        for client, share in zip(group_starts, row, strict=True)
    ]
    chart = (
        chart_on("availability")
        .mark_rect()
        .encode(
            x=alt.X("round:O", axis=alt.Axis(labelAngle=0, values=sparse_ticks(n_rounds, span, first), ticks=False)),
            y=alt.Y("client:O", axis=alt.Axis(values=sparse_ticks(n_clients, group, 0), ticks=False)),
            color=alt.Color("available:Q", scale=alt.Scale(scheme="blues", domain=[0, 1]), title="available"),
            tooltip=["round:O", "client:O", "available:Q"],
        )
    )
    by_round = mask.mean(axis=1)
    return Chart(
        name="availability",
        title="Who is reachable",
        caption=(
            f"{100 * mask.mean():.0f} % of the clients on average, "
            f"from {100 * by_round.min():.0f} to {100 * by_round.max():.0f} % in a round."
        ),
        drawing=fill_width(chart, HEIGHT),
        tables={"availability": rows},
        span=3,
    )

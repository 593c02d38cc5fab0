"""The federation itself: who holds what, how much, and who is there when."""

from __future__ import annotations

import altair as alt
import numpy as np

from sortition.core.arrays import Array
from sortition.report.charts import Chart, filling, on
from sortition.report.gather import Setting, evenly_spread
from sortition.report.palette import LABELS

SHOWN = 100
CELLS = 80


def figures(setting: Setting) -> list[Chart | str]:
    """Those that the runs have data for; where there is nothing to see, a sentence."""
    made: list[Chart | str] = []
    if (counts := setting.labels()) is not None:
        made.append(label_holdings(counts, f", seed {setting.first.seed}"))
    if "sizes" in setting.federation:
        made.append(sizes(setting.federation["sizes"]))
    if setting.availability is not None:
        made.append(presence(setting.availability))
    return made


def label_holdings(counts: Array, of_seed: str = "") -> Chart:
    """FedGS Fig. 7: one bar a client, one colour a label, as long as its data; ``counts`` are (N, C)."""
    keep = evenly_spread(len(counts), SHOWN)
    rows = [
        {"client": int(k), "label": str(label), "examples": int(counts[k, label])}
        for k in keep
        for label in np.flatnonzero(counts[k])
    ]
    labels = [str(label) for label in range(counts.shape[1])]
    colours = [LABELS[i % len(LABELS)] for i in range(len(labels))]
    chart = (
        on("partition")
        .mark_bar()
        .encode(
            x=alt.X(
                "client:O", axis=alt.Axis(labelAngle=0, values=keep[:: max(1, len(keep) // 10)].tolist(), ticks=False)
            ),
            y=alt.Y("examples:Q", title="examples"),
            color=alt.Color(
                "label:N",
                scale=alt.Scale(domain=labels, range=colours),
                legend=alt.Legend(columns=1 + len(labels) // 15),
            ),
            tooltip=["client:O", "label:N", "examples:Q"],
        )
    )
    note = f" {SHOWN} of {len(counts):,} clients." if len(counts) > SHOWN else ""
    caption = f"Labels of each client's examples{of_seed}.{note}"
    return Chart("partition", "Who holds what", caption, filling(chart, 240), {"partition": rows})


def sizes(held: Array) -> Chart | str:
    """How many examples clients hold (N,); a sentence where all hold as many, or one more."""
    if held.max() - held.min() <= 1:
        numbers = " or ".join(f"{size:,}" for size in np.unique(held))
        return f"Each of the {held.size:,} clients holds {numbers} examples."
    bins = min(30, max(1, np.unique(held).size))
    height, edges = np.histogram(held, bins=bins)
    rows = [
        {"from": float(a), "to": float(b), "clients": int(h)}
        for a, b, h in zip(edges[:-1], edges[1:], height, strict=True)
    ]
    chart = (
        on("sizes")
        .mark_bar(color="#56B4E9")
        .encode(
            x=alt.X("from:Q", title="examples of a client", bin="binned"),
            x2="to:Q",
            y=alt.Y("clients:Q"),
            tooltip=["from:Q", "to:Q", "clients:Q"],
        )
    )
    caption = f"{held.size:,} clients hold {int(held.sum()):,} examples; "
    caption += f"median {np.median(held):.0f}, from {held.min()} to {held.max()}."
    return Chart("sizes", "How much", caption, filling(chart, 240), {"sizes": rows}, span=3)


def ticks_of(length: int, step: int, start: int) -> list[int]:
    """About eight of the values that stand on an axis of groups."""
    values = list(range(start, length + start, step))
    return values[:: max(1, len(values) // 8)]


def presence(mask: Array, first: int = 1) -> Chart | str:
    """Share of clients that are reachable, by group of clients and span of rounds; a sentence where all always are.

    Args:
        mask: (rounds, N) who was there.
        first: number of the first round.
    """
    if mask.all():
        return "Every client is reachable in every round."
    rounds, n = mask.shape
    width, group = -(-rounds // CELLS), -(-n // CELLS)
    blocks = np.add.reduceat(np.add.reduceat(mask, np.arange(0, n, group), axis=1), np.arange(0, rounds, width), axis=0)
    across = np.diff(np.append(np.arange(0, n, group), n))
    along = np.diff(np.append(np.arange(0, rounds, width), rounds))
    share = blocks / along[:, None] / across[None, :]
    rows = [
        {"round": int(t) * width + first, "client": int(c) * group, "available": round(float(share[t, c]), 2)}
        for t in range(share.shape[0])
        for c in range(share.shape[1])
    ]
    chart = (
        on("availability")
        .mark_rect()
        .encode(
            x=alt.X("round:O", axis=alt.Axis(labelAngle=0, values=ticks_of(rounds, width, first), ticks=False)),
            y=alt.Y("client:O", axis=alt.Axis(values=ticks_of(n, group, 0), ticks=False)),
            color=alt.Color("available:Q", scale=alt.Scale(scheme="blues", domain=[0, 1]), title="available"),
            tooltip=["round:O", "client:O", "available:Q"],
        )
    )
    here = mask.mean(axis=1)
    caption = f"{100 * mask.mean():.0f} % of the clients on average, "
    caption += f"from {100 * here.min():.0f} to {100 * here.max():.0f} % in a round."
    return Chart("availability", "Who is reachable", caption, filling(chart, 240), {"availability": rows}, span=3)

"""What became of everybody who was chosen in a federation: the strip, by client, round by round; and seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import altair as alt
import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import printable
from sortition.core.round_record import FATES, Fate, cohort_ids
from sortition.report.charts import Chart, Row, chart_on, cost_axis, fill_width
from sortition.report.history_digest import HistoryDigest

COLOURS: dict[Fate, str] = {
    "used": "#009E73",
    "standby": "#56B4E9",
    "withdrawn": "#0072B2",
    "silent": "#E69F00",
    "failed": "#D55E00",
    "left out": "#CC79A7",
    "given up": "#F0E442",
    "too stale": "#882255",
    "still at work": "#BBB3E6",
    "lost": "#7f7f7f",
}
SHOWN_CLIENTS = 100  # one row each
SHOWN_ROUNDS = 80  # one column each
MOST_BARS = 80  # of a chart over all rounds; more rounds share one
MOST_NAMES = 30  # clients whose names fit below an axis
LABEL_WIDTH = 120  # pixels of a name beside an axis


def draw_charts(digest: HistoryDigest) -> list[Chart]:
    """Draw the strip, and how often each client was chosen; nothing where nobody ever was."""
    if not digest.chosen.any():
        return []
    return [draw_strip(digest), draw_times_chosen(digest)]


def draw_strip(digest: HistoryDigest) -> Chart:
    """Draw rounds × clients: coloured by what became of a chosen client, grey where one could not be chosen."""
    clients = _shown_clients(digest)
    labels = axis_names(digest, clients)
    label_of = dict(zip(clients.tolist(), labels, strict=True))
    first = max(0, len(digest.records) - SHOWN_ROUNDS)
    rounds = [record["round"] for record in digest.records[first:]]
    x = alt.X(
        "round:O",
        title="round, from 0",
        scale=alt.Scale(domain=rounds),
        axis=alt.Axis(values=_sparse_ticks(rounds, 10), labelAngle=0, ticks=False),
    )
    y = alt.Y(
        "client:N",
        title=None,
        sort=labels,
        scale=alt.Scale(domain=labels),
        axis=alt.Axis(labelLimit=LABEL_WIDTH, labelOverlap="greedy", ticks=False, domain=False),
    )
    size = {"width": alt.RelativeBandSize(0.9), "height": alt.RelativeBandSize(0.88)}
    tooltip = [
        "round:O",
        "client:N",
        "id:O",
        alt.Tooltip("fate:N", title="what became of it"),
        alt.Tooltip("ended:O", title="in round"),
        "weight:Q",
        "reason:N",
    ]
    absence = chart_on("away").mark_rect(color="#9993", **size).encode(x=x, y=y, tooltip=["round:O", "client:N"])
    marks = (
        chart_on("strip").mark_rect(**size).encode(x=x, y=y, color=_fate_colour(list(digest.totals)), tooltip=tooltip)
    )
    row_height = 16 if len(labels) <= 40 else 7
    height = max(120, min(640, row_height * len(labels)))
    return Chart(
        name="strip",
        title="Round by round",
        caption=_strip_caption(digest, clients, rounds),
        drawing=fill_width(absence + marks, height),
        tables={"away": _absent_rows(digest, label_of, first), "strip": _chosen_rows(digest, label_of, first)},
    )


def _chosen_rows(digest: HistoryDigest, label_of: dict[int, str], first: int) -> list[Row]:
    """Return what became of the shown clients that were chosen, from one round on."""
    rows = []
    for record, chosen in zip(digest.records[first:], digest.outcomes[first:], strict=True):
        weights = dict(zip(cohort_ids(record), record.get("weights") or [], strict=True))
        for client, outcome in chosen.items():
            if client in label_of:
                rows.append(
                    {
                        "round": record["round"],
                        "client": label_of[client],
                        "id": client,
                        "fate": outcome.fate,
                        "ended": outcome.round,
                        "weight": round(weights[client], 4),
                        "reason": printable(outcome.reason, 120),
                    }
                )
    return rows


def _strip_caption(digest: HistoryDigest, clients: Array, rounds: Sequence[int]) -> str:
    """Say what the colours of the strip mean, and which rounds and clients it shows."""
    caption = "Coloured where a client was chosen; point at a place for its weight and what became of it."
    if digest.available is not None:
        caption += " Grey: it could not be chosen."
    if len(rounds) < len(digest.records):
        caption += f" The last {len(rounds)} of {len(digest.records):,} rounds."
    if clients.size < digest.history.clients:
        caption += f" The {clients.size} of {digest.history.clients:,} clients that were chosen most often."
    return caption


def _shown_clients(digest: HistoryDigest) -> Array:
    """Return all clients by id; of many, those that were chosen most often."""
    if digest.history.clients <= SHOWN_CLIENTS:
        return np.arange(digest.history.clients)
    return np.sort(np.argsort(-digest.chosen, kind="stable")[:SHOWN_CLIENTS])


def axis_names(digest: HistoryDigest, clients: Array) -> list[str]:
    """Return a name for each client that no other has: where two names look the same, the id stands beside them."""
    names = [digest.history.names.short_name(client) for client in clients.tolist()]
    return [
        name if names.count(name) == 1 else f"{name} (id {client})"
        for name, client in zip(names, clients.tolist(), strict=True)
    ]


def _absent_rows(digest: HistoryDigest, label_of: dict[int, str], first: int) -> list[Row]:
    """Return the shown clients that could not be chosen, from one round on; none where that is not known."""
    if digest.available is None:
        return []
    rows = []
    for position, (record, present) in enumerate(zip(digest.records, digest.history.present(), strict=True)):
        if position >= first:
            present_ids = set(present.tolist())
            absent = [label for client, label in label_of.items() if client not in present_ids]
            rows += [{"round": record["round"], "client": label} for label in absent]
    return rows


def draw_times_chosen(digest: HistoryDigest) -> Chart:
    """Draw how often each client was chosen and what became of it; of many clients, a histogram of how often."""
    if digest.history.clients > SHOWN_CLIENTS:
        return _draw_times_chosen_histogram(digest)
    order = np.argsort(-digest.chosen, kind="stable")
    labels = axis_names(digest, order)
    rows = [
        {"client": label, "id": client, "fate": fate, "order": FATES.index(fate), "rounds": int(counts[client])}
        for label, client in zip(labels, order.tolist(), strict=True)
        for fate, counts in digest.by_client.items()
        if counts[client]
    ]
    has_names = len(labels) <= MOST_NAMES
    client_axis = alt.X(
        "client:N",
        sort=labels,
        scale=alt.Scale(domain=labels),
        title=None if has_names else "clients",
        axis=alt.Axis(labelAngle=-40, labelLimit=90, labels=has_names, ticks=False),
    )
    chart = (
        chart_on("by_client")
        .mark_bar()
        .encode(
            x=client_axis,
            y=alt.Y("rounds:Q", title="times chosen", axis=_whole_number_axis(int(digest.chosen.max()))),
            color=_fate_colour(list(digest.totals)),
            order=alt.Order("order:Q"),
            tooltip=["client:N", "id:O", alt.Tooltip("fate:N", title="what became of it"), "rounds:Q"],
        )
    )
    caption = "The most often chosen first; even heights are an even choice, where all were available equally often."
    return Chart(
        name="by-client",
        title="How often each client was chosen",
        caption=caption,
        drawing=fill_width(chart, 260),
        tables={"by_client": rows},
    )


def _draw_times_chosen_histogram(digest: HistoryDigest) -> Chart:
    """Draw how many clients were chosen how often."""
    times, clients = np.unique(digest.chosen, return_counts=True)
    rows = []
    for positions in np.array_split(np.arange(times.size), min(times.size, 40)):
        lowest = times[positions[0]]
        highest = times[positions[-1]]
        if lowest == highest:
            span = str(lowest)
        else:
            span = f"{lowest}–{highest}"
        rows.append({"times": span, "clients": int(clients[positions].sum())})
    chart = (
        chart_on("how_many")
        .mark_bar(color=COLOURS["standby"])
        .encode(
            x=alt.X("times:N", sort=None, title="times chosen", axis=alt.Axis(labelAngle=0, labelOverlap="greedy")),
            y=alt.Y("clients:Q", axis=cost_axis()),
            tooltip=["times:N", "clients:Q"],
        )
    )
    caption = f"{digest.history.clients:,} clients, by how often they were chosen."
    return Chart(
        name="by-client",
        title="How often clients were chosen",
        caption=caption,
        drawing=fill_width(chart, 240),
        tables={"how_many": rows},
    )


def draw_fates_by_round(digest: HistoryDigest) -> Chart:
    """Draw what became of the chosen clients in each round."""
    rows = []
    for start, end in _bar_spans(len(digest.records)):
        counts = Counter(outcome.fate for chosen in digest.outcomes[start:end] for outcome in chosen.values())
        rows += [
            {
                "round": digest.records[start]["round"],
                "fate": fate,
                "order": FATES.index(fate),
                "clients": round(counts[fate] / (end - start), 2),
            }
            for fate in FATES
            if counts[fate]
        ]
    starts = [digest.records[start]["round"] for start, _ in _bar_spans(len(digest.records))]
    chart = (
        chart_on("fates")
        .mark_bar()
        .encode(
            x=_rounds_axis(starts),
            y=alt.Y("clients:Q", title="clients", axis=_whole_number_axis(max(map(len, digest.outcomes)))),
            color=_fate_colour(list(digest.totals)),
            order=alt.Order("order:Q"),
            tooltip=["round:O", alt.Tooltip("fate:N", title="what became of them"), "clients:Q"],
        )
    )
    caption = f"Everybody who was chosen, by what became of them.{_averaging_sentence(len(digest.records))}"
    return Chart(
        name="fates",
        title="What became of the chosen",
        caption=caption,
        drawing=fill_width(chart, 240),
        tables={"fates": rows},
    )


def draw_durations(digest: HistoryDigest) -> Chart | None:
    """Draw the seconds of each round by the server's clock, questions included; None where no record has a clock."""
    rows = []
    starts = []
    for start, end in _bar_spans(len(digest.records)):
        durations = [seconds for seconds in digest.seconds[start:end] if seconds is not None]
        if durations:
            first_round = digest.records[start]["round"]
            starts.append(first_round)
            rows.append({"round": first_round, "seconds": round(sum(durations) / len(durations), 3)})
    if not rows:
        return None
    chart = (
        chart_on("duration")
        .mark_bar(color=COLOURS["standby"])
        .encode(x=_rounds_axis(starts), y=alt.Y("seconds:Q", axis=cost_axis()), tooltip=["round:O", "seconds:Q"])
    )
    caption = "From the end of the round before to the end of this one: waiting for clients counts."
    caption += _averaging_sentence(len(digest.records))
    return Chart(
        name="seconds",
        title="Seconds a round",
        caption=caption,
        drawing=fill_width(chart, 220),
        tables={"duration": rows},
    )


def _rounds_axis(rounds: Sequence[int]) -> alt.X:
    """Return an axis of rounds with about ten labels."""
    axis = alt.Axis(values=_sparse_ticks(rounds, 10), labelAngle=0, ticks=False)
    return alt.X("round:O", title="round, from 0", scale=alt.Scale(domain=list(rounds)), axis=axis)


def _whole_number_axis(top: int) -> alt.Axis:
    """Return an axis with ticks at whole numbers only, from 0 to ``top``."""
    step = max(1, -(-top // 8))  # at most nine ticks
    return alt.Axis(values=list(range(0, top + 1, step)), format="d")


def _bar_spans(rounds: int) -> list[tuple[int, int]]:
    """Return first round and end of each bar; all rounds are divided into at most MOST_BARS bars of equal length."""
    edges = [*range(0, rounds, _rounds_per_bar(rounds)), rounds]
    return list(pairwise(edges))


def _rounds_per_bar(rounds: int) -> int:
    """Return how many rounds share a bar."""
    return -(-rounds // MOST_BARS)


def _averaging_sentence(rounds: int) -> str:
    """Say how many rounds a bar averages, where it is more than one."""
    width = _rounds_per_bar(rounds)
    if width > 1:
        return f" Means of {width} rounds."
    return ""


def _sparse_ticks(values: Sequence[int], most: int) -> list[int]:
    """Return at most ``most`` of the values, evenly spread."""
    step = max(1, -(-len(values) // most))
    return list(values[::step])


def _fate_colour(shown_fates: Sequence[Fate]) -> alt.Color:
    scale = alt.Scale(domain=list(shown_fates), range=[COLOURS[fate] for fate in shown_fates])
    return alt.Color("fate:N", scale=scale, legend=alt.Legend(title=None, orient="top", columns=6))

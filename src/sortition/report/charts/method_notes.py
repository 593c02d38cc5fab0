"""What a method saw: pictures that it left in its notes, each drawn only where there is one.

Known kinds (``ids`` are always the clients shown, at most a hundred or so):

- ``embedding`` {ids, x}: a vector a client (FedCor's factors); drawn by its first two principal components.
- ``graph`` {ids, edges: [[i, j], …]}: positions in ``ids`` that are joined (FedGS's 3DG), laid out by its spectrum.
- ``coverage`` {ids, xy or distances, by, chosen}: who stands for whom (LongFed).
- ``grouping`` {ids, group, value?}: groups of clients, with an estimate each (HiCS-FL's entropies) or without (FedSS).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from sortition.core.arrays import Array, Floats
from sortition.report.charts import Chart, Row, Rows, chart_on, fill_width
from sortition.report.gather import Setting
from sortition.report.palette import LABELS

PLANE_HEIGHT = 420  # height of a picture in the plane
GROUPING_HEIGHT = 260
MOST_EDGES = 600  # of a graph in a picture
BY_LABEL = "colour: most frequent label."
Note = dict[str, Any]  # a picture as a method left it


@dataclass(frozen=True)
class Picture:
    """A drawing on named tables, with a sentence on how to read it."""

    drawing: Any
    tables: Mapping[str, Rows]
    caption: str


def draw_charts(setting: Setting) -> list[Chart]:
    """Draw one figure a method and kind, of its first seed."""
    charts = []
    for label, runs in setting.methods.items():
        charts += draw_notes(label, runs[0].pictures, setting.label_counts)
    return charts


def draw_notes(label: str, pictures: Mapping[str, tuple[int, Any]], label_counts: Array | None) -> list[Chart]:
    """Draw one figure a kind: ``pictures`` has the latest note of each, with its round."""
    charts = []
    for kind, (round_number, note) in pictures.items():
        try:
            picture = DRAW_BY_KIND[kind](note, label_counts)
        except (KeyError, TypeError, ValueError, IndexError):
            continue  # a method of somebody else may mean another thing by the word
        height = GROUPING_HEIGHT if kind == "grouping" else PLANE_HEIGHT
        charts.append(
            Chart(
                name=f"notes-{label}-{kind}",
                title=f"{label}: {kind}",
                caption=f"Round {round_number}. {picture.caption}",
                drawing=fill_width(picture.drawing, height),
                tables=picture.tables,
                span=3,
            )
        )
    return charts


def draw_embedding(note: Note, label_counts: Array | None) -> Picture:
    """Draw clients by their factors, as FedCor's Fig. 7; rows have unit length, so that only directions count."""
    vectors = np.asarray(note["x"], np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions = vectors / np.maximum(lengths, 1e-12)
    points = _point_rows(np.asarray(note["ids"]), principal_components(directions), label_counts)
    return Picture(
        drawing=_draw_points(),
        tables={"points": points},
        caption=f"Clients near each other gain from the same updates; {BY_LABEL}",
    )


def draw_graph(note: Note, label_counts: Array | None) -> Picture:
    """Draw a graph of clients as FedGS's Fig. 3: those that hold similar data are joined."""
    ids = np.asarray(note["ids"])
    edges = np.asarray(note["edges"], np.int64).reshape(-1, 2)
    adjacency = np.zeros((ids.size, ids.size))
    adjacency[edges[:, 0], edges[:, 1]] = 1.0
    adjacency[edges[:, 1], edges[:, 0]] = 1.0
    positions = spectral_layout(adjacency)
    shown_edges = edges[:: max(1, math.ceil(len(edges) / MOST_EDGES))]
    caption = f"Joined clients hold similar data; {BY_LABEL}"
    if len(shown_edges) < len(edges):
        caption = f"{len(shown_edges)} of {len(edges)} edges. {caption}"
    return Picture(
        drawing=_draw_rules(opacity=0.18) + _draw_points(),
        tables={
            "lines": [_line_row(positions[first], positions[second]) for first, second in shown_edges],
            "points": _point_rows(ids, positions, label_counts),
        },
        caption=caption,
    )


def draw_coverage(note: Note, label_counts: Array | None) -> Picture:
    """Draw the chosen clients and those that each stands for, as LongFed's Figs. 4 and 5."""
    ids = np.asarray(note["ids"])
    representatives = np.asarray(note["by"], np.int64)
    if "xy" in note:
        positions = np.asarray(note["xy"], np.float64)
    else:
        positions = multidimensional_scaling(np.asarray(note["distances"], np.float64))
    position_of = {int(client): position for client, position in zip(ids, positions, strict=True)}
    lines = []
    for client, representative in zip(ids.tolist(), representatives.tolist(), strict=True):
        if representative in position_of and representative != client:
            lines.append(_line_row(position_of[client], position_of[representative]))
    chosen = set(np.asarray(note.get("chosen", representatives)).tolist())
    points = [{**point, "chosen": point["client"] in chosen} for point in _point_rows(ids, positions, label_counts)]
    scatter = _draw_points().encode(size=alt.condition("datum.chosen", alt.value(190), alt.value(45)))
    return Picture(
        drawing=_draw_rules(opacity=0.35) + scatter,
        tables={"lines": lines, "points": points},
        caption="Large: chosen; a line leads from each client to the one that stands for it.",
    )


def draw_grouping(note: Note, label_counts: Array | None) -> Picture:
    """Draw each client's estimate by group; without estimates, the labels of each group."""
    if "value" not in note:
        return draw_group_labels(note, label_counts)
    ids = np.asarray(note["ids"])
    groups = np.asarray(note["group"], np.int64)
    labels = _most_frequent_labels(ids, label_counts)
    rows = [
        {"client": int(client), "group": int(group) + 1, "value": round(float(estimate), 3), "label": label}
        for client, group, estimate, label in zip(ids, groups, note["value"], labels, strict=True)
    ]
    chart = (
        chart_on("grouping")
        .mark_circle(size=70, opacity=1, stroke="#5b6570", strokeWidth=0.6)
        .encode(
            x=alt.X("group:O", title="group", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("client:O"),
            y=alt.Y("value:Q", title="estimate"),
            color=_label_colour(),
            tooltip=["client:O", "group:O", "value:Q", "label:N"],
        )
    )
    return Picture(
        drawing=chart,
        tables={"grouping": rows},
        caption=(
            "One dot a client: its group, and what was estimated of it (HiCS-FL: label entropy, more is more balanced)."
        ),
    )


def draw_group_labels(note: Note, label_counts: Array | None) -> Picture:
    """Draw the label mixture of each group of clients."""
    if label_counts is None:
        raise ValueError("no label counts")
    ids = np.asarray(note["ids"])
    groups = np.asarray(note["group"], np.int64)
    rows = []
    group_sizes = []
    for group in np.unique(groups):
        members = ids[groups == group]
        group_sizes.append(str(members.size))
        for label, examples in enumerate(label_counts[members].sum(axis=0)):
            rows.append({"group": int(group) + 1, "label": str(label), "examples": int(examples)})
    chart = (
        chart_on("mixtures")
        .mark_bar()
        .encode(
            x=alt.X("group:O", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("examples:Q", stack="normalize", title="labels", axis=alt.Axis(format="%")),
            color=_label_colour(),
            tooltip=["group:O", "label:N", "examples:Q"],
        )
    )
    caption = f"Labels inside each group; clients: {', '.join(group_sizes)}."
    return Picture(drawing=chart, tables={"mixtures": rows}, caption=caption)


DRAW_BY_KIND = {"embedding": draw_embedding, "graph": draw_graph, "coverage": draw_coverage, "grouping": draw_grouping}


# -- layouts in the plane ----------------------------------------------------------------------------------------------


def principal_components(x: Floats) -> Floats:
    """Return the first two principal components (n, 2)."""
    u, s, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    components = u[:, :2] * s[:2]
    missing_columns = max(0, 2 - u.shape[1])
    return np.pad(components, ((0, 0), (0, missing_columns)))


def multidimensional_scaling(distances: Floats) -> Floats:
    """Lay points out in the plane by classical multidimensional scaling."""
    n = len(distances)
    centring = np.eye(n) - 1 / n
    eigenvalues, eigenvectors = np.linalg.eigh(-0.5 * centring @ distances**2 @ centring)
    largest = np.maximum(eigenvalues[::-1][:2], 0)
    return np.asarray(eigenvectors[:, ::-1][:, :2] * np.sqrt(largest))


def spectral_layout(adjacency: Floats) -> Floats:
    """Lay a graph out by the two smoothest vectors of the normalised Laplacian."""
    n = len(adjacency)
    if n <= 2:
        return np.eye(n, 2)
    degree = np.maximum(adjacency.sum(axis=1), 1.0)
    laplacian = np.eye(n) - adjacency / np.sqrt(degree[:, None] * degree[None, :])
    _, eigenvectors = np.linalg.eigh(laplacian)
    return np.asarray(eigenvectors[:, 1:3])


# -- parts of drawings -------------------------------------------------------------------------------------------------


def _most_frequent_labels(ids: Array, label_counts: Array | None) -> list[str]:
    """Return the label that each client has most of; empty texts where labels are unknown."""
    if label_counts is None:
        return [""] * len(ids)
    return [str(label) for label in label_counts[ids].argmax(axis=1)]


def _point_rows(ids: Array, positions: Floats, label_counts: Array | None) -> list[Row]:
    """Return one row a client: its position and the label that it has most of."""
    labels = _most_frequent_labels(ids, label_counts)
    return [
        {"client": int(client), "x": round(float(x), 3), "y": round(float(y), 3), "label": label}
        for client, (x, y), label in zip(ids, positions, labels, strict=True)
    ]


def _line_row(start: Floats, end: Floats) -> Row:
    """Return the row of a line between two positions."""
    return {
        "x": round(float(start[0]), 3),
        "y": round(float(start[1]), 3),
        "x2": round(float(end[0]), 3),
        "y2": round(float(end[1]), 3),
    }


def _x_axis() -> alt.X:
    return alt.X("x:Q", axis=_bare_axis(), scale=alt.Scale(zero=False, padding=12))


def _y_axis() -> alt.Y:
    return alt.Y("y:Q", axis=_bare_axis(), scale=alt.Scale(zero=False, padding=12))


def _bare_axis() -> alt.Axis:
    """Return an axis without anything on it: positions in a picture have no unit."""
    return alt.Axis(labels=False, ticks=False, title=None, grid=False, domain=False)


def _draw_rules(opacity: float) -> alt.Chart:
    return chart_on("lines").mark_rule(opacity=opacity).encode(x=_x_axis(), y=_y_axis(), x2="x2:Q", y2="y2:Q")


def _label_colour() -> alt.Color:
    labels = [str(position) for position in range(len(LABELS))]
    return alt.Color(
        "label:N",
        scale=alt.Scale(domain=labels, range=list(LABELS)),
        legend=alt.Legend(title="label"),
    )


def _draw_points() -> alt.Chart:
    return (
        chart_on("points")
        .mark_circle(size=90, opacity=1, stroke="#5b6570", strokeWidth=0.8)
        .encode(x=_x_axis(), y=_y_axis(), color=_label_colour(), tooltip=["client:O", "label:N"])
    )

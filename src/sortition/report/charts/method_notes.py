"""What a method saw: pictures that it left in its notes, each drawn only where there is one.

Known kinds (``ids`` are always the clients shown, at most a hundred or so):

- ``embedding`` {ids, x}: a vector a client (FedCor's factors); drawn by its first two principal components.
- ``graph`` {ids, edges: [[i, j], …]}: positions in ``ids`` that are joined (FedGS's 3DG), laid out by its spectrum.
- ``coverage`` {ids, xy or distances, by, chosen}: who stands for whom (LongFed).
- ``grouping`` {ids, group, value?}: groups of clients, with an estimate each (HiCS-FL's entropies) or without (FedSS).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np

from sortition.core.arrays import Array, Floats
from sortition.report.charts import Chart, Rows, filling, on
from sortition.report.gather import Setting
from sortition.report.palette import LABELS

SIDE = 420
Drawn = tuple[Any, dict[str, Rows], str]  # chart, its tables, how to read it


def figures(setting: Setting) -> list[Chart]:
    """One figure a method and kind, of its first seed."""
    made = []
    for label, runs in setting.methods.items():
        made += drawn_pictures(label, runs[0].pictures, setting.labels())
    return made


def drawn_pictures(label: str, pictures: Mapping[str, tuple[int, Any]], label_counts: Array | None) -> list[Chart]:
    """One figure a kind: ``pictures`` has the latest of each, with its round."""
    made = []
    for kind, (round_number, note) in pictures.items():
        try:
            chart, tables, caption = DRAWN[kind](note, label_counts)
        except (KeyError, TypeError, ValueError, IndexError):
            continue  # a method of somebody else may mean another thing by the word
        drawn = filling(chart, SIDE if kind != "grouping" else 260)
        caption = f"Round {round_number}. {caption}"
        made.append(Chart(f"notes-{label}-{kind}", f"{label}: {kind}", caption, drawn, tables, 3))
    return made


def embedding(note: dict[str, Any], label_counts: Array | None) -> Drawn:
    """FedCor Fig. 7: rows of unit length, so that only directions count."""
    x = np.asarray(note["x"], np.float64)
    x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    rows = _points(np.asarray(note["ids"]), principal(x), label_counts)
    return (
        _scatter(),
        {"points": rows},
        "Clients near each other gain from the same updates; colour: most frequent label.",
    )


def graph(note: dict[str, Any], label_counts: Array | None) -> Drawn:
    """FedGS Fig. 3."""
    ids, edges = np.asarray(note["ids"]), np.asarray(note["edges"], np.int64).reshape(-1, 2)
    joined = np.zeros((ids.size, ids.size))
    joined[edges[:, 0], edges[:, 1]] = joined[edges[:, 1], edges[:, 0]] = 1.0
    xy = spectral(joined)
    lines = [
        {"x": xy[i, 0], "y": xy[i, 1], "x2": xy[j, 0], "y2": xy[j, 1]}
        for i, j in edges[:: max(1, len(edges) // 600)].tolist()
    ]
    rules = on("lines").mark_rule(opacity=0.18).encode(x=_bare("x"), y=_bare("y"), x2="x2:Q", y2="y2:Q")
    shown = f"{min(len(edges), len(lines))} of {len(edges)} edges. " if len(lines) < len(edges) else ""
    tables: dict[str, Rows] = {"lines": _short(lines), "points": _points(ids, xy, label_counts)}
    return rules + _scatter(), tables, f"{shown}Joined clients hold similar data; colour: most frequent label."


def coverage(note: dict[str, Any], label_counts: Array | None) -> Drawn:
    """LongFed Figs. 4 and 5: the chosen, and the clients that each stands for."""
    ids, by = np.asarray(note["ids"]), np.asarray(note["by"], np.int64)
    xy = np.asarray(note["xy"], np.float64) if "xy" in note else scaled(np.asarray(note["distances"], np.float64))
    at = {int(k): p for k, p in zip(ids, xy, strict=True)}
    lines = [
        {"x": at[int(k)][0], "y": at[int(k)][1], "x2": at[int(j)][0], "y2": at[int(j)][1]}
        for k, j in zip(ids, by, strict=True)
        if int(j) in at and int(j) != int(k)
    ]
    chosen = set(np.asarray(note.get("chosen", by)).tolist())
    rows = [{**row, "chosen": row["client"] in chosen} for row in _points(ids, xy, label_counts)]
    rules = on("lines").mark_rule(opacity=0.35).encode(x=_bare("x"), y=_bare("y"), x2="x2:Q", y2="y2:Q")
    points = _scatter().encode(size=alt.condition("datum.chosen", alt.value(190), alt.value(45)))
    return (
        rules + points,
        {"lines": _short(lines), "points": rows},
        "Large: chosen; a line leads from each client to the one that stands for it.",
    )


def grouping(note: dict[str, Any], label_counts: Array | None) -> Drawn:
    """Each client's estimate, by group; without estimates, the labels of each group."""
    ids, group = np.asarray(note["ids"]), np.asarray(note["group"], np.int64)
    if "value" not in note:
        return group_labels(note, label_counts)
    top = _top(ids, label_counts)
    rows = [
        {"client": int(k), "group": int(g) + 1, "value": v, "label": t}
        for k, g, v, t in zip(ids, group, note["value"], top, strict=True)
    ]
    chart = (
        on("grouping")
        .mark_circle(size=70, opacity=1, stroke="#5b6570", strokeWidth=0.6)
        .encode(
            x=alt.X("group:O", title="group", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("client:O"),
            y=alt.Y("value:Q", title="estimate"),
            color=_label_colour(),
            tooltip=["client:O", "group:O", "value:Q", "label:N"],
        )
    )
    return (
        chart,
        {"grouping": _short(rows)},
        "One dot a client: its group, and what was estimated of it (HiCS-FL: label entropy, more is more balanced).",
    )


def group_labels(note: dict[str, Any], label_counts: Array | None) -> Drawn:
    """Label mixture of each group."""
    ids, group = np.asarray(note["ids"]), np.asarray(note["group"], np.int64)
    if label_counts is None:
        raise ValueError("no label counts")
    rows = [
        {"group": int(g) + 1, "label": str(label), "examples": int(label_counts[ids[group == g], label].sum())}
        for g in np.unique(group)
        for label in range(label_counts.shape[1])
    ]
    chart = (
        on("mixtures")
        .mark_bar()
        .encode(
            x=alt.X("group:O", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("examples:Q", stack="normalize", title="labels", axis=alt.Axis(format="%")),
            color=_label_colour(),
            tooltip=["group:O", "label:N", "examples:Q"],
        )
    )
    sizes = ", ".join(str(int((group == g).sum())) for g in np.unique(group))
    return chart, {"mixtures": rows}, f"Labels inside each group; clients: {sizes}."


DRAWN = {"embedding": embedding, "graph": graph, "coverage": coverage, "grouping": grouping}


def principal(x: Floats) -> Floats:
    """The first two principal components (n, 2)."""
    left, values, _ = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    return np.pad(left[:, :2] * values[:2], ((0, 0), (0, max(0, 2 - left.shape[1]))))


def scaled(distances: Floats) -> Floats:
    """Classical multidimensional scaling to the plane."""
    n = len(distances)
    centring = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-0.5 * centring @ distances**2 @ centring)
    return np.asarray(vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0)))


def spectral(joined: Floats) -> Floats:
    """A layout by the two smoothest vectors of the normalised Laplacian."""
    degree = np.maximum(joined.sum(axis=1), 1.0)
    laplacian = np.eye(len(joined)) - joined / np.sqrt(degree[:, None] * degree[None, :])
    _, vectors = np.linalg.eigh(laplacian)
    return np.asarray(vectors[:, 1:3]) if len(joined) > 2 else np.eye(len(joined), 2)


def _top(ids: Array, label_counts: Array | None) -> list[str]:
    return ["" for _ in ids] if label_counts is None else [str(k) for k in label_counts[ids].argmax(axis=1)]


def _points(ids: Array, xy: Floats, label_counts: Array | None) -> list[dict[str, Any]]:
    top = _top(ids, label_counts)
    return _short([{"client": int(k), "x": p[0], "y": p[1], "label": t} for k, p, t in zip(ids, xy, top, strict=True)])


def _short(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: round(float(v), 3) if isinstance(v, float) else v for k, v in row.items()} for row in rows]


def _bare(name: str) -> Any:
    axis = alt.Axis(labels=False, ticks=False, title=None, grid=False, domain=False)
    return (alt.X if name == "x" else alt.Y)(f"{name}:Q", axis=axis, scale=alt.Scale(zero=False, padding=12))


def _label_colour() -> alt.Color:
    domain = [str(i) for i in range(len(LABELS))]
    return alt.Color("label:N", scale=alt.Scale(domain=domain, range=list(LABELS)), legend=alt.Legend(title="label"))


def _scatter() -> alt.Chart:
    return (
        on("points")
        .mark_circle(size=90, opacity=1, stroke="#5b6570", strokeWidth=0.8)
        .encode(x=_bare("x"), y=_bare("y"), color=_label_colour(), tooltip=["client:O", "label:N"])
    )

"""FedCor's own figures, embeddings by label (Fig. 7), how often clients are chosen (Figs. 6, 10, 11), and metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sortition.core.arrays import Array, Floats
from sortition.reproduction.context import Context, Marks
from sortition.results import metrics
from sortition.results.run_folder import Run

if TYPE_CHECKING:
    import altair as alt

LAST_ROUND = 1 << 60  # where a span of rounds has no end

# -- metrics: ``metric(run, **options)``; ``from`` and ``to`` are rounds, counted from 1 ------------------------------


def lead(run: Run, *, reference: Run, **span: int) -> float | None:
    """Return the mean accuracy over rounds ``from`` … ``to`` above that of the reference, same seed."""
    accuracy = metrics.mean(run, of="accuracy", **span)
    reference_accuracy = metrics.mean(reference, of="accuracy", **span)
    if accuracy is None or reference_accuracy is None:
        return None
    return accuracy - reference_accuracy


def swing(run: Run, **span: int) -> float | None:
    """Return the standard deviation of the accuracy's change from one evaluation to the next, ``from`` … ``to``."""
    rounds, accuracies = run.curve("accuracy")
    inside = (rounds >= span.get("from", 1)) & (rounds <= span.get("to", LAST_ROUND))
    if inside.sum() <= 2:
        return None
    return float(np.diff(accuracies[inside]).std())


def labels_met(run: Run, **span: int) -> float | None:
    """Return the mean number of labels that a cohort of rounds ``from`` … ``to`` has some examples of."""
    label_counts = run.federation()["label_counts"]
    first = span.get("from", 1)
    last = span.get("to", LAST_ROUND)
    numbers = [
        np.count_nonzero(label_counts[record["cohort"]].sum(axis=0))
        for record in run.records
        if first <= record["round"] + 1 <= last and record["cohort"]
    ]
    if not numbers:
        return None
    return float(np.mean(numbers))


# -- embeddings -----------------------------------------------------------------------------------------------------


def first_embedding(run: Run) -> tuple[Array, Floats] | None:
    """Return ids and unit rows of the embedding that warm-up ended with; None where there is none."""
    for record in run.records:
        notes = record.get("notes") or {}
        if notes.get("phase") == "selection" and notes.get("fitted"):
            ids = np.asarray(notes["embedding"]["ids"])
            x = np.asarray(notes["embedding"]["x"], np.float64)
            lengths = np.linalg.norm(x, axis=1, keepdims=True)
            return ids, x / np.maximum(lengths, 1e-9)
    return None


def embedding(context: Context, *, setting: str, method: str) -> str:
    """Draw Fig. 7: t-SNE of the embeddings after warm-up, coloured by each client's most frequent label."""
    for run in context.finished_runs(setting=setting, methods=[method]):
        ids_and_rows = first_embedding(run)
        if ids_and_rows is None:
            continue
        ids, x = ids_and_rows
        labels = run.federation()["label_counts"][ids].argmax(axis=1)
        same_label, other_label = mean_correlations(x, labels)
        picture = context.save("embedding", _draw_embedding(x, labels))
        return (
            f"### Embeddings after warm-up, {setting} (Fig. 7)\n\n{picture}\n\n"
            f"Correlation of two clients with the same main label: {same_label:.2f} on average; else {other_label:.2f}."
        )
    return ""


def _draw_embedding(x: Floats, labels: Array) -> alt.Chart:
    """Draw clients in the plane of t-SNE, in the colour of their most frequent label."""
    import altair as alt
    from sklearn.manifold import TSNE

    plane = TSNE(perplexity=min(10.0, (len(x) - 1) / 3), random_state=0).fit_transform(x)
    points: Marks = [
        {"x": first, "y": second, "label": int(label)}
        for (first, second), label in zip(plane.tolist(), labels, strict=True)
    ]
    bare_axis = alt.Axis(labels=False, ticks=False, title=None, grid=False)
    chart = alt.Chart(alt.InlineData(values=points)).mark_circle(size=70)
    chart = chart.encode(
        x=alt.X("x:Q", axis=bare_axis),
        y=alt.Y("y:Q", axis=bare_axis),
        color=alt.Color("label:N", scale=alt.Scale(scheme="tableau10")),
    )
    return chart.properties(width=360, height=320)


def mean_correlations(x: Floats, labels: Array) -> tuple[float, float]:
    """Return the mean correlation x_iᵀx_j of pairs with one label and of pairs with two (unit rows)."""
    r = x @ x.T
    same_label = labels[:, None] == labels
    two_clients = ~np.eye(len(x), dtype=bool)
    return float(r[same_label & two_clients].mean()), float(r[~same_label].mean())


# -- how often clients are chosen -----------------------------------------------------------------------------------


def frequency(context: Context, *, setting: list[str], methods: list[str]) -> str:
    """Draw Figs. 6, 10, 11: how often each client is chosen, most often first, mean over seeds."""
    import altair as alt

    panels = []
    for name in setting:
        points: Marks = []
        for method in methods:
            runs = context.finished_runs(setting=name, methods=[method])
            counts = [np.sort(run.clients()["selected"])[::-1] for run in runs]
            if counts:
                mean_counts = np.mean(counts, axis=0).tolist()
                points += [
                    {"rank": rank, "times": round(times, 2), "method": method}
                    for rank, times in enumerate(mean_counts, start=1)
                ]
        if points:
            panels.append(_draw_frequency(name, points, methods))
    if not panels:
        return ""
    picture = context.save("frequency", alt.concat(*panels, columns=3, spacing=20))
    return f"### How often each client is chosen, most often first\n\n{picture}"


def _draw_frequency(title: str, points: Marks, methods: list[str]) -> alt.Chart:
    import altair as alt

    return (
        alt.Chart(alt.InlineData(values=points), title=title)
        .mark_line(interpolate="step")
        .encode(
            x=alt.X("rank:Q", title="clients"),
            y=alt.Y("times:Q", title="times chosen"),
            color=alt.Color("method:N", sort=methods, scale=alt.Scale(domain=methods), title=None),
        )
        .properties(width=240, height=180)
    )

"""FedCor's own figures, embeddings by label (Fig. 7), how often clients are chosen (Figs. 6, 10, 11), and metrics."""

from __future__ import annotations

from typing import Any

import numpy as np

from sortition.core.arrays import Array, Floats
from sortition.reproduction.context import Context
from sortition.results import metrics
from sortition.results.run_folder import Run


def lead(run: Run, *, reference: Run, **span: int) -> float | None:
    """Mean accuracy over rounds ``from`` … ``to`` above that of the reference, same seed."""
    ours, theirs = (metrics.mean(one, of="accuracy", **span) for one in (run, reference))
    return None if ours is None or theirs is None else ours - theirs


def swing(run: Run, **span: int) -> float | None:
    """Standard deviation of the accuracy's change from one evaluation to the next, rounds ``from`` … ``to``."""
    rounds, values = run.curve("accuracy")
    inside = (rounds >= span.get("from", 1)) & (rounds <= span.get("to", 1 << 60))
    return float(np.diff(values[inside]).std()) if inside.sum() > 2 else None


def labels_met(run: Run, **span: int) -> float | None:
    """Mean number of labels that a cohort of rounds ``from`` … ``to`` (1-based) has some examples of."""
    counts = run.federation()["label_counts"]
    first, last = span.get("from", 1), span.get("to", 1 << 60)
    cohorts = [r["cohort"] for r in run.records if first <= r["round"] + 1 <= last and r["cohort"]]
    return float(np.mean([np.count_nonzero(counts[ids].sum(axis=0)) for ids in cohorts])) if cohorts else None


def first_embedding(run: Run) -> tuple[Array, Floats] | None:
    """Ids and unit rows of the embedding that warm-up ended with."""
    for record in run.records:
        notes = record.get("notes") or {}
        if notes.get("phase") == "selection" and notes.get("fitted"):
            x = np.asarray(notes["embedding"]["x"], np.float64)
            return np.asarray(notes["embedding"]["ids"]), x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9)
    return None


def embedding(context: Context, *, setting: str, method: str) -> str:
    """Fig. 7: t-SNE of the embeddings after warm-up, unit rows, coloured by each client's most frequent label."""
    for run in context.done(setting=setting, methods=[method]):
        found = first_embedding(run)
        if found is not None:
            ids, x = found
            label = run.federation()["label_counts"][ids].argmax(axis=1)
            inside, across = correlations(x, label)
            text = f"Correlation of two clients with the same main label: {inside:.2f} on average; else {across:.2f}."
            picture = context.save("embedding", _plane(x, label))
            return f"### Embeddings after warm-up, {setting} (Fig. 7)\n\n{picture}\n\n{text}"
    return ""


def _plane(x: Floats, label: Array) -> Any:
    import altair as alt
    from sklearn.manifold import TSNE

    plane = TSNE(perplexity=min(10.0, (len(x) - 1) / 3), random_state=0).fit_transform(x)
    values = [{"x": a, "y": b, "label": int(y)} for (a, b), y in zip(plane.tolist(), label, strict=True)]
    bare = alt.Axis(labels=False, ticks=False, title=None, grid=False)
    chart = alt.Chart(alt.InlineData(values=values)).mark_circle(size=70)
    colour = alt.Color("label:N", scale=alt.Scale(scheme="tableau10"))
    chart = chart.encode(x=alt.X("x:Q", axis=bare), y=alt.Y("y:Q", axis=bare), color=colour)
    return chart.properties(width=360, height=320)


def correlations(x: Floats, label: Array) -> tuple[float, float]:
    """Mean correlation x_iᵀx_j of pairs with one label and of pairs with two (unit rows)."""
    r, same = x @ x.T, label[:, None] == label
    others = ~np.eye(len(x), dtype=bool)
    return float(r[same & others].mean()), float(r[~same].mean())


def frequency(context: Context, *, setting: list[str], methods: list[str]) -> str:
    """Figs. 6, 10, 11: how often each client is chosen, most often first, mean over seeds."""
    import altair as alt

    panels = []
    for one in setting:
        values = []
        for method in methods:
            counts = [np.sort(run.clients()["selected"])[::-1] for run in context.done(setting=one, methods=[method])]
            if counts:
                rows = enumerate(np.mean(counts, axis=0).tolist())
                values += [{"rank": k + 1, "times": round(n, 2), "method": method} for k, n in rows]
        if values:
            panels.append(_steps(alt, one, values, methods))
    if not panels:
        return ""
    picture = context.save("frequency", alt.concat(*panels, columns=3, spacing=20))
    return f"### How often each client is chosen, most often first\n\n{picture}"


def _steps(alt: Any, title: str, values: list[dict[str, Any]], order: list[str]) -> Any:
    return (
        alt.Chart(alt.InlineData(values=values), title=title)
        .mark_line(interpolate="step")
        .encode(
            x=alt.X("rank:Q", title="clients"),
            y=alt.Y("times:Q", title="times chosen"),
            color=alt.Color("method:N", sort=order, scale=alt.Scale(domain=order), title=None),
        )
        .properties(width=240, height=180)
    )

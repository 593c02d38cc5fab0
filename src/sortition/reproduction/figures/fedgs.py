"""FedGS's figures of runs: sampling counts (Fig. 4), who holds what (Fig. 7), and Table 4, the best over α."""

from __future__ import annotations

import numpy as np

from sortition.data.charts import partition_chart
from sortition.data.describe import describe
from sortition.reproduction.context import Context
from sortition.results.metrics import best
from sortition.results.run_folder import Run
from sortition.results.table import Table
from sortition.studies.config import Data, validated
from sortition.studies.federation import split


def counts(context: Context, *, setting: str, methods: list[str] | None = None) -> str:
    """How often each client was sampled, a panel a method, clients in order of their count (first seed)."""
    import altair as alt

    shown = context.done(setting=setting, methods=methods)
    first = {run.method: run for run in reversed(shown)}
    panels = []
    for method in dict.fromkeys(run.method for run in shown):
        selected = np.sort(first[method].clients()["selected"])
        values = [{"client": at, "times": int(times)} for at, times in enumerate(selected)]
        panels.append(
            alt.Chart(alt.InlineData(values=values), title=f"{method}, {setting}")
            .mark_bar(size=max(1.0, 0.8 * 200 / selected.size))
            .encode(
                x=alt.X("client:Q", title="clients, least sampled first", axis=alt.Axis(grid=False)),
                y=alt.Y("times:Q", title="times sampled"),
            )
            .properties(width=200, height=120)
        )
    return context.save(f"counts-{setting}", alt.concat(*panels, columns=3)) if panels else ""


def partition(context: Context) -> str:
    """Each client's examples by label, of the first seed that was run."""
    runs = context.done()
    if not runs:
        return ""
    parts = split(validated(Data, runs[0].config["data"], "data"), runs[0].seed)
    described = describe(parts.train, parts.dataset.y_train, parts.dataset.classes)
    return context.save("partition", partition_chart(described, f"{parts.dataset.name}, {parts.clients} clients"))


def best_over_alpha(context: Context, *, paper: dict[str, dict[str, float]]) -> str:
    """Table 4: of methods labelled ``graph-α`` the smallest mean best test loss over α, a row a graph."""
    runs = context.done()
    settings = list(dict.fromkeys(run.setting for run in runs)) or list(paper)
    graphs = list(dict.fromkeys(graph for cells in paper.values() for graph in cells))
    table = Table(
        "Best test loss, best over α",
        ["graph", *[f"{setting}, {whose}" for setting in settings for whose in ("paper", "ours")]],
    )
    for graph in graphs:
        row = [graph]
        for setting in settings:
            published = paper.get(setting, {}).get(graph)
            row += ["" if published is None else f"{published:.3f}", _least(runs, setting, graph)]
        table.rows.append(row)
    table.notes.append("In brackets: the α that was best. Differences in the third decimal are within those of seeds.")
    return table.markdown()


def _least(runs: list[Run], setting: str, graph: str) -> str:
    losses: dict[str, list[float]] = {}
    for run in runs:
        name, _, alpha = run.method.rpartition("-")
        found = best(run, of="loss")
        if run.setting == setting and name == graph and found is not None:
            losses.setdefault(alpha, []).append(found)
    if not losses:
        return ""
    alpha = min(losses, key=lambda one: float(np.mean(losses[one])))
    return f"{np.mean(losses[alpha]):.3f} [{alpha}]"

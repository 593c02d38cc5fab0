"""FedGS's figures of runs: sampling counts (Fig. 4), who holds what (Fig. 7), and Table 4, the best over α."""

from __future__ import annotations

import numpy as np

from sortition.data.charts import partition_chart
from sortition.data.describe import describe
from sortition.reproduction.context import Context
from sortition.results.metrics import best
from sortition.results.run_folder import Run
from sortition.results.table import Table
from sortition.studies.build_federation import split_data
from sortition.studies.config import Data, validated


def counts(context: Context, *, setting: str, methods: list[str] | None = None) -> str:
    """Draw how often each client was sampled, a panel per method, clients in order of their count (first seed)."""
    import altair as alt

    runs = context.finished_runs(setting=setting, methods=methods)
    first_run = {run.method: run for run in reversed(runs)}
    panels = []
    for method in dict.fromkeys(run.method for run in runs):
        selected = np.sort(first_run[method].clients()["selected"])
        values = [{"client": position, "times": int(times)} for position, times in enumerate(selected)]
        panels.append(
            alt.Chart(alt.InlineData(values=values), title=f"{method}, {setting}")
            .mark_bar(size=max(1.0, 0.8 * 200 / selected.size))
            .encode(
                x=alt.X("client:Q", title="clients, least sampled first", axis=alt.Axis(grid=False)),
                y=alt.Y("times:Q", title="times sampled"),
            )
            .properties(width=200, height=120)
        )
    if not panels:
        return ""
    return context.save(f"counts-{setting}", alt.concat(*panels, columns=3))


def partition(context: Context) -> str:
    """Draw each client's examples by label, of the first seed that was run."""
    runs = context.finished_runs()
    if not runs:
        return ""
    parts = split_data(validated(Data, runs[0].config["data"], "data"), runs[0].seed)
    described = describe(parts.train, parts.dataset.y_train, parts.dataset.classes)
    return context.save("partition", partition_chart(described, f"{parts.dataset.name}, {parts.clients} clients"))


def best_over_alpha(context: Context, *, paper: dict[str, dict[str, float]]) -> str:
    """Make Table 4: of methods labelled ``graph-α`` the smallest mean best test loss over α, a row per graph."""
    runs = context.finished_runs()
    settings = list(dict.fromkeys(run.setting for run in runs)) or list(paper)
    graphs = dict.fromkeys(graph for cells in paper.values() for graph in cells)
    columns = ["graph"]
    for setting in settings:
        columns += [f"{setting}, paper", f"{setting}, ours"]
    table = Table("Best test loss, best over α", columns)
    for graph in graphs:
        row = [graph]
        for setting in settings:
            published = paper.get(setting, {}).get(graph)
            row.append("" if published is None else f"{published:.3f}")
            row.append(_least_loss_text(runs, setting, graph))
        table.rows.append(row)
    table.notes.append("In brackets: the α that was best. Differences in the third decimal are within those of seeds.")
    return table.markdown()


def _least_loss_text(runs: list[Run], setting: str, graph: str) -> str:
    """Write the smallest mean best loss over α, and that α; empty where nothing was run."""
    losses_by_alpha: dict[str, list[float]] = {}
    for run in runs:
        name, _, alpha = run.method.rpartition("-")
        loss = best(run, of="loss")
        if run.setting == setting and name == graph and loss is not None:
            losses_by_alpha.setdefault(alpha, []).append(loss)
    if not losses_by_alpha:
        return ""
    means = {alpha: float(np.mean(losses)) for alpha, losses in losses_by_alpha.items()}
    best_alpha = min(means, key=lambda alpha: means[alpha])
    return f"{means[best_alpha]:.3f} [{best_alpha}]"

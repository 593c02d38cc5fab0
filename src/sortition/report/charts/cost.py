"""What it cost: traffic by kind."""

from __future__ import annotations

import altair as alt

from sortition.report.charts import WIDTH, Chart, on
from sortition.report.gather import Setting

KINDS = {
    "model_down": "model down",
    "model_up": "model up",
    "questions_down": "questions down",
    "questions_up": "answers up",
    "rehearsals_down": "rehearsals down",
    "rehearsals_up": "rehearsals up",
    "wasted_up": "wasted up",
    "metadata": "metadata",
}
COLOURS = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73", "#7FC9B0", "#CC79A7", "#999999")


def figures(setting: Setting) -> list[Chart]:
    """Bytes by kind, per method, mean over seeds."""
    rows = []
    for label, runs in setting.methods.items():
        for at, (kind, words) in enumerate(KINDS.items()):
            megabytes = sum(run.bytes.get(kind, 0.0) for run in runs) / len(runs) / 1e6
            if megabytes > 0:
                rows.append({"method": label, "kind": words, "order": at, "MB": round(megabytes, 3)})
    if not rows:
        return []
    chart = (
        on("traffic")
        .mark_bar()
        .encode(
            x=alt.X("MB:Q", title="MB, up and down, all clients, all rounds"),
            y=alt.Y("method:N", sort=list(setting.methods), title=None, axis=alt.Axis(labelLimit=200)),
            color=alt.Color("kind:N", scale=alt.Scale(domain=list(KINDS.values()), range=list(COLOURS)), title=None),
            order="order:Q",
            tooltip=["method:N", "kind:N", "MB:Q"],
        )
        .properties(width=WIDTH, height=alt.Step(24))
    )
    caption = "Mean over seeds; questions and rehearsals are counted."
    return [Chart("traffic", "Traffic by kind", caption, chart, {"traffic": rows})]

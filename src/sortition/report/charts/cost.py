"""What it cost: accuracy against each kind of cost, and traffic by kind."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import altair as alt

from sortition.report.charts import GAP, Chart, Rows, amounts, filling, on
from sortition.report.charts.learning import colour, end_labels
from sortition.report.digest import Digest
from sortition.report.gather import Setting
from sortition.report.palette import Palette
from sortition.report.tables import passes
from sortition.results.reference_lines import REFERENCES

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
COLOURS = ("#3f5f7f", "#8fb0cc", "#7f4f3f", "#cc9f8f", "#4f6f4f", "#a5c4a0", "#806080", "#b5b5b5")
COSTS: dict[str, tuple[str, Callable[[list[Digest]], float | None]]] = {
    "megabytes": ("traffic, MB", lambda runs: _mean([sum(run.bytes.values()) / 1e6 for run in runs if run.done])),
    "passes": ("client passes, examples", lambda runs: passes(runs)),
    "clock": ("simulated time, s", lambda runs: _mean([float(run.clock[-1]) for run in runs if run.done])),
}
HEIGHT = 260
ALIKE = 0.01  # costs that differ by a smaller share are the same: a chart of them would magnify nothing
NAME: dict[str, Any] = {  # of a method, beside its point
    "align": alt.ExprRef("datum.left ? 'right' : 'left'"),
    "dx": alt.ExprRef("datum.left ? -7 : 7"),
    "dy": -9,  # above the dashed line, which leaves a point sideways
    "limit": alt.ExprRef("(datum.left ? scale('x', datum.cost) : width - scale('x', datum.cost)) - 10"),
    "fontSize": 11,
}


def figures(setting: Setting, palette: Palette) -> list[Chart | str]:
    """Accuracy against cost three times, and bytes by kind; a sentence where methods cost the same."""
    return [*pareto(setting, palette), *traffic(setting)]


def pareto(setting: Setting, palette: Palette) -> list[Chart | str]:
    """Which methods nobody beats in value and cost; one chart for each cost that is known and differs."""
    made: list[Chart | str] = []
    for name, (title, cost) in COSTS.items():
        rows: list[dict[str, Any]] = [
            {"method": label, "cost": paid, "value": value}
            for label, runs in setting.methods.items()
            if (paid := cost(runs)) and math.isfinite(value := _value(setting, label))
        ]
        least, most = min((row["cost"] for row in rows), default=0), max((row["cost"] for row in rows), default=0)
        if len(rows) > 1 and most - least < ALIKE * most:
            what, _, unit = title.partition(", ")
            made.append(f"All methods cost the same {what}: {least:,.3g} {unit}, to within {100 * ALIKE:g} %.")
        elif len(rows) > 1:
            shown = [
                {**row, "cost": float(f"{row['cost']:.5g}"), "value": round(float(row["value"]), 5)} for row in rows
            ]
            made.append(_pareto(name, title, shown, setting, palette))
    return made


def _value(setting: Setting, label: str) -> float:
    """The figure that methods are judged by; NaN where it is unknown."""
    found = setting.mean(label, f"last-{setting.metric}")
    return math.nan if found is None else found


def _pareto(name: str, title: str, rows: list[dict[str, Any]], setting: Setting, palette: Palette) -> Chart:
    of, table = setting.metric, f"pareto_{name}"
    least, most = min(row["cost"] for row in rows), max(row["cost"] for row in rows)
    room = [least - 0.08 * (most - least or least), most + 0.08 * (most - least or least)]
    middle = sum(room) / 2
    x = alt.X("cost:Q", title=title, scale=alt.Scale(domain=room, nice=False), axis=amounts(tickCount=5))
    y = alt.Y("value:Q", title=f"last-10 {of}", scale=alt.Scale(zero=False, padding=18))
    points = (
        on(table)
        .mark_circle(size=90, opacity=1)
        .encode(x=x, y=y, color=colour(palette, None), tooltip=["method:N", "cost:Q", "value:Q"])
    )
    names = on(f"{table}_names").encode(x="cost:Q", y="label:Q", text="method:N")
    gaps = names.mark_text(**NAME, style=GAP, strokeWidth=5)  # where the dashed line would cross a name
    names = names.mark_text(**NAME).encode(color=colour(palette, None))
    front = (
        on(f"{table}_front")
        .mark_line(interpolate="step-after", strokeDash=[4, 3], opacity=0.6)
        .encode(x="cost:Q", y="value:Q")
    )
    costs = {row["method"]: row["cost"] for row in rows}
    labels = [
        {**label, "cost": (paid := costs[label["method"]]), "left": paid > middle}  # towards the middle: there is room
        for label in end_labels(rows, "value", HEIGHT - 50)
    ]
    tables: dict[str, Rows] = {
        table: rows,
        f"{table}_names": labels,
        f"{table}_front": best_for_less([row for row in rows if row["method"] not in REFERENCES], setting.higher),
    }
    caption = "The dashed line joins the methods that nobody beats in both."
    return Chart(
        table.replace("_", "-"),
        f"{of.capitalize()} against {title.split(',')[0]}",
        caption,
        filling(front + gaps + points + names, HEIGHT),
        tables,
        2,
    )


def best_for_less(rows: list[dict[str, Any]], higher: bool) -> list[dict[str, Any]]:
    """The rows that no other beats in cost and value, the cheapest first."""
    sign = 1 if higher else -1
    front: list[dict[str, Any]] = []
    for row in sorted(rows, key=lambda row: (row["cost"], -sign * row["value"])):
        if not front or sign * row["value"] > sign * front[-1]["value"]:
            front.append(row)
    return front


def traffic(setting: Setting) -> list[Chart]:
    """Bytes by kind, per method, mean over seeds."""
    rows = []
    for label, begun in setting.methods.items():
        runs = [run for run in begun if run.done]
        for at, (kind, words) in enumerate(KINDS.items()):
            megabytes = (_mean([run.bytes.get(kind, 0.0) for run in runs]) or 0.0) / 1e6
            if megabytes > 0:
                rows.append({"method": label, "kind": words, "order": at, "MB": round(megabytes, 3)})
    if not rows:
        return []
    shown = [words for words in KINDS.values() if any(row["kind"] == words for row in rows)]
    colours = [COLOURS[list(KINDS.values()).index(words)] for words in shown]
    chart = (
        on("traffic")
        .mark_bar()
        .encode(
            x=alt.X("MB:Q", title="MB, up and down, all clients, all rounds"),
            y=alt.Y("method:N", sort=list(setting.methods), title=None, axis=alt.Axis(labelLimit=200)),
            color=alt.Color("kind:N", scale=alt.Scale(domain=shown, range=colours), title=None),
            order="order:Q",
            tooltip=["method:N", "kind:N", "MB:Q"],
        )
    )
    caption = "Mean over the seeds that are finished; questions and rehearsals are counted."
    return [Chart("traffic", "Traffic by kind", caption, filling(chart, 24 * len(setting.methods)), {"traffic": rows})]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None

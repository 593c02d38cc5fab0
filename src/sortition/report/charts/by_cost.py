"""What it cost: accuracy against each kind of cost, and traffic by kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from sortition.report.charts import GAP, Chart, Row, Rows, chart_on, cost_axis, fill_width
from sortition.report.charts.learning import end_labels, method_colour
from sortition.report.gather import Setting
from sortition.report.look import Look
from sortition.results.reference_lines import REFERENCES
from sortition.results.statistics import centre
from sortition.results.verdict_words import figure_title

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
COLOURS = {
    "model_down": "#3f5f7f",
    "model_up": "#8fb0cc",
    "questions_down": "#7f4f3f",
    "questions_up": "#cc9f8f",
    "rehearsals_down": "#4f6f4f",
    "rehearsals_up": "#a5c4a0",
    "wasted_up": "#806080",
    "metadata": "#b5b5b5",
}
HEIGHT = 260
SAME_COST_SHARE = 0.01  # costs that differ by a smaller share are the same: a chart of them would magnify nothing
NAME_STYLE: dict[str, Any] = {  # of a method, beside its point
    "align": alt.ExprRef("datum.left ? 'right' : 'left'"),
    "dx": alt.ExprRef("datum.left ? -7 : 7"),
    "dy": -9,  # above the dashed line, which leaves a point sideways
    "limit": alt.ExprRef("(datum.left ? scale('x', datum.cost) : width - scale('x', datum.cost)) - 10"),
    "fontSize": 11,
}


@dataclass(frozen=True)
class Cost:
    """A kind of cost.

    Attributes:
        name: the name of its chart.
        words: what is paid.
        unit: the unit in which it is counted.
        paid: gives the mean over the finished seeds of a method; None where it is not known.
    """

    name: str
    words: str
    unit: str
    paid: Callable[[Setting, str], float | None]


COSTS = (
    Cost("megabytes", "traffic", "MB", lambda setting, label: setting.mean(label, "megabytes")),
    Cost("passes", "client passes", "examples", lambda setting, label: setting.mean(label, "passes")),
    Cost("clock", "simulated time", "s", lambda setting, label: setting.mean(label, "seconds")),
)


def draw_charts(setting: Setting, look: Look) -> list[Chart | str]:
    """Draw accuracy against each cost, and bytes by kind; a sentence replaces a chart where methods cost the same."""
    return [*draw_pareto_charts(setting, look), *draw_traffic(setting)]


def draw_pareto_charts(setting: Setting, look: Look) -> list[Chart | str]:
    """Draw accuracy against each cost that is known and differs; a sentence names the costs that do not differ."""
    charts: list[Chart | str] = []
    for cost in COSTS:
        rows = _cost_and_value_rows(setting, cost)
        if len(rows) < 2:
            continue
        costs = [row["cost"] for row in rows]
        lowest_cost = min(costs)
        highest_cost = max(costs)
        if highest_cost - lowest_cost < SAME_COST_SHARE * highest_cost:
            amount = float(f"{lowest_cost:.3g}")  # three digits, and no power of ten beside them
            percent = 100 * SAME_COST_SHARE
            charts.append(
                f"All methods cost the same {cost.words}: {amount:,.10g} {cost.unit}, to within {percent:g} %."
            )
        else:
            charts.append(_draw_pareto_chart(cost, rows, setting, look))
    return charts


def _cost_and_value_rows(setting: Setting, cost: Cost) -> list[Row]:
    """Return cost and value of each method that has both."""
    rows: list[Row] = []
    for label in setting.methods:
        paid = cost.paid(setting, label)
        value = setting.mean(label, f"last-{setting.metric}")
        if paid and value is not None and math.isfinite(value):
            rows.append({"method": label, "cost": float(f"{paid:.5g}"), "value": round(value, 5)})
    return rows


def _draw_pareto_chart(cost: Cost, rows: Rows, setting: Setting, look: Look) -> Chart:
    """Draw each method as a point at its cost and value, and a dashed line through those that none beats in both."""
    metric = setting.metric
    height = look.height(HEIGHT)
    table = f"pareto_{cost.name}"
    costs = {row["method"]: row["cost"] for row in rows}
    lowest_cost = min(costs.values())
    highest_cost = max(costs.values())
    room = 0.08 * (highest_cost - lowest_cost or lowest_cost)
    middle = (lowest_cost + highest_cost) / 2
    x = alt.X(
        "cost:Q",
        title=f"{cost.words}, {cost.unit}",
        scale=alt.Scale(domain=[lowest_cost - room, highest_cost + room], nice=False),
        axis=cost_axis(tickCount=5),
    )
    last = figure_title("last", setting.comparison.window)
    y = alt.Y("value:Q", title=f"{metric}, {last}", scale=alt.Scale(zero=False, padding=18))
    points = (
        chart_on(table)
        .mark_circle(size=90, opacity=1)
        .encode(x=x, y=y, color=method_colour(look.palette, None), tooltip=["method:N", "cost:Q", "value:Q"])
    )
    names = chart_on(f"{table}_names").encode(x="cost:Q", y="label:Q", text="method:N")
    gaps = names.mark_text(**NAME_STYLE, style=GAP, strokeWidth=5)  # where the dashed line would cross a name
    names = names.mark_text(**NAME_STYLE).encode(color=method_colour(look.palette, None))
    front = (
        chart_on(f"{table}_front")
        .mark_line(interpolate="step-after", strokeDash=[4, 3], opacity=0.6)
        .encode(x="cost:Q", y="value:Q")
    )
    labels = []
    for label in end_labels(rows, "value", height - 50):
        paid = costs[label["method"]]
        labels.append({**label, "cost": paid, "left": paid > middle})  # towards the middle: there is room
    compared = [row for row in rows if row["method"] not in REFERENCES]
    return Chart(
        name=f"pareto-{cost.name}",
        title=f"{metric.capitalize()} against {cost.words}",
        caption="The dashed line joins the methods that no other method beats in both value and cost.",
        drawing=fill_width(front + gaps + points + names, height),
        tables={
            table: rows,
            f"{table}_names": labels,
            f"{table}_front": pareto_front(compared, setting.higher_is_better),
        },
        span=2,
    )


def pareto_front(rows: Rows, higher: bool) -> list[Row]:
    """Return the rows that no other beats in cost and value, the cheapest first."""
    sign = 1 if higher else -1
    front: list[Row] = []
    for row in sorted(rows, key=lambda row: (row["cost"], -sign * row["value"])):
        if not front or sign * row["value"] > sign * front[-1]["value"]:
            front.append(row)
    return front


def draw_traffic(setting: Setting) -> list[Chart]:
    """Draw bytes by kind, per method, mean over the finished seeds."""
    rows = []
    for label, runs in setting.methods.items():
        finished = [run for run in runs if run.done]
        for order, (kind, words) in enumerate(KINDS.items()):
            megabytes = _mean_or_zero([run.bytes.get(kind, 0.0) / 1e6 for run in finished])
            if megabytes > 0:
                rows.append({"method": label, "kind": words, "order": order, "MB": round(megabytes, 3)})
    if not rows:
        return []
    drawn_words = {row["kind"] for row in rows}
    drawn_kinds = [kind for kind, words in KINDS.items() if words in drawn_words]
    kind_scale = alt.Scale(
        domain=[KINDS[kind] for kind in drawn_kinds],
        range=[COLOURS[kind] for kind in drawn_kinds],
    )
    chart = (
        chart_on("traffic")
        .mark_bar()
        .encode(
            x=alt.X("MB:Q", title="MB, up and down, all clients, all rounds"),
            y=alt.Y("method:N", sort=list(setting.methods), title=None, axis=alt.Axis(labelLimit=200)),
            color=alt.Color("kind:N", scale=kind_scale, title=None),
            order="order:Q",
            tooltip=["method:N", "kind:N", "MB:Q"],
        )
    )
    return [
        Chart(
            name="traffic",
            title="Traffic by kind",
            caption="Mean over the seeds that are finished; questions and rehearsals are counted.",
            drawing=fill_width(chart, 24 * len(setting.methods)),
            tables={"traffic": rows},
        )
    ]


def _mean_or_zero(values: Sequence[float]) -> float:
    """Return the mean of the values that are known; 0 where none is."""
    middle = centre(values)
    if middle is None:
        return 0.0
    return middle.mean

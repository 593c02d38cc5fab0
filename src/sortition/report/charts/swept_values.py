"""What a parameter does: the metric against each swept value, of the study or of a method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import altair as alt

from sortition.report.charts import Chart, Row, chart_on, fill_width, with_title_lines
from sortition.report.charts.learning import draw_lines, end_labels, method_colour
from sortition.report.gather import Gathered, Setting
from sortition.report.look import Look
from sortition.report.palette import Palette
from sortition.results.sweeps import find_swept_values, value_text, variants

HEIGHT = 260
WIDE = 20  # the largest over the smallest value, from which on an axis is logarithmic


def draw_charts(gathered: Gathered, look: Look) -> list[Chart]:
    """Draw a chart for each number that differs between settings."""
    if len(gathered.settings) < 2:
        return []
    values_by_setting = find_swept_values({setting.name: setting.first.config for setting in gathered.settings})
    charts = []
    for key in _numeric_keys(values_by_setting):
        rows = []
        for setting in sorted(gathered.settings, key=lambda setting: float(values_by_setting[setting.name][key])):
            values = values_by_setting[setting.name]
            rows += [_swept_row(setting, label, values, key, line=label) for label in setting.methods]
        axis_title = _metric_axis_title(gathered.settings[0])
        charts.append(_draw_parameter(name=key, parameter=key, title=key, rows=rows, y_title=axis_title, look=look))
    return charts


def draw_tuning_charts(setting: Setting, look: Look) -> list[Chart]:
    """Draw a chart for each method that a study has with several values of a parameter."""
    charts = []
    variants_by_method = variants({label: runs[0].config for label, runs in setting.methods.items()})
    for method, values_by_label in variants_by_method.items():
        for key in _numeric_keys(values_by_label):
            labels = sorted(values_by_label, key=lambda label: float(values_by_label[label][key]))
            rows = [_swept_row(setting, label, values_by_label[label], key, line=method) for label in labels]
            charts.append(
                _draw_parameter(
                    name=f"{method}-{key}",
                    parameter=key,
                    title=f"{method}: {key}",
                    rows=rows,
                    y_title=_metric_axis_title(setting),
                    look=replace(look, palette=Palette([method], {method: method})),
                )
            )
    return charts


def _metric_axis_title(setting: Setting) -> str:
    """Return the metric and where on its curve it is taken."""
    return f"{setting.metric}, {setting.end_title}"


def _swept_row(setting: Setting, label: str, values: Mapping[str, Any], key: str, *, line: str) -> Row:
    """Return the point of a method at one value: mean ± sd over seeds, and the other swept values as a text."""
    row: Row = {"value": float(values[key]), "rest": _other_values_text(values, key), "method": line}
    middle = setting.centre(label, setting.end_figure)
    if middle is None:
        return {**row, "mean": None, "low": None, "high": None}
    sd = middle.sd if middle.n_known > 1 else 0.0
    return {
        **row,
        "mean": round(middle.mean, 5),
        "low": round(middle.mean - sd, 5),
        "high": round(middle.mean + sd, 5),
    }


def _draw_parameter(*, name: str, parameter: str, title: str, rows: list[Row], y_title: str, look: Look) -> Chart:
    """Draw the rows of one parameter; the reader chooses the other swept values where they differ."""
    table = "".join(letter if letter.isalnum() else "_" for letter in f"sweep_{name}")
    other_values = list(dict.fromkeys(row["rest"] for row in rows))
    x = _value_axis(parameter, sorted({row["value"] for row in rows}))
    y = alt.Y("mean:Q", title=y_title, scale=alt.Scale(zero=False))

    def prepare(chart: alt.Chart) -> alt.Chart:
        if len(other_values) == 1:
            return chart
        return chart.transform_filter(f"datum.rest == {table}_rest")

    tooltip: list[str | alt.Tooltip] = ["method:N", "value:Q", "mean:Q", "low:Q", "high:Q"]
    curves = draw_lines(table, look, x=x, y=y, tooltip=tooltip, prepare=prepare)
    spread = (
        prepare(chart_on(table))
        .mark_rule(opacity=0.6)
        .encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=method_colour(look.palette, look.line_legend))
    )
    points = (
        prepare(chart_on(table))
        .mark_circle(size=50, opacity=1)
        .encode(x=x, y=y, color=method_colour(look.palette, look.line_legend))
    )
    layers = alt.layer(spread, curves, points)
    if len(other_values) > 1:
        choice = alt.param(
            name=f"{table}_rest",
            value=other_values[0],
            bind=alt.binding_select(options=other_values, name="with "),
        )
        drawing = with_title_lines(
            fill_width(layers.add_params(choice), look.height(HEIGHT)), alt.ExprRef(f"'with ' + {table}_rest")
        )
    else:
        drawing = fill_width(layers, look.height(HEIGHT))
    return Chart(
        name=f"sweep-{name}",
        title=f"What {title} does",
        caption="Mean over seeds ± standard deviation.",
        reading=f"With {other_values[0]}." if len(other_values) > 1 else "",
        drawing=drawing,
        tables={table: rows, f"{table}_names": end_labels(rows, "mean", look.height(HEIGHT), by="rest")},
        span=3,
    )


def _value_axis(parameter: str, values: list[float]) -> alt.X:
    """Return the axis of a parameter's values; logarithmic where they are positive and far apart."""
    if values[0] > 0 and values[-1] / values[0] >= WIDE:
        scale = alt.Scale(type="log", nice=False)
    else:
        scale = alt.Scale(nice=False, zero=False)
    axis = alt.Axis(values=values, format="~r", labelOverlap=True)
    return alt.X("value:Q", title=parameter, scale=scale, axis=axis)


def _other_values_text(values: Mapping[str, Any], key: str) -> str:
    """Write the swept values beside the one under ``key``."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in values.items() if name != key)


def _numeric_keys(tables: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the keys whose values are numbers in every table."""
    first = next(iter(tables.values()), {})
    return [key for key in first if _are_numbers(table.get(key) for table in tables.values())]


def _are_numbers(values: Iterable[object]) -> bool:
    """Tell whether all values are numbers; truth values are not."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)

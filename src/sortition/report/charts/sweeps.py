"""What a parameter does: the metric against each swept value, of the study or of a method."""

from __future__ import annotations

from typing import Any

import altair as alt

from sortition.report.charts import Chart, Rows, filling, headed, on
from sortition.report.charts.learning import colour, end_labels, lines
from sortition.report.gather import Gathered, Setting
from sortition.report.palette import Palette
from sortition.results.statistics import centre
from sortition.results.sweeps import swept, value_text, variants

HEIGHT = 260


def figures(gathered: Gathered, palette: Palette) -> list[Chart]:
    """A chart for each number that differs between settings."""
    values = swept({setting.name: setting.first.config for setting in gathered.settings})
    keys = [key for key in next(iter(values.values()), {}) if _numeric([found[key] for found in values.values()])]
    return [_across_settings(key, values, gathered, palette) for key in keys if len(gathered.settings) > 1]


def _across_settings(key: str, values: dict[str, dict[str, Any]], gathered: Gathered, palette: Palette) -> Chart:
    rows = [
        {"value": float(values[s.name][key]), "rest": _rest(values[s.name], key), "method": label, **_spread(s, label)}
        for s in sorted(gathered.settings, key=lambda s: float(values[s.name][key]))
        for label in s.methods
    ]
    return _chart(key, key, rows, gathered.settings[0].metric, palette)


def tuning(setting: Setting, palette: Palette) -> list[Chart]:
    """A chart for each method that a study has with several values of a parameter."""
    found = variants({label: runs[0].config for label, runs in setting.methods.items()})
    made = []
    for name, labels in found.items():
        keys = [key for key in next(iter(labels.values())) if _numeric([table.get(key) for table in labels.values()])]
        for key in keys:
            rows = [
                {"value": float(table[key]), "rest": _rest(table, key), "method": name, **_spread(setting, label)}
                for label, table in sorted(labels.items(), key=lambda item: float(item[1][key]))
            ]
            own = Palette([name], {name: name})
            made.append(_chart(f"{name}-{key}", f"{name}: {key}", rows, setting.metric, own))
    return made


def _chart(name: str, title: str, rows: list[dict[str, Any]], of: str, palette: Palette) -> Chart:
    table = "".join(letter if letter.isalnum() else "_" for letter in f"sweep_{name}")
    rests = list(dict.fromkeys(row["rest"] for row in rows))
    values = sorted({row["value"] for row in rows})
    wide = values[0] > 0 and values[-1] / values[0] >= 20
    scale = alt.Scale(type="log", nice=False) if wide else alt.Scale(nice=False, zero=False)
    x = alt.X(
        "value:Q",
        title=title.split(": ")[-1],
        scale=scale,
        axis=alt.Axis(values=values, format="~r", labelOverlap=True),
    )
    y = alt.Y("mean:Q", title=f"last-10 {of}", scale=alt.Scale(zero=False))
    picked = alt.param(name=f"{table}_rest", value=rests[0], bind=alt.binding_select(options=rests, name="with "))

    def prepare(chart: alt.Chart) -> alt.Chart:
        return chart.transform_filter(f"datum.rest == {table}_rest") if len(rests) > 1 else chart

    drawn = lines(table, palette, x, y, ["method:N", "value:Q", "mean:Q", "low:Q", "high:Q"], prepare=prepare)
    spread = (
        prepare(on(table))
        .mark_rule(opacity=0.6)
        .encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour(palette, None))
    )
    points = prepare(on(table)).mark_circle(size=50, opacity=1).encode(x=x, y=y, color=colour(palette, None))
    layered = alt.layer(spread, drawn, points)
    drawing = filling(layered, HEIGHT)
    if len(rests) > 1:
        drawing = headed(filling(layered.add_params(picked), HEIGHT), alt.ExprRef(f"'with ' + {table}_rest"))
    tables: dict[str, Rows] = {table: rows, f"{table}_names": end_labels(rows, "mean", HEIGHT, by="rest")}
    return Chart(
        f"sweep-{name}",
        f"What {title} does",
        "Mean over seeds ± standard deviation.",
        drawing,
        tables,
        3,
    )


def _spread(setting: Setting, label: str) -> dict[str, float | None]:
    found = centre([run.figures.get(f"last-{setting.metric}") for run in setting.methods[label]])
    if found is None:
        return {"mean": None, "low": None, "high": None}
    sd = found.sd if found.known > 1 else 0.0
    return {name: round(found.mean + sign * sd, 5) for name, sign in (("mean", 0), ("low", -1), ("high", 1))}


def _rest(table: dict[str, Any], key: str) -> str:
    return ", ".join(f"{other}={value_text(value)}" for other, value in table.items() if other != key)


def _numeric(values: list[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)

"""How the model learnt: curves over rounds, seconds, traffic or computing, and their difference from the baseline."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from sortition.core.arrays import Array, Floats
from sortition.core.cost import CURRENCIES, Currency
from sortition.core.errors import bad
from sortition.report.charts import (
    Chart,
    Row,
    Rows,
    chart_on,
    cost_axis,
    fill_width,
    signed_axis,
    spread_out,
    with_title_lines,
)
from sortition.report.digest import Digest
from sortition.report.gather import Setting, evenly_spread_positions
from sortition.report.look import LONGEST_NAME, Look
from sortition.report.palette import Palette
from sortition.results.metrics import smoothed
from sortition.results.statistics import FEWEST_SEEDS, half_width
from sortition.results.task_metric import tested_metrics
from sortition.results.verdict_words import unit_of

SMOOTHINGS = (1, 5, 20)  # rounds that a running mean averages, to choose from
POINTS = 160  # of a curve over rounds on the page
COST_POINTS = 80  # of a curve over another cost
AXES: dict[Currency, str] = {
    "rounds": "rounds",
    "seconds": "simulated seconds",
    "megabytes": "traffic, MB",
    "passes": "client passes",
}
AXIS = "axis"  # the parameter of every chart of curves that the page's one switch sets
RANGES = {  # what a metric can be, where that is bounded: intervals are cut there
    "accuracy": (0.0, 1.0),
    "f1": (0.0, 1.0),
    "r2": (-np.inf, 1.0),
    **dict.fromkeys(("loss", "mse", "mae", "rmse"), (0.0, np.inf)),
}
HEIGHT = 320
DIFFERENCE_HEIGHT = 260
AXIS_TITLE = 32  # pixels from a chart of curves to the title of its axis
LABEL_HEIGHT = 15  # of a name beside the end of a line
RUNNING_MEAN = "A point of a running mean is the mean of the rounds up to it, so the curve begins late."
NO_BANDS = "Bands need three seeds."
SINGLE_PLACES = "The bands hold at each point of the axis, and are not corrected for their number."
AT_COST = "At a cost other than rounds a curve shows the last evaluation up to it, as far as every run has spent."
HINT = "Point at a line to single it out; choose how many rounds to average, and at the top of the page the axis."


@dataclass(frozen=True)
class CostAxis:
    """What curves are drawn against.

    Attributes:
        currency: what it counts.
        grid: (G,) where on it the curves are shown; a mean over seeds needs the same places of all.
    """

    currency: Currency
    grid: Floats


def cost_axes(setting: Setting) -> list[CostAxis]:
    """Return the axes that a page can switch between: rounds, and every other cost that all runs have.

    A cost goes as far as every finished run has spent, so that no curve ends before another; rounds do so, too, where
    runs end by another cost.
    """
    rounds = _shown_rounds(setting)
    common_rounds = setting.budget_in("rounds")
    if common_rounds is not None and setting.first.config.get("until"):
        rounds = rounds[rounds <= common_rounds.amount]
    axes = [CostAxis("rounds", rounds.astype(np.float64))]
    for currency in CURRENCIES[1:]:
        budget = setting.budget_in(currency)
        if budget is not None and budget.covers_every_run:
            axes.append(CostAxis(currency, np.linspace(budget.start, budget.amount, COST_POINTS)))
    return axes


def mean_curves(setting: Setting, metric: str) -> pl.DataFrame:
    """Return the mean over seeds and its 95 % interval (t), per method, axis, place on it and smoothing."""
    axes = cost_axes(setting)
    frames = [
        _seed_curve(run, metric, width, axis).with_columns(smoothing=pl.lit(width))
        for run in setting.runs
        for width in SMOOTHINGS
        for axis in axes
    ]
    frame = pl.concat([frame for frame in frames if frame.height])
    return clip_bands(mean_with_interval(frame, ["method", "axis", "smoothing", "x"]), metric)


def clip_bands(bands: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Return bands that end where the metric does: no accuracy is below 0 or above 1."""
    lowest, highest = RANGES.get(metric, (-np.inf, np.inf))
    return bands.with_columns(pl.col("low").clip(lowest, highest), pl.col("high").clip(lowest, highest))


def curves_at_cost(setting: Setting, metric: str, currency: Currency) -> pl.DataFrame:
    """Return the curve of each finished run along one cost: setting, method, seed, ``x`` and ``value``."""
    axis = next((axis for axis in cost_axes(setting) if axis.currency == currency), None)
    if axis is None:
        raise bad("cost", f"one that all runs of {setting.name} have spent", currency)
    runs = [run for run in setting.runs if run.done]
    return _seed_curves(runs, metric, 1, [axis]).with_columns(setting=pl.lit(setting.name))


def mean_with_interval(frame: pl.DataFrame, keys: list[str], *others: str) -> pl.DataFrame:
    """Return the mean of ``value`` over the rows of each key, its 95 % interval, and the means of other columns.

    Fewer than three rows have no interval: it is as short as the mean.
    """
    value = pl.col("value")
    frame = frame.group_by(keys, maintain_order=True).agg(
        value.mean().alias("mean"),
        value.std().fill_null(0.0).alias("sd"),
        pl.len().alias("n"),
        *[pl.col(name).mean() for name in others],
    )
    n = frame["n"].to_numpy().astype(np.int64)
    half = np.where(n < FEWEST_SEEDS, 0.0, half_width(frame["sd"].to_numpy(), n))
    mean = frame["mean"].to_numpy()
    frame = frame.with_columns(pl.Series("low", mean - half), pl.Series("high", mean + half))
    return frame.sort(keys).select(*keys, "mean", "low", "high", *others, "n")


def _shown_rounds(setting: Setting) -> Array:
    """Return the rounds that all curves show: a mean over seeds needs the same ones, though some runs are shorter."""
    evaluated = np.unique(np.concatenate([run.rounds for run in setting.runs]))
    return evaluated[evenly_spread_positions(evaluated.size, POINTS)]


def _seed_curve(run: Digest, metric: str, width: int, axis: CostAxis) -> pl.DataFrame:
    """Return the running mean of one run along an axis: at a cost it is that of the last evaluation at or before it."""
    rounds, means = smoothed(run.rounds, run.test[metric], width)
    first = run.rounds.size - rounds.size  # evaluations that have no running mean yet
    costs = run.costs[axis.currency][first:]
    places = axis.grid
    if axis.currency == "rounds" or not costs.size:  # only those that were evaluated
        places = places[np.isin(places, costs)]
    elif costs[-1] > 0:  # a reference line has no cost, and is a level
        places = places[(places >= costs[0]) & (places <= costs[-1])]
    positions = np.searchsorted(costs, places, side="right") - 1
    return pl.DataFrame({"x": places, "value": means[positions]}).with_columns(
        method=pl.lit(run.method), axis=pl.lit(axis.currency)
    )


def rounded_rows(frame: pl.DataFrame, digits: int = 4) -> list[Row]:
    """Return rows with short numbers, costs with five digits: half the page is data."""
    numbers = [name for name, kind in frame.schema.items() if kind.is_float() and name != "x"]
    frame = frame.with_columns(pl.col(name).round(digits) for name in numbers)
    if "x" in frame.columns:
        frame = frame.with_columns(pl.col("x").round_sig_figs(5))
    return frame.to_dicts()


def method_colour(palette: Palette, legend: alt.Legend | None) -> alt.Color:
    """Return the constant colour of each method."""
    return alt.Color("method:N", scale=alt.Scale(domain=palette.labels, range=palette.colours), legend=legend)


def method_dash(palette: Palette, legend: alt.Legend | None) -> alt.StrokeDash:
    """Return the constant line pattern of each method."""
    scale = alt.Scale(domain=palette.labels, range=palette.dashes)
    return alt.StrokeDash("method:N", scale=scale, legend=legend)


def draw_lines(
    table: str,
    look: Look,
    *,
    x: alt.X,
    y: alt.Y,
    tooltip: list[str | alt.Tooltip],
    band: bool = False,
    prepare: Callable[[alt.Chart], alt.Chart] = lambda chart: chart,
) -> alt.LayerChart:
    """Draw a line a method with its name beside its end, or in a legend; the one under the pointer stands out."""
    chosen = alt.selection_point(fields=["method"], on="pointerover", clear="pointerout", name=f"chosen_{table}")
    palette = look.palette
    base = prepare(chart_on(table)).encode(x=x)
    line = base.mark_line(strokeWidth=2).encode(
        y=y,
        color=method_colour(palette, look.line_legend),
        strokeDash=method_dash(palette, look.line_legend),
        opacity=alt.condition(chosen, alt.value(1.0), alt.value(0.12)),
        tooltip=tooltip,
    )
    names = (
        prepare(chart_on(f"{table}_names"))
        .mark_text(align="left", dx=6, fontSize=11, fontWeight=600, limit=LONGEST_NAME)
        .encode(
            x=alt.value("width"),
            y=alt.Y("label:Q"),
            text="method:N",
            color=method_colour(palette, None),
            opacity=alt.condition(chosen, alt.value(1.0), alt.value(0.25)),
        )
    )
    layers = [line.add_params(chosen)]
    if look.names_at_lines:
        layers.append(names)
    if band:
        shade = alt.condition(chosen, alt.value(0.16), alt.value(0.02))
        shades = method_colour(palette, look.line_legend)
        area = base.mark_area().encode(y=alt.Y("low:Q"), y2="high:Q", color=shades, opacity=shade)
        layers.insert(0, area)
    return alt.layer(*layers)


def end_labels(rows: Rows, value: str, height: int = HEIGHT, by: str = "", *, zero: bool = False) -> list[Row]:
    """Return where the name of each method stands: beside its last value, and no name upon another.

    Args:
        rows: the rows of the lines, each with its method.
        value: the column that the lines show.
        height: the height of the chart, in pixels.
        by: a column whose values are shown one at a time.
        zero: whether the axis begins there.
    """
    finite = [row for row in rows if row[value] is not None and math.isfinite(row[value])]
    labels = []
    for group in dict.fromkeys(row.get(by) for row in finite):
        inside = [row for row in finite if row.get(by) == group]
        last_rows = {row["method"]: row for row in inside}  # a later row replaces an earlier one
        low, high = _extent(inside, value, zero=zero)
        gap = (high - low or 1.0) * LABEL_HEIGHT / height
        positions = spread_out([row[value] for row in last_rows.values()], gap, low, high)
        labels += [
            {"method": method, by or "all": group, "label": round(float(position), 5)}
            for method, position in zip(last_rows, positions, strict=True)
        ]
    return labels


def _extent(rows: Rows, value: str, *, zero: bool) -> tuple[float, float]:
    """Return the lowest and the highest point of lines and bands; ``zero`` is a point of the axis as well."""
    heights = [row[key] for row in rows for key in (value, "low", "high") if row.get(key) is not None]
    if zero:
        heights.append(0.0)
    return min(heights), max(heights)


def draw_charts(setting: Setting, look: Look) -> list[Chart]:
    """Draw accuracy and loss against a chosen axis, and the difference from the baseline."""
    fewest_evaluations = min(run.rounds.size for run in setting.runs)
    if fewest_evaluations >= 2 * SMOOTHINGS[1]:
        width = SMOOTHINGS[1]
    else:
        width = 1
    charts = []
    if setting.baseline is not None and len(setting.methods) > 1:
        charts += _draw_difference(setting, setting.baseline, look, width)
    metrics = tested_metrics(setting.first.config)
    for metric in sorted(metrics, key=lambda metric: metric != setting.metric):
        rows = rounded_rows(mean_curves(setting, metric))
        charts.append(
            Chart(
                name=metric,
                title=f"Test {metric}",
                caption=_caption_text(setting, width, _band_text(rows)),
                hint=f"{_hint_text(setting)} {HINT}".lstrip(),
                reading=_reading_sentence(_line_text(width), _band_text(rows)),
                drawing=_draw_curves(setting, metric, look=look, width=width, band=_band_text(rows)),
                tables={
                    f"curves_{metric}": rows,
                    f"curves_{metric}_names": _name_rows(rows, look.height(HEIGHT), by="smoothing"),
                    "axis_title": [{"at": 0}],
                },
            )
        )
    return charts


def _name_rows(rows: Rows, height: int, by: str = "") -> list[Row]:
    """Return where the names of methods stand, for each axis."""
    labels = []
    for currency in dict.fromkeys(row["axis"] for row in rows):
        of_axis = [row for row in rows if row["axis"] == currency]
        labels += [{**label, "axis": currency} for label in end_labels(of_axis, "mean", height, by=by)]
    return labels


def _axis_parameter(setting: Setting) -> alt.Parameter:
    """Return the axis that a chart begins with: what the study counts as cost."""
    return alt.param(name=AXIS, value=setting.comparison.currency)


def _axis_title_mark(height: int) -> alt.Chart:
    """Return the title of the axis, which follows the switch."""
    titles = ", ".join(f"'{currency}': '{title}'" for currency, title in AXES.items())
    return chart_on("axis_title").mark_text(
        text=alt.ExprRef(f"{{{titles}}}[{AXIS}]"), y=height + AXIS_TITLE, x=alt.ExprRef("width / 2")
    )


def _cost_x_axis() -> alt.X:
    """Return the horizontal axis of curves over a cost; its title is a mark of its own, which follows the switch."""
    ticks = alt.ExprRef("ceil(width / 70)")
    return alt.X("x:Q", title=" ", axis=cost_axis(tickCount=ticks), scale=alt.Scale(nice=False, zero=False))


def _band_text(rows: Rows) -> str:
    """Say what the bands are; nothing where there are none."""
    has_bands = any(row["n"] >= FEWEST_SEEDS for row in rows)
    if has_bands:
        return "band: 95 % interval of the mean over seeds"
    return ""


def _line_text(width: int, over: str = "mean over seeds") -> str:
    """Say what a line is."""
    if width == 1:
        return over
    return f"{over}, running mean of {width} rounds"


def _reading_sentence(means: str, band: str) -> str:
    """Say what lines and bands are, in one sentence."""
    text = f"Lines: {means}"
    if band:
        text += f"; {band}"
    return f"{text}."


def _caption_text(setting: Setting, smoothing_rounds: int, band: str) -> str:
    """Explain running means, missing bands and axes of cost in curves as they are first drawn."""
    sentences = []
    if smoothing_rounds > 1:
        sentences.append(RUNNING_MEAN)
    if not band:
        sentences.append(NO_BANDS)
    if setting.comparison.currency != "rounds":
        sentences.append(AT_COST)
    return " ".join(sentences)


def _hint_text(setting: Setting) -> str:
    """Say what curves are after a switch of the axis, which only the page has."""
    if setting.comparison.currency == "rounds":
        return AT_COST
    return ""


def _draw_curves(setting: Setting, metric: str, look: Look, width: int, band: str) -> Any:
    """Draw the curves of a metric, with a choice of smoothing, which begins at ``width``."""
    smoothing = alt.param(
        name=f"smooth_{metric}",
        value=width,
        bind=alt.binding_radio(options=list(SMOOTHINGS), name="rounds averaged "),
    )

    def prepare(chart: alt.Chart) -> alt.Chart:
        return chart.transform_filter(f"datum.smoothing == smooth_{metric} && datum.axis == {AXIS}")

    drawing = draw_lines(
        f"curves_{metric}",
        look,
        x=_cost_x_axis(),
        y=alt.Y("mean:Q", title=f"test {metric}", scale=alt.Scale(zero=False)),
        tooltip=[
            "method:N",
            alt.Tooltip("x:Q", title="cost"),
            alt.Tooltip("mean:Q", format=".4f"),
            alt.Tooltip("n:Q", title="seeds"),
        ],
        band=True,
        prepare=prepare,
    )
    height = look.height(HEIGHT)
    means = alt.ExprRef(
        f"'mean over seeds' + (smooth_{metric} > 1 ? ', running mean of ' + smooth_{metric} + ' rounds' : '')"
    )
    drawing = (drawing + _axis_title_mark(height)).add_params(smoothing, _axis_parameter(setting))
    return with_title_lines(fill_width(drawing, height), means, band)


def _draw_difference(setting: Setting, baseline: str, look: Look, width: int) -> list[Chart]:
    """Draw each method's curve minus the baseline's, seed by seed; nothing where no seed is common."""
    metric = setting.metric
    axes = cost_axes(setting)
    baseline_curves = _seed_curves(setting.methods[baseline], metric, width, axes)
    other_runs = [run for run in setting.runs if run.method != baseline]
    method_curves = _seed_curves(other_runs, metric, width, axes)
    baseline_values = baseline_curves.select("seed", "axis", "x", baseline="value")
    difference = (pl.col("value") - pl.col("baseline")) * unit_of(metric).scale
    paired = method_curves.join(baseline_values, on=["seed", "axis", "x"]).with_columns(value=difference)
    if not paired.height:
        return []
    rows = rounded_rows(mean_with_interval(paired, ["method", "axis", "x"]), 3)
    unit = unit_of(metric).name or metric
    drawing = draw_lines(
        "gap",
        look,
        x=_cost_x_axis(),
        y=alt.Y("mean:Q", title=f"{metric} − {baseline}, {unit}", axis=signed_axis()),
        tooltip=[
            "method:N",
            alt.Tooltip("x:Q", title="cost"),
            alt.Tooltip("mean:Q", format="+.3f"),
            alt.Tooltip("n:Q", title="seeds"),
        ],
        band=True,
        prepare=lambda chart: chart.transform_filter(f"datum.axis == {AXIS}"),
    )
    zero = chart_on("axis_title").mark_rule(strokeDash=[4, 3]).encode(y=alt.datum(0))
    height = look.height(DIFFERENCE_HEIGHT)
    drawing = (drawing + zero + _axis_title_mark(height)).add_params(_axis_parameter(setting))
    means = _line_text(width, "mean over paired seeds")
    return [
        Chart(
            name="difference",
            title=f"Difference from {baseline}",
            caption=f"{SINGLE_PLACES} {_caption_text(setting, width, _band_text(rows))}".rstrip(),
            hint=_hint_text(setting),
            reading=_reading_sentence(means, _band_text(rows)),
            drawing=with_title_lines(fill_width(drawing, height), means, _band_text(rows)),
            tables={"gap": rows, "gap_names": _name_rows(rows, height), "axis_title": [{"at": 0}]},
        )
    ]


def _seed_curves(runs: Sequence[Digest], metric: str, width: int, axes: Sequence[CostAxis]) -> pl.DataFrame:
    """Return the curves of several runs in one table, with their seeds."""
    return pl.concat(
        _seed_curve(run, metric, width, axis).with_columns(seed=pl.lit(run.seed, pl.Int64))
        for run in runs
        for axis in axes
    )

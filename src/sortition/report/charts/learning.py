"""How the model learnt: curves over rounds, simulated time and traffic, and their difference from the baseline."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from sortition.core.arrays import Array
from sortition.report.charts import (
    Chart,
    Row,
    Rows,
    amounts,
    filling,
    headed,
    on,
    signed_axis,
    spread_out,
    whole_rounds,
)
from sortition.report.digest import Digest
from sortition.report.gather import Setting, evenly_spread
from sortition.report.look import LONGEST_NAME, Look
from sortition.report.palette import Palette
from sortition.results.metrics import smoothed
from sortition.results.statistics import FEWEST_SEEDS, half_width
from sortition.results.verdict_words import unit_of

SMOOTHINGS = (1, 5, 20)  # rounds that a running mean averages, to choose from
POINTS = 160  # of a curve on the page
AXES = {"round": "rounds", "clock": "simulated seconds", "megabytes": "traffic, MB"}
HEIGHT = 320
DIFFERENCE_HEIGHT = 260
AXIS_TITLE = 32  # pixels from a chart of curves to the title of its axis
LABEL_HEIGHT = 15  # of a name beside the end of a line
CAPTION = (
    "A point of a running mean is the mean of the rounds up to it, so the curve begins late. Bands need three seeds."
)
HINT = "Point at a line to single it out; choose what runs along the axis and how many rounds to average."


def curves(setting: Setting, metric: str) -> pl.DataFrame:
    """Return the mean over seeds and its 95 % interval (t), per method, round and smoothing."""
    shown_rounds = _shown_rounds(setting)
    frames = [_seed_curve(run, metric, width, shown_rounds) for run in setting.runs for width in SMOOTHINGS]
    frame = pl.concat([frame for frame in frames if frame.height])
    frame = banded(frame, ["method", "smoothing", "round"], "clock", "megabytes")
    highest = 1.0 if metric == "accuracy" else np.inf
    return frame.with_columns(pl.col("low").clip(0.0, highest), pl.col("high").clip(0.0, highest))


def banded(frame: pl.DataFrame, keys: list[str], *others: str) -> pl.DataFrame:
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
    return evaluated[evenly_spread(evaluated.size, POINTS)]


def _seed_curve(run: Digest, metric: str, width: int, shown_rounds: Array) -> pl.DataFrame:
    """Return the running mean of one run at the shown rounds."""
    values = run.accuracy if metric == "accuracy" else run.loss
    rounds, means = smoothed(run.rounds, values, width)
    first = run.rounds.size - rounds.size  # evaluations that have no running mean yet
    keep = np.isin(rounds, shown_rounds)
    columns = {
        "round": rounds[keep],
        "value": means[keep],
        "clock": run.clock[first:][keep],
        "megabytes": run.megabytes[first:][keep],
    }
    return pl.DataFrame(columns).with_columns(method=pl.lit(run.method), smoothing=pl.lit(width))


def rounded(frame: pl.DataFrame, digits: int = 4) -> list[Row]:
    """Return rows with short numbers: half the page is data."""
    numbers = [name for name, kind in frame.schema.items() if kind.is_float()]
    return frame.with_columns(pl.col(name).round(digits) for name in numbers).to_dicts()


def colour(palette: Palette, legend: alt.Legend | None) -> alt.Color:
    """Return the constant colour of each method."""
    return alt.Color("method:N", scale=alt.Scale(domain=palette.labels, range=palette.colours), legend=legend)


def dash(palette: Palette, legend: alt.Legend | None) -> alt.StrokeDash:
    """Return the constant line pattern of each method."""
    scale = alt.Scale(domain=palette.labels, range=palette.dashes)
    return alt.StrokeDash("method:N", scale=scale, legend=legend)


def lines(
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
    base = prepare(on(table)).encode(x=x)
    line = base.mark_line(strokeWidth=2).encode(
        y=y,
        color=colour(palette, look.line_legend),
        strokeDash=dash(palette, look.line_legend),
        opacity=alt.condition(chosen, alt.value(1.0), alt.value(0.12)),
        tooltip=tooltip,
    )
    names = (
        prepare(on(f"{table}_names"))
        .mark_text(align="left", dx=6, fontSize=11, fontWeight=600, limit=LONGEST_NAME)
        .encode(
            x=alt.value("width"),
            y=alt.Y("label:Q"),
            text="method:N",
            color=colour(palette, None),
            opacity=alt.condition(chosen, alt.value(1.0), alt.value(0.25)),
        )
    )
    layers = [line.add_params(chosen)]
    if look.names_at_lines:
        layers.append(names)
    if band:
        shade = alt.condition(chosen, alt.value(0.16), alt.value(0.02))
        shades = colour(palette, look.line_legend)
        area = base.mark_area().encode(y=alt.Y("low:Q"), y2="high:Q", color=shades, opacity=shade)
        layers.insert(0, area)
    return alt.layer(*layers)


def end_labels(rows: Rows, value: str, height: int = HEIGHT, by: str = "", *, zero: bool = False) -> list[Row]:
    """Return where the name of each method stands: beside its last value, and no name upon another.

    Args:
        rows: of the lines, each with its method.
        value: the column that the lines show.
        height: of the chart, in pixels.
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


def figures(setting: Setting, look: Look) -> list[Chart]:
    """Draw accuracy and loss against a chosen axis, and the difference from the baseline."""
    fewest_evaluations = min(run.rounds.size for run in setting.runs)
    width = SMOOTHINGS[1] if fewest_evaluations >= 2 * SMOOTHINGS[1] else 1
    charts = []
    if setting.baseline is not None and len(setting.methods) > 1:
        charts += _difference(setting, setting.baseline, look, width)
    metrics = ("accuracy", "loss") if setting.metric == "accuracy" else ("loss", "accuracy")
    for metric in metrics:
        rows = rounded(curves(setting, metric))
        charts.append(
            Chart(
                name=metric,
                title=f"Test {metric}",
                caption=CAPTION,
                hint=HINT,
                reading=_reading(_means(width), _band(rows)),
                drawing=_curve(metric, look, width, _band(rows)),
                tables={
                    f"curves_{metric}": rows,
                    f"curves_{metric}_names": end_labels(rows, "mean", look.height(HEIGHT), by="smoothing"),
                    "axis_title": [{"at": 0}],
                },
            )
        )
    return charts


def _band(rows: Rows) -> str:
    """Say what the bands are; nothing where there are none."""
    has_bands = any(row["n"] >= FEWEST_SEEDS for row in rows)
    return "band: 95 % interval of the mean over seeds" if has_bands else ""


def _means(width: int, over: str = "mean over seeds") -> str:
    """Say what a line is."""
    if width == 1:
        return over
    return f"{over}, running mean of {width} rounds"


def _reading(means: str, band: str) -> str:
    """Say what lines and bands are, in one sentence."""
    text = f"Lines: {means}"
    if band:
        text += f"; {band}"
    return f"{text}."


def _curve(metric: str, look: Look, width: int, band: str) -> Any:
    """Draw the curves of a metric, with a choice of axis and of smoothing, which begins at ``width``."""
    smoothing = alt.param(
        name=f"smooth_{metric}",
        value=width,
        bind=alt.binding_radio(options=list(SMOOTHINGS), name="rounds averaged "),
    )
    axis = alt.param(
        name=f"axis_{metric}",
        value="rounds",
        bind=alt.binding_select(options=list(AXES.values()), name="against "),
    )
    columns = [f"'{title}': datum['{key}']" for key, title in AXES.items()]
    chosen_column = f"{{{', '.join(columns)}}}[axis_{metric}]"

    def prepare(chart: alt.Chart) -> alt.Chart:
        smooth = chart.transform_filter(f"datum.smoothing == smooth_{metric}")
        return smooth.transform_calculate(x=chosen_column)

    drawing = lines(
        f"curves_{metric}",
        look,
        x=alt.X("x:Q", title=" ", axis=amounts(), scale=alt.Scale(nice=False)),
        y=alt.Y("mean:Q", title=f"test {metric}", scale=alt.Scale(zero=False)),
        tooltip=["method:N", "round:Q", alt.Tooltip("mean:Q", format=".4f"), alt.Tooltip("n:Q", title="seeds")],
        band=True,
        prepare=prepare,
    )
    title = on("axis_title").mark_text(
        text=alt.ExprRef(f"axis_{metric}"), y=look.height(HEIGHT) + AXIS_TITLE, x=alt.ExprRef("width / 2")
    )
    means = alt.ExprRef(
        f"'mean over seeds' + (smooth_{metric} > 1 ? ', running mean of ' + smooth_{metric} + ' rounds' : '')"
    )
    return headed(filling((drawing + title).add_params(smoothing, axis), look.height(HEIGHT)), means, band)


def _difference(setting: Setting, baseline: str, look: Look, width: int) -> list[Chart]:
    """Draw each method's curve minus the baseline's, seed by seed; nothing where no seed is common."""
    metric = setting.metric
    baseline_curves = _seed_curves(setting.methods[baseline], metric, width, _shown_rounds(setting))
    other_runs = [run for run in setting.runs if run.method != baseline]
    method_curves = _seed_curves(other_runs, metric, width, _shown_rounds(setting))
    baseline_values = baseline_curves.select("seed", "round", baseline="value")
    difference = (pl.col("value") - pl.col("baseline")) * unit_of(metric).scale
    paired = method_curves.join(baseline_values, on=["seed", "round"]).with_columns(value=difference)
    if not paired.height:
        return []
    rows = rounded(banded(paired, ["method", "round"]), 3)
    unit = unit_of(metric).name or metric
    drawing = lines(
        "gap",
        look,
        x=whole_rounds(),
        y=alt.Y("mean:Q", title=f"{metric} − {baseline}, {unit}", axis=signed_axis()),
        tooltip=["method:N", "round:Q", alt.Tooltip("mean:Q", format="+.3f"), alt.Tooltip("n:Q", title="seeds")],
        band=True,
    )
    zero = on("gap").mark_rule(strokeDash=[4, 3]).encode(y=alt.datum(0))
    height = look.height(DIFFERENCE_HEIGHT)
    means = _means(width, "mean over paired seeds")
    return [
        Chart(
            name="difference",
            title=f"Difference from {baseline}",
            caption="The bands hold at each round, and are not corrected for the number of rounds.",
            reading=_reading(means, _band(rows)),
            drawing=headed(filling(drawing + zero, height), means, _band(rows)),
            tables={"gap": rows, "gap_names": end_labels(rows, "mean", height)},
        )
    ]


def _seed_curves(runs: Sequence[Digest], metric: str, width: int, shown_rounds: Array) -> pl.DataFrame:
    """Return the curves of several runs in one table, with their seeds."""
    return pl.concat(
        _seed_curve(run, metric, width, shown_rounds).with_columns(seed=pl.lit(run.seed, pl.Int64)) for run in runs
    )

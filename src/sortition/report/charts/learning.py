"""How the model learnt: curves over rounds, simulated time and traffic, and their difference from the baseline."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from scipy import stats

from sortition.core.arrays import Array
from sortition.report.charts import Chart, Rows, amounts, filling, headed, on, signed_axis, spread_out, whole_rounds
from sortition.report.digest import Digest
from sortition.report.gather import Setting, evenly_spread
from sortition.report.palette import Palette
from sortition.results.metrics import smoothed

SMOOTHINGS = (1, 5, 20)
POINTS = 160  # of a curve on the page
AXES = {"round": "rounds", "clock": "simulated seconds", "megabytes": "traffic, MB"}
HEIGHT, LABEL = 320, 15  # of the chart, and of a label beside the end of a line
NAMES = 150  # pixels: a longer name would leave no room for the lines
FEWEST = 3  # seeds that have a band: the interval of two says only that they are two


def curves(setting: Setting, of: str) -> pl.DataFrame:
    """Mean over seeds and 95 % interval of the mean (t), per method, round and smoothing."""
    shown = _shown_rounds(setting)
    frames = [_seed_curve(run, of, width, shown) for run in setting.runs for width in SMOOTHINGS]
    frame = pl.concat([frame for frame in frames if frame.height])
    frame = banded(frame, ["method", "smoothing", "round"], "clock", "megabytes")
    most = 1.0 if of == "accuracy" else np.inf
    return frame.with_columns(pl.col("low").clip(0.0, most), pl.col("high").clip(0.0, most))


def banded(frame: pl.DataFrame, keys: list[str], *others: str) -> pl.DataFrame:
    """Mean of ``value`` over the rows of each key, its 95 % interval from three rows on, and the means of others."""
    means = [pl.col(name).mean() for name in others]
    value = pl.col("value")
    frame = frame.group_by(keys, maintain_order=True).agg(
        value.mean().alias("mean"), value.std().alias("sd"), pl.len().alias("n"), *means
    )
    n = frame["n"].to_numpy()
    half = stats.t.ppf(0.975, np.maximum(n - 1, 1)) * frame["sd"].fill_null(0).to_numpy() / np.sqrt(n)
    half = np.where(n < FEWEST, 0.0, half)
    mean = frame["mean"].to_numpy()
    frame = frame.with_columns(pl.Series("low", mean - half), pl.Series("high", mean + half))
    return frame.sort(keys).select(*keys, "mean", "low", "high", *others, "n")


def _shown_rounds(setting: Setting) -> Array:
    """Rounds that all curves show: a mean over seeds needs the same ones, though some runs are shorter than others."""
    known = np.unique(np.concatenate([run.rounds for run in setting.runs]))
    return known[evenly_spread(known.size, POINTS)]


def _seed_curve(run: Digest, of: str, width: int, shown: Array) -> pl.DataFrame:
    values = run.accuracy if of == "accuracy" else run.loss
    rounds, values = smoothed(run.rounds, values, width)
    clock, sent = (column[column.size - values.size :] for column in (run.clock, run.megabytes))
    keep = np.isin(rounds, shown)
    return pl.DataFrame(
        {"round": rounds[keep], "value": values[keep], "clock": clock[keep], "megabytes": sent[keep]}
    ).with_columns(method=pl.lit(run.method), smoothing=pl.lit(width))


def rounded(frame: pl.DataFrame, digits: int = 4) -> list[dict[str, Any]]:
    """Rows with short numbers: half the page is data."""
    numbers = [name for name, kind in frame.schema.items() if kind.is_float()]
    return frame.with_columns(pl.col(name).round(digits) for name in numbers).to_dicts()


def colour(palette: Palette, legend: object = ..., symbol: str = "stroke") -> alt.Color:
    """The constant colour of each method."""
    shown = (
        alt.Legend(title=None, labelLimit=NAMES, symbolType=symbol, symbolOpacity=1, symbolStrokeWidth=3)
        if legend is ...
        else legend
    )
    return alt.Color("method:N", scale=alt.Scale(domain=palette.labels, range=palette.colours), legend=shown)


def dash(palette: Palette) -> alt.StrokeDash:
    """The constant line pattern of each method."""
    scale = alt.Scale(domain=palette.labels, range=palette.dashes)
    return alt.StrokeDash("method:N", scale=scale, legend=None)


def lines(
    table: str,
    palette: Palette,
    x: alt.X,
    y: alt.Y,
    tooltip: list[Any],
    *,
    band: bool = False,
    prepare: Callable[[alt.Chart], alt.Chart] = lambda chart: chart,
) -> alt.LayerChart:
    """A line a method with its name beside its end; the one under the pointer stands out."""
    chosen = alt.selection_point(fields=["method"], on="pointerover", clear="pointerout", name=f"chosen_{table}")
    base = prepare(on(table)).encode(x=x, color=colour(palette, None))
    line = base.mark_line(strokeWidth=2).encode(
        y=y,
        strokeDash=dash(palette),
        opacity=alt.condition(chosen, alt.value(1.0), alt.value(0.12)),
        tooltip=tooltip,
    )
    names = (
        prepare(on(f"{table}_names"))
        .mark_text(align="left", dx=6, fontSize=11, fontWeight=600, limit=NAMES)
        .encode(
            x=alt.value("width"),
            y=alt.Y("label:Q"),
            text="method:N",
            color=colour(palette, None),
            opacity=alt.condition(chosen, alt.value(1.0), alt.value(0.25)),
        )
    )
    layers = [line.add_params(chosen), names]
    if band:
        shade = alt.condition(chosen, alt.value(0.16), alt.value(0.02))
        layers.insert(0, base.mark_area().encode(y=alt.Y("low:Q"), y2="high:Q", opacity=shade))
    return alt.layer(*layers)


def _finite(rows: list[dict[str, Any]], value: str) -> list[dict[str, Any]]:
    return [row for row in rows if row[value] is not None and math.isfinite(row[value])]


def end_labels(
    rows: list[dict[str, Any]], value: str, height: int = HEIGHT, by: str = "", *, zero: bool = False
) -> list[dict[str, Any]]:
    """Where the name of each method stands: beside its last value, and no name upon another.

    ``by`` is a column whose values are shown one at a time; ``zero`` says that the axis begins there.
    """
    made = []
    rows = _finite(rows, value)
    for group in dict.fromkeys(row.get(by) for row in rows):
        inside = [row for row in rows if row.get(by) == group]
        ends = {row["method"]: row for row in inside}  # the last one of each
        drawn = [row[key] for row in inside for key in (value, "low", "high") if row.get(key) is not None]
        low, high = min([*drawn, *([0.0] if zero else [])]), max(drawn)
        placed = spread_out([row[value] for row in ends.values()], (high - low or 1.0) * LABEL / height, low, high)
        made += [
            {"method": method, by or "all": group, "label": round(float(at), 5)}
            for method, at in zip(ends, placed, strict=True)
        ]
    return made


def figures(setting: Setting, palette: Palette) -> list[Chart]:
    """Accuracy and loss against a chosen axis, and the difference from the baseline."""
    caption = (
        "A point of a running mean is the mean of the rounds up to it, so the curve begins late. Bands need three "
        "seeds. Point at a line to single it out; choose what runs along the axis and how many rounds to average."
    )
    start = SMOOTHINGS[1] if min(run.rounds.size for run in setting.runs) >= 2 * SMOOTHINGS[1] else 1
    made = _difference(setting, palette, start) if setting.baseline and len(setting.methods) > 1 else []
    for of in ("accuracy", "loss") if setting.metric == "accuracy" else ("loss", "accuracy"):
        rows = rounded(curves(setting, of))
        names = end_labels(rows, "mean", by="smoothing")
        tables = {f"curves_{of}": rows, f"curves_{of}_names": names, "axis_title": [{"at": 0}]}
        made.append(Chart(of, f"Test {of}", caption, _curve(of, palette, start, _band(rows)), tables))
    return made


def _band(rows: list[dict[str, Any]]) -> str:
    """What the bands are; nothing where there are none."""
    return "band: 95 % interval of the mean over seeds" if any(row["n"] >= FEWEST for row in rows) else ""


def _curve(of: str, palette: Palette, start: int, band: str) -> Any:
    bind = alt.binding_radio(options=list(SMOOTHINGS), name="rounds averaged ")
    smoothing = alt.param(name=f"smooth_{of}", value=start, bind=bind)
    axis = alt.param(
        name=f"axis_{of}", value="rounds", bind=alt.binding_select(options=list(AXES.values()), name="against ")
    )
    *others, last = AXES.items()
    pick = " : ".join(f"axis_{of} == '{title}' ? datum['{key}']" for key, title in others) + f" : datum['{last[0]}']"
    x = alt.X("x:Q", title=" ", axis=amounts(), scale=alt.Scale(nice=False))
    y = alt.Y("mean:Q", title=f"test {of}", scale=alt.Scale(zero=False))
    tooltip = ["method:N", "round:Q", alt.Tooltip("mean:Q", format=".4f"), alt.Tooltip("n:Q", title="seeds")]
    drawn = lines(
        f"curves_{of}",
        palette,
        x,
        y,
        tooltip,
        band=True,
        prepare=lambda chart: chart.transform_filter(f"datum.smoothing == smooth_{of}").transform_calculate(x=pick),
    )
    title = on("axis_title").mark_text(text=alt.ExprRef(f"axis_{of}"), y=HEIGHT + 36, x=alt.ExprRef("width / 2"))
    means = alt.ExprRef(f"'mean over seeds' + (smooth_{of} > 1 ? ', running mean of ' + smooth_{of} + ' rounds' : '')")
    return headed(filling((drawn + title).add_params(smoothing, axis), HEIGHT), means, band)


def _difference(setting: Setting, palette: Palette, width: int) -> list[Chart]:
    """Each method's curve minus the baseline's, seed by seed."""
    of, base = setting.metric, setting.baseline
    shown = _shown_rounds(setting)
    frames = {
        label: [_seed_curve(run, of, width, shown).with_columns(seed=pl.lit(run.seed, pl.Int64)) for run in runs]
        for label, runs in setting.methods.items()
    }
    theirs = pl.concat(frames.pop(base or "")).select("seed", "round", other="value")
    ours = pl.concat([frame for found in frames.values() for frame in found])
    scale = 100.0 if of == "accuracy" else 1.0
    paired = ours.join(theirs, on=["seed", "round"]).with_columns(value=(pl.col("value") - pl.col("other")) * scale)
    if not paired.height:  # no common seed
        return []
    rows = rounded(banded(paired, ["method", "round"]), 3)
    unit = "points" if of == "accuracy" else of
    y = alt.Y("mean:Q", title=f"{of} − {base}, {unit}", axis=signed_axis())
    tooltip = ["method:N", "round:Q", alt.Tooltip("mean:Q", format="+.3f"), alt.Tooltip("n:Q", title="seeds")]
    drawn = lines("gap", palette, whole_rounds(), y, tooltip, band=True)
    zero = on("gap").mark_rule(strokeDash=[4, 3]).encode(y=alt.datum(0))
    means = "mean over paired seeds" + (f", running mean of {width} rounds" if width > 1 else "")
    caption = "The bands hold at each round, and are not corrected for the number of rounds."
    tables: dict[str, Rows] = {"gap": rows, "gap_names": end_labels(rows, "mean", 260)}
    drawing = headed(filling(drawn + zero, 260), means, _band(rows))
    return [Chart("difference", f"Difference from {base}", caption, drawing, tables)]

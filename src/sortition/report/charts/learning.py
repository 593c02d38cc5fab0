"""How the model learnt: curves over rounds, simulated time and traffic, with their spread over seeds."""

from __future__ import annotations

import altair as alt
import numpy as np
import polars as pl
from scipy import stats

from sortition.report.charts import WIDTH, Figure, on
from sortition.report.digest import Digest
from sortition.report.gather import Gathered, Setting, thinned
from sortition.report.palette import Palette
from sortition.results.metrics import smoothed

SMOOTHINGS = (1, 5, 20)
POINTS = 160  # of a curve on the page
AXES = {"round": "rounds", "clock": "simulated seconds", "megabytes": "traffic, MB"}


def curves(setting: Setting, of: str) -> pl.DataFrame:
    """Mean over seeds and 95 % interval of the mean (t), per method, round and smoothing."""
    frames = [_seed(run, of, width) for run in setting.runs for width in SMOOTHINGS]
    frame = pl.concat([frame for frame in frames if frame.height])
    keys = ["method", "smoothing", "round"]
    frame = frame.group_by(keys, maintain_order=True).agg(
        pl.col("value").mean().alias("mean"),
        pl.col("value").std().alias("sd"),
        pl.len().alias("n"),
        pl.col("clock").mean(),
        pl.col("megabytes").mean(),
    )
    n = frame["n"].to_numpy()
    half = stats.t.ppf(0.975, np.maximum(n - 1, 1)) * frame["sd"].fill_null(0).to_numpy() / np.sqrt(n)
    half = np.where(n < 3, 0.0, half)  # of two seeds the interval says nothing but that they are two
    mean = frame["mean"].to_numpy()
    low, high = np.maximum(mean - half, 0.0), np.minimum(mean + half, 1.0 if of == "accuracy" else np.inf)
    frame = frame.with_columns(pl.Series("low", low), pl.Series("high", high))
    return frame.sort(keys).select(*keys, "mean", "low", "high", "clock", "megabytes", "n")


def _seed(run: Digest, of: str, width: int) -> pl.DataFrame:
    values = run.accuracy if of == "accuracy" else run.loss
    values = smoothed(values, width)
    rounds, clock, sent = (column[column.size - values.size :] for column in (run.rounds, run.clock, run.megabytes))
    keep = thinned(values.size, POINTS)
    return pl.DataFrame(
        {"round": rounds[keep], "value": values[keep], "clock": clock[keep], "megabytes": sent[keep]}
    ).with_columns(method=pl.lit(run.method), smoothing=pl.lit(width))


def rounded(frame: pl.DataFrame, digits: int = 4) -> list[dict[str, object]]:
    """Rows with short numbers: half the page is data."""
    numbers = [name for name, kind in frame.schema.items() if kind.is_float()]
    return frame.with_columns(pl.col(name).round(digits) for name in numbers).to_dicts()


def colour(palette: Palette, legend: object = ..., symbol: str = "stroke") -> alt.Color:
    """The constant colour of each method."""
    shown = (
        alt.Legend(title=None, labelLimit=240, symbolType=symbol, symbolOpacity=1, symbolStrokeWidth=3)
        if legend is ...
        else legend
    )
    return alt.Color("method:N", scale=alt.Scale(domain=palette.labels, range=palette.colours), legend=shown)


def dash(palette: Palette) -> alt.StrokeDash:
    """The constant line pattern of each method."""
    scale = alt.Scale(domain=palette.labels, range=palette.dashes)
    return alt.StrokeDash("method:N", scale=scale)


def figures(setting: Setting, palette: Palette) -> list[Figure]:
    """Accuracy and loss against a chosen axis."""
    told = (
        "Mean over seeds with its 95 % interval (from three seeds on). Click a method in the legend to single it out "
        "(shift-click for more); choose what runs along the axis and over how many evaluations to average."
    )
    start = SMOOTHINGS[1] if min(run.rounds.size for run in setting.runs) >= 2 * SMOOTHINGS[1] else 1
    return [
        Figure(of, f"Test {of}", told, _curve(of, palette, start), {f"curves_{of}": rounded(curves(setting, of))})
        for of in ("accuracy", "loss")
    ]


def _curve(of: str, palette: Palette, start: int) -> alt.LayerChart:
    smoothing = alt.param(
        name=f"smooth_{of}", value=start, bind=alt.binding_radio(options=list(SMOOTHINGS), name="averaged over ")
    )
    axis = alt.param(
        name=f"axis_{of}", value="rounds", bind=alt.binding_select(options=list(AXES.values()), name="against ")
    )
    chosen = alt.selection_point(fields=["method"], bind="legend", name=f"legend_{of}")
    names = list(AXES.items())
    pick = (
        " : ".join(f"axis_{of} == '{told}' ? datum['{key}']" for key, told in names[:-1])
        + f" : datum['{names[-1][0]}']"
    )
    base = (
        on(f"curves_{of}")
        .transform_filter(f"datum.smoothing == smooth_{of}")
        .transform_calculate(x=pick)
        .encode(x=alt.X("x:Q", title=None, scale=alt.Scale(nice=False)))
    )
    faded = alt.condition(chosen, alt.value(1.0), alt.value(0.12))
    line = base.mark_line(strokeWidth=2).encode(
        y=alt.Y("mean:Q", title=of, scale=alt.Scale(zero=False)),
        color=colour(palette),
        strokeDash=dash(palette),
        opacity=faded,
        tooltip=["method:N", "round:Q", alt.Tooltip("mean:Q", format=".4f"), alt.Tooltip("n:Q", title="seeds")],
    )
    band = base.mark_area().encode(
        y="low:Q",
        y2="high:Q",
        color=colour(palette),
        opacity=alt.condition(chosen, alt.value(0.15), alt.value(0.02)),
    )
    return (band + line).add_params(smoothing, axis, chosen).properties(width=WIDTH, height=320)


def overview(gathered: Gathered, palette: Palette) -> Figure:
    """Methods × settings: each panel one method against the baseline."""
    rows = []
    for setting in gathered.settings:
        frame = curves(setting, setting.metric).filter(pl.col("smoothing") == 5)
        if not frame.height:  # fewer than five evaluations
            frame = curves(setting, setting.metric).filter(pl.col("smoothing") == 1)
        keep = thinned(frame["round"].n_unique(), 40)
        rounds = np.sort(frame["round"].unique().to_numpy())[keep]
        frame = frame.filter(pl.col("round").is_in(rounds.tolist()))
        yardstick = frame.filter(pl.col("method") == (setting.baseline or ""))
        for label in setting.methods:
            mine = frame.filter(pl.col("method") == label)
            for part, role in ((mine, label), (yardstick, setting.baseline or label)):
                rows += [
                    {"setting": setting.name, "panel": label, "method": role, **row}
                    for row in rounded(part.select("round", "mean", "low", "high"))
                ]
    columns = min(max(len(gathered.methods), 1), 5)
    width = max(110, (WIDTH + 140) // columns - 30)
    base = on("panels").encode(x=alt.X("round:Q", title=None, axis=alt.Axis(tickCount=3)))
    line = base.mark_line(strokeWidth=1.6).encode(
        y=alt.Y("mean:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=3)),
        color=colour(palette, None),
    )
    band = base.mark_area(opacity=0.18).encode(y="low:Q", y2="high:Q", color=colour(palette, None))
    layered = (band + line).properties(width=width, height=80)
    panel = alt.Facet(
        "panel:N", sort=gathered.methods, title=None, header=alt.Header(labelLimit=width, labelFontWeight="bold")
    )
    if len(gathered.settings) > 1:
        chart: alt.FacetChart | alt.VConcatChart = alt.vconcat(
            *(
                layered.transform_filter(alt.datum.setting == s.name)
                .facet(facet=panel, columns=columns, title=s.name)
                .resolve_scale(y="shared")
                for s in gathered.settings
            )
        )
    else:
        chart = layered.facet(facet=panel, columns=columns)
    metric = gathered.settings[0].metric
    return Figure(
        "overview",
        "At a glance",
        f"Test {metric} of each method beside the yardstick (grey), 95 % band.",
        chart,
        {"panels": rows},
    )

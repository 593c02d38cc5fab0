"""How the model learnt: curves over rounds, simulated time and traffic, with their spread over seeds."""

from __future__ import annotations

import altair as alt
import numpy as np
import polars as pl
from scipy import stats

from sortition.report.charts import WIDTH, Chart, on
from sortition.report.digest import Digest
from sortition.report.gather import Gathered, Setting, evenly_spread
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
    keep = evenly_spread(values.size, POINTS)
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


def figures(setting: Setting, palette: Palette) -> list[Chart]:
    """Accuracy and loss against a chosen axis."""
    caption = (
        "Mean over seeds with its 95 % interval (from three seeds on). Click a method in the legend to single it out "
        "(shift-click for more); choose what runs along the axis and over how many evaluations to average."
    )
    start = SMOOTHINGS[1] if min(run.rounds.size for run in setting.runs) >= 2 * SMOOTHINGS[1] else 1
    return [
        Chart(of, f"Test {of}", caption, _curve(of, palette, start), {f"curves_{of}": rounded(curves(setting, of))})
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
        " : ".join(f"axis_{of} == '{title}' ? datum['{key}']" for key, title in names[:-1])
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


def overview(gathered: Gathered, palette: Palette) -> Chart:
    """Methods × settings: each panel one method against the baseline."""
    columns = min(max(len(gathered.methods), 1), 5)
    width = max(110, (WIDTH + 140) // columns - 30)
    layered = _panel(palette).properties(width=width, height=80)
    header = alt.Header(labelLimit=width, labelFontWeight="bold")
    panel = alt.Facet("panel:N", sort=gathered.methods, title=None, header=header)
    if len(gathered.settings) > 1:
        drawing: alt.FacetChart | alt.VConcatChart = alt.vconcat(
            *(
                layered.transform_filter(alt.datum.setting == s.name)
                .facet(facet=panel, columns=columns, title=s.name)
                .resolve_scale(y="shared")
                for s in gathered.settings
            )
        )
    else:
        drawing = layered.facet(facet=panel, columns=columns)
    caption = f"Test {gathered.settings[0].metric} of each method beside the baseline (grey), 95 % band."
    rows = [row for setting in gathered.settings for row in _panel_rows(setting)]
    return Chart("overview", "At a glance", caption, drawing, {"panels": rows})


def _panel(palette: Palette) -> alt.LayerChart:
    base = on("panels").encode(x=alt.X("round:Q", title=None, axis=alt.Axis(tickCount=3)))
    line = base.mark_line(strokeWidth=1.6).encode(
        y=alt.Y("mean:Q", title=None, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=3)),
        color=colour(palette, None),
    )
    band = base.mark_area(opacity=0.18).encode(y="low:Q", y2="high:Q", color=colour(palette, None))
    return band + line


def _panel_rows(setting: Setting) -> list[dict[str, object]]:
    """Of each method its own curve and the baseline's, thinned to forty rounds."""
    whole = curves(setting, setting.metric)
    frame = whole.filter(pl.col("smoothing") == 5)
    if not frame.height:  # fewer than five evaluations
        frame = whole.filter(pl.col("smoothing") == 1)
    rounds = np.sort(frame["round"].unique().to_numpy())
    frame = frame.filter(pl.col("round").is_in(rounds[evenly_spread(rounds.size, 40)].tolist()))
    return [
        {"setting": setting.name, "panel": label, "method": shown, **row}
        for label in setting.methods
        for shown in (label, setting.baseline or label)
        for row in rounded(frame.filter(pl.col("method") == shown).select("round", "mean", "low", "high"))
    ]

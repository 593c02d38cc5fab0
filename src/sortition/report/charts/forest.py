"""The forest plot: each method's paired difference from the baseline, with intervals and the seeds behind it."""

from __future__ import annotations

import math

import altair as alt

from sortition.report.charts import Chart, filling, on, signed_axis
from sortition.report.gather import Setting
from sortition.results.comparisons import COMPARED
from sortition.results.statistics import BETTER, EQUAL, UNDECIDED, WORSE, Comparison, differences
from sortition.results.verdict_words import in_order, unit_of, verdict_text

COLOURS = {BETTER: "#0b8f63", WORSE: "#c8501e", EQUAL: "#7d8894", UNDECIDED: "#8f6bc4"}
ROW, UP, DOWN = 28, -4, 7  # height of a row; bars lie above its middle, the seeds below
SEEDS = "#737f8b"  # seen on white and on a dark page
CAPTION = (
    "Thin bar: 95 % interval, simultaneous for all methods; a verdict of better or worse needs it to exclude zero. "
    "Thick bar: 90 % interval; inside the shaded region it shows that a difference is practically none. "
    "Grey dots below a bar: seeds."
)


def forest(setting: Setting, figure: str = "last") -> Chart | None:
    """None where nothing is compared."""
    found = {label: one for label, one in setting.compared(figure).items() if not math.isnan(one.difference)}
    if not found:
        return None
    scale, _, unit = unit_of(setting.metric)
    order = [comparison.method for comparison in in_order(found.values())]
    rows = [_row(label, found[label], scale) for label in order]
    seeds = [
        {"method": label, "seed": round(pair * scale, 4)} for label in order for pair in _pairs(setting, label, figure)
    ]
    region = next(iter(found.values())).region * scale
    title = f"{setting.metric} − {setting.baseline}{f', {unit}' if unit else ''}"
    edges = [{"edge": -region, "other": region, "zero": 0.0}]
    return Chart(
        f"forest-{figure}",
        f"{COMPARED[figure].capitalize()}: difference from {setting.baseline}",
        CAPTION if figure == "last" else "The same for the mean over all rounds, the area under the curve.",
        filling(_drawing(order, title), ROW * len(order)),
        {"forest": rows, "forest_seeds": seeds, "forest_region": edges},
        span=3,
    )


def _row(label: str, one: Comparison, scale: float) -> dict[str, object]:
    numbers = {name: getattr(one, name) for name in ("difference", "low", "high", "inner_low", "inner_high")}
    known = {name: one.difference if math.isnan(value) else value for name, value in numbers.items()}
    shown = {name: round(value * scale, 4) for name, value in known.items()}
    return {"method": label, "verdict": one.verdict, "words": verdict_text(one), "p": round(one.p, 4), **shown}


def _pairs(setting: Setting, label: str, figure: str) -> list[float]:
    key, figures = f"{figure}-{setting.metric}", setting.figures
    ours, theirs = (
        {seed: run.get(key) for seed, run in figures[name].items()} for name in (label, setting.baseline or "")
    )
    return [float(pair) for pair in differences(ours, theirs)]


def _drawing(order: list[str], title: str) -> alt.LayerChart:
    y = alt.Y("method:N", sort=order, title=None, axis=alt.Axis(labelLimit=180, ticks=False, domain=False))
    x = {"title": title, "axis": signed_axis()}
    colour = alt.Color("verdict:N", scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())), legend=None)
    base = on("forest").encode(
        y=y,
        color=colour,
        tooltip=["method:N", alt.Tooltip("words:N", title="verdict"), "difference:Q", "low:Q", "high:Q", "p:Q"],
    )
    region = on("forest_region").mark_rect(opacity=0.13, color="#7d8894").encode(x=alt.X("edge:Q", **x), x2="other:Q")
    dashed = on("forest_region").mark_rule(strokeDash=[3, 3], opacity=0.6)
    seeds = on("forest_seeds").mark_circle(size=22, opacity=0.9, color=SEEDS, yOffset=DOWN).encode(y=y, x="seed:Q")
    return alt.layer(
        region,
        dashed.encode(x="edge:Q"),
        dashed.encode(x="other:Q"),
        on("forest_region").mark_rule(strokeWidth=1.5).encode(x="zero:Q"),
        seeds,
        base.mark_rule(strokeWidth=1.5, yOffset=UP).encode(x="low:Q", x2="high:Q"),
        base.mark_rule(strokeWidth=5, opacity=0.55, yOffset=UP).encode(x="inner_low:Q", x2="inner_high:Q"),
        base.mark_point(filled=True, size=80, opacity=1, yOffset=UP).encode(x="difference:Q"),
    )

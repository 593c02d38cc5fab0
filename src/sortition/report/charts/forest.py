"""The forest plot: each method's paired difference from the baseline, with intervals and the seeds behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from sortition.report.charts import Chart, chart_on, fill_width, signed_axis
from sortition.report.gather import Setting
from sortition.results.statistics import BETTER, EQUAL, UNDECIDED, WORSE, Comparison, Window, differences
from sortition.results.verdict_words import figure_title, sort_by_gain, unit_of, verdict_text, with_unit

COLOUR_NAMES = {BETTER: "green", WORSE: "orange", EQUAL: "grey", UNDECIDED: "purple"}
COLOURS = {BETTER: "#0b8f63", WORSE: "#c8501e", EQUAL: "#7d8894", UNDECIDED: "#8f6bc4"}
ROW_HEIGHT = 28
BAR_OFFSET = -4  # pixels from the middle of a row: bars lie above it
SEED_OFFSET = 7  # and the dots of seeds below
SEED_COLOUR = "#737f8b"  # seen on white and on a dark page
CAPTION = (
    "Thin bar: 95 % interval, simultaneous for all methods; a verdict of better or worse needs it to exclude zero. "
    "Thick bar: 90 % interval; inside the shaded region it shows that a difference is practically none. "
    "Grey dots below a bar: seeds."
)
AREA = "The figure is the mean over the whole curve, the area under it."
SAME_ROUNDS = "Here these are all rounds, so the mean over the whole curve is the same."


def draw_forests(setting: Setting) -> list[Chart | str]:
    """Draw the differences at the end of the curve and over all of it; a sentence where both are of the same rounds."""
    plots = [draw_forest(setting, figure) for figure in setting.comparison.compared_figures]
    charts: list[Chart | str] = [plot for plot in plots if plot is not None]
    basis = setting.comparison.basis
    if isinstance(basis, Window) and basis.is_whole_run:
        return [*charts[:1], *[SAME_ROUNDS for _ in charts[1:]]]
    return charts


def draw_forest(setting: Setting, figure: str) -> Chart | None:
    """Draw the differences of a compared figure from the baseline; None where nothing is compared."""
    comparisons = [
        comparison
        for comparison in sort_by_gain(setting.against_baseline(figure).values())
        if not math.isnan(comparison.difference)
    ]
    if not comparisons:
        return None
    scale = unit_of(setting.metric).scale
    order = [comparison.method for comparison in comparisons]
    seeds = [
        {"method": label, "seed": round(difference * scale, 4)}
        for label in order
        for difference in _seed_differences(setting, label, figure)
    ]
    region = comparisons[0].region * scale
    axis_title = with_unit(f"{setting.metric} − {setting.baseline}", setting.metric)
    title = figure_title(figure, setting.comparison.basis).capitalize()
    explanation = f"{CAPTION} {_colours_text(comparisons)}"
    caption = explanation
    reading = ""
    if (
        figure != setting.comparison.compared_figures[0]
    ):  # the page explains bars below the first plot; a file stands alone
        caption = AREA
        reading = explanation
    return Chart(
        name=f"forest-{figure}",
        title=f"{title}: difference from {setting.baseline}",
        caption=caption,
        reading=reading,
        drawing=fill_width(_draw_layers(order, axis_title), ROW_HEIGHT * len(order)),
        tables={
            "forest": [_comparison_row(comparison, scale) for comparison in comparisons],
            "forest_seeds": seeds,
            "forest_region": [{"edge": -region, "other": region, "zero": 0.0}],
        },
        span=3,
    )


def _colours_text(comparisons: Sequence[Comparison]) -> str:
    """Say which verdicts the colours of a plot are."""
    verdicts = {comparison.verdict for comparison in comparisons}
    meanings = [f"{COLOUR_NAMES[verdict]} is {verdict}" for verdict in COLOURS if verdict in verdicts]
    return f"Colours are verdicts: {', '.join(meanings)}."


def _comparison_row(comparison: Comparison, scale: float) -> dict[str, Any]:
    """Return the row of a comparison; intervals that do not exist are as short as the point."""
    row: dict[str, Any] = {
        "method": comparison.method,
        "verdict": comparison.verdict,
        "words": verdict_text(comparison),
        "p": round(comparison.p, 4),
    }
    for name in ("difference", "low", "high", "inner_low", "inner_high"):
        value = getattr(comparison, name)
        if math.isnan(value):
            value = comparison.difference
        row[name] = round(value * scale, 4)
    return row


def _seed_differences(setting: Setting, label: str, figure: str) -> list[float]:
    """Return the difference from the baseline on each seed that both have."""
    key = f"{figure}-{setting.metric}"
    method_values = {seed: figures.get(key) for seed, figures in setting.figures[label].items()}
    baseline_values = {seed: figures.get(key) for seed, figures in setting.figures[setting.baseline or ""].items()}
    return [float(difference) for difference in differences(method_values, baseline_values)]


def _draw_layers(order: list[str], title: str) -> alt.LayerChart:
    """Draw the shaded region, the seeds, both intervals and the point of each method."""
    y = alt.Y("method:N", sort=order, title=None, axis=alt.Axis(labelLimit=180, ticks=False, domain=False))
    edge = alt.X("edge:Q", title=title, axis=signed_axis())
    colour = alt.Color("verdict:N", scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())), legend=None)
    base = chart_on("forest").encode(
        y=y,
        color=colour,
        tooltip=["method:N", alt.Tooltip("words:N", title="verdict"), "difference:Q", "low:Q", "high:Q", "p:Q"],
    )
    region = chart_on("forest_region").mark_rect(opacity=0.13, color="#7d8894").encode(x=edge, x2="other:Q")
    dashed = chart_on("forest_region").mark_rule(strokeDash=[3, 3], opacity=0.6)
    seeds = chart_on("forest_seeds").mark_circle(size=22, opacity=0.9, color=SEED_COLOUR, yOffset=SEED_OFFSET)
    return alt.layer(
        region,
        dashed.encode(x="edge:Q"),
        dashed.encode(x="other:Q"),
        chart_on("forest_region").mark_rule(strokeWidth=1.5).encode(x="zero:Q"),
        seeds.encode(y=y, x="seed:Q"),
        base.mark_rule(strokeWidth=1.5, yOffset=BAR_OFFSET).encode(x="low:Q", x2="high:Q"),
        base.mark_rule(strokeWidth=5, opacity=0.55, yOffset=BAR_OFFSET).encode(x="inner_low:Q", x2="inner_high:Q"),
        base.mark_point(filled=True, size=80, opacity=1, yOffset=BAR_OFFSET).encode(x="difference:Q"),
    )

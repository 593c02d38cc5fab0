"""One HTML file without a network: head, navigation, sections, and the data of its charts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import Any

from sortition.report.charts import Chart
from sortition.report.markup import replace_control_characters

ALL_SETTINGS = "all"  # of a chart that shows every setting


class Canvas:
    """Collects the charts of a page; each is drawn in its place by the page's script."""

    def __init__(self) -> None:
        self.specs: list[dict[str, Any]] = []
        self.charts: list[tuple[str, Chart]] = []

    def add_chart(self, setting: str, chart: Chart) -> str:
        """Add a chart of a setting; return the markup of its place on the page."""
        self.charts.append((setting, chart))
        self.specs.append({"spec": chart.spec_without_rows(), "tables": chart.columns()})
        title = escape(chart.title)
        place = len(self.specs) - 1
        return (
            f'<figure class="span{chart.span}"><h3>{title}</h3>'
            f'<div class="chart" role="img" aria-label="{title}" data-chart="{place}"></div>'
            f"<figcaption>{escape(' '.join([chart.caption, chart.hint]).strip())}</figcaption></figure>"
        )

    def add_figures(self, setting: str, charts: Sequence[Chart | str]) -> str:
        """Add charts of a setting; return the markup of their places and, below, of the sentences among ``charts``.

        A sentence replaces a chart that would show nothing.
        """
        places = "".join(self.add_chart(setting, chart) for chart in charts if isinstance(chart, Chart))
        sentences = " ".join(escape(sentence) for sentence in charts if isinstance(sentence, str))
        markup = ""
        if places:
            markup += f'<div class="figures">{places}</div>'
        if sentences:
            markup += f'<p class="soft">{sentences}</p>'
        return markup


def html_document(
    canvas: Canvas,
    *,
    title: str,
    lead: str,
    subtitle: str,
    bodies: Mapping[str, str],
    headings: Mapping[str, str],
    above: str = "",
    selector: str = "",
    warnings: str = "",
) -> str:
    """Return the whole page as one HTML file.

    Args:
        canvas: the charts that the bodies have places for.
        title: the headline, a text.
        lead: the answer in a sentence or two, a text.
        subtitle: markup of the line below it.
        bodies: section → its markup; empty ones are left out.
        headings: section → its heading; an empty one has none, and is called Result in the navigation.
        above: markup before the headline.
        selector: markup at the end of the navigation.
        warnings: markup before the first section.
    """
    shown_bodies = {key: body for key, body in bodies.items() if body}
    parts = [
        f'<section id="{key}">{_heading_html(headings[key])}{body}</section>' for key, body in shown_bodies.items()
    ]
    links = "".join(f'<a href="#{key}">{headings[key] or "Result"}</a>' for key in shown_bodies)
    charts = json.dumps(_with_nulls(canvas.specs), separators=(",", ":"), default=float, allow_nan=False)
    charts = charts.replace("<", "\\u003c")  # cannot end the script
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)} · Sortition</title><style>{_read_asset('page.css')}</style></head><body>"
        f'<header>{above}<h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>'
        f'<p class="soft">{subtitle}</p></header><nav>{links}{selector}</nav>'
        f"<main>{warnings}{''.join(parts)}</main>"
        f'<script type="application/json" id="specs">{charts}</script>'
    )
    scripts = f"<script>{_vega_scripts()}</script><script>{_read_asset('page.js')}</script>"
    return f"{replace_control_characters(page)}{scripts}</body></html>"


def _heading_html(words: str) -> str:
    if words:
        return f"<h2>{words}</h2>"
    return ""


def _read_asset(name: str) -> str:
    """Return the text of a file that lies beside this module."""
    return (files("sortition.report") / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _vega_scripts() -> str:
    """Return Vega, Vega-Lite and vega-embed as vl-convert carries them, so that nothing is downloaded."""
    import vl_convert

    bundle = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    return str(bundle).replace("</script", "<\\/script")


def _with_nulls(value: Any) -> Any:
    """Return the value with null for numbers that are not finite, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _with_nulls(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_nulls(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value

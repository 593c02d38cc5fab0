"""The page: one file, no network. Prose and tables are HTML, charts are drawn when they come into view."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import Any

from sortition import __version__
from sortition.report import overview
from sortition.report.charts import Chart, cost, federation, learning, method_notes, selection
from sortition.report.checklist import checklist
from sortition.report.configuration import configuration
from sortition.report.description import description
from sortition.report.gather import Gathered, Setting
from sortition.report.guard_section import guard_table
from sortition.report.losses_section import loss_tables
from sortition.report.markup import printable
from sortition.report.palette import Palette
from sortition.report.privacy import privacy_table
from sortition.report.verdicts import answer

SECTIONS = {
    "overview": "",
    "learning": "Learning",
    "cost": "Cost and privacy",
    "selected": "Who was selected",
    "method_notes": "What the method saw",
    "losses": "Lost on the way, and adversaries",
    "federation": "Federation",
    "checklist": "Reviewer's checklist",
    "configuration": "Configuration",
}


class Page:
    """Collects sections and charts, then renders them."""

    def __init__(self, gathered: Gathered) -> None:
        self.gathered = gathered
        self.palette = Palette(gathered.methods, gathered.names)
        self.specs: list[dict[str, Any]] = []
        self.charts: list[tuple[str, Chart]] = []

    def render(self, progress: str = "") -> str:
        """The whole page; ``progress`` is markup above it, of a page that is still growing."""
        bodies = {key: getattr(self, key)() for key in SECTIONS}
        shown = {key: body for key, body in bodies.items() if body}
        parts = [f'<section id="{key}">{_heading(key)}{body}</section>' for key, body in shown.items()]
        links = "".join(f'<a href="#{key}">{SECTIONS[key] or "Result"}</a>' for key in shown)
        data = json.dumps(_known(self.specs), separators=(",", ":"), default=float, allow_nan=False)
        data = data.replace("<", "\\u003c")  # cannot end the script
        title = escape(self.gathered.title)
        page = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
            f"<title>{title} · Sortition</title><style>{_text('page.css')}</style></head><body>"
            f'<header>{progress}<h1>{title}</h1><p class="lead">{escape(answer(self.gathered))}</p>'
            f'<p class="soft">{self._facts()}</p></header><nav>{links}{self._selector()}</nav>'
            f"<main>{self._left_out()}{''.join(parts)}</main>"
            f'<script type="application/json" id="specs">{data}</script>'
        )
        return f"{printable(page)}<script>{_library()}</script><script>{_text('page.js')}</script></body></html>"

    # -- sections -------------------------------------------------------------------------------------------------

    def overview(self) -> str:
        """First screen: cards, forest plots, the main table; ranks and sweeps where there are several settings."""
        several = overview.of_all(self.gathered, self.palette, self.show)

        def block(setting: Setting) -> str:
            words = f'<p class="soft">{escape(description(setting))}</p>' if several else ""
            return words + overview.of_setting(setting, self.palette, self.show)

        return several + self._each(block)

    def learning(self) -> str:
        """Curves."""
        return self._drawn(lambda setting: learning.figures(setting, self.palette))

    def cost(self) -> str:
        """Accuracy against cost, traffic, and the privacy label of each method."""
        return self._drawn(lambda setting: cost.figures(setting, self.palette)) + privacy_table(self.gathered)

    def selected(self) -> str:
        """Counts, timelines, mixtures, and where guards acted."""
        return self._drawn(lambda setting: selection.figures(setting, self.palette)) + guard_table(self.gathered)

    def method_notes(self) -> str:
        """Pictures from the notes."""
        return self._drawn(method_notes.figures)

    def losses(self) -> str:
        """Dropouts, faults and what adversaries captured; nothing where nothing went wrong."""
        return loss_tables(self.gathered)

    def federation(self) -> str:
        """The partition and who is reachable."""
        return self._drawn(federation.figures)

    def checklist(self) -> str:
        """What reviewers ask."""
        rows = "".join(
            f'<tr><td class="{"good" if point.passed else "bad"}">{"✓ pass" if point.passed else "✗ fail"}</td>'
            f"<td>{escape(point.asks)}</td><td>{escape(point.fact)}</td></tr>"
            for point in checklist(self.gathered)
        )
        return (
            f'<div class="scroll"><table class="text"><tr><th></th><th>point</th><th>here</th></tr>{rows}</table></div>'
        )

    def configuration(self) -> str:
        """Exactly what ran, with what, and whom to cite."""
        return configuration(self.gathered)

    # -- parts ----------------------------------------------------------------------------------------------------

    def show(self, setting: str, chart: Chart) -> str:
        """The place of a chart; it is drawn there by the page's script."""
        self.charts.append((setting, chart))
        self.specs.append({"spec": chart.bare(), "tables": chart.columns()})
        title, place = escape(chart.title), len(self.specs) - 1
        return (
            f'<figure class="span{chart.span}"><h3>{title}</h3>'
            f'<div class="chart" role="img" aria-label="{title}" data-chart="{place}"></div>'
            f"<figcaption>{escape(chart.caption)}</figcaption></figure>"
        )

    def _each(self, make: Callable[[Setting], str]) -> str:
        """One block a setting; with several, the page shows the one that is chosen."""
        bodies = [make(setting) for setting in self.gathered.settings]
        if len(bodies) < 2:
            return "".join(bodies)
        return "".join(
            f'<div class="of-setting" data-setting="{at}"><h3 class="setting">{escape(setting.name)}</h3>{body}</div>'
            for at, (setting, body) in enumerate(zip(self.gathered.settings, bodies, strict=True))
            if body
        )

    def _drawn(self, figures: Callable[[Setting], Sequence[Chart]]) -> str:
        def make(setting: Setting) -> str:
            drawn = "".join(self.show(setting.name, chart) for chart in figures(setting))
            return f'<div class="figures">{drawn}</div>' if drawn else ""

        return self._each(make)

    def _selector(self) -> str:
        if len(self.gathered.settings) < 2:
            return ""
        options = "".join(
            f'<option value="{at}">{escape(s.name)}</option>' for at, s in enumerate(self.gathered.settings)
        )
        return f'<label>setting <select id="setting">{options}<option value="">all</option></select></label>'

    def _facts(self) -> str:
        gathered = self.gathered
        made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
        if len(gathered.settings) == 1:
            return f"{escape(description(gathered.settings[0]))} · Sortition {__version__} · {made}"
        seeds = len({run.seed for run in gathered.runs})
        counts = (
            f"{len(gathered.methods)} methods · {len(gathered.settings)} settings · {seeds} seed{'s' * (seeds != 1)}"
        )
        return f"{counts} · Sortition {__version__} · {made}"

    def _left_out(self) -> str:
        if not self.gathered.left_out:
            return ""
        listed = "".join(f"<li>{escape(text)}</li>" for text in self.gathered.left_out[:12])
        more = len(self.gathered.left_out) - 12
        rest = f"<li>and {more} more</li>" if more > 0 else ""
        return f'<div class="warn">Left out or mixed:<ul>{listed}{rest}</ul></div>'


def _heading(key: str) -> str:
    return f"<h2>{SECTIONS[key]}</h2>" if SECTIONS[key] else ""


def _text(name: str) -> str:
    return (files("sortition.report") / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _library() -> str:
    """Vega, Vega-Lite and vega-embed, as vl-convert carries them: no download."""
    import vl_convert

    bundle = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    return str(bundle).replace("</script", "<\\/script")


def _known(value: Any) -> Any:
    """The same with null for numbers that are not finite, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_known(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

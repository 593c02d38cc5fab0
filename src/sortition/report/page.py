"""The page: one file, no network. Prose and tables are HTML, charts are drawn when they come into view."""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import Any

from sortition import __version__
from sortition.report import guard_section, losses_section, privacy, tables
from sortition.report.charts import Chart, cost, federation, learning, method_notes, selection
from sortition.report.checklist import checklist
from sortition.report.gather import Gathered, Setting
from sortition.report.palette import Palette
from sortition.report.verdicts import description, verdict_lines

SECTIONS = {
    "overview": "Overview",
    "learning": "Learning",
    "selected": "Who was selected",
    "method_notes": "What the method saw",
    "losses": "Lost on the way, and adversaries",
    "cost": "Cost and privacy",
    "federation": "Federation",
    "checklist": "Reviewer's checklist",
    "configuration": "Configuration",
}


NOTE = (
    "Mean ± sd over seeds. Differences are paired over seeds; their 95 % intervals hold for all methods of the setting "
    "together, and the verdicts follow from them. Rounds to the target (of the 5-round mean) count only seeds that "
    "reached it. Jain's index is relative to availability."
)


class Page:
    """Collects sections and charts, then renders them."""

    def __init__(self, gathered: Gathered) -> None:
        self.gathered = gathered
        self.palette = Palette(gathered.methods, gathered.names)
        self.specs: list[dict[str, Any]] = []
        self.figures: list[tuple[str, Chart]] = []

    def render(self, refresh: float | None = None) -> str:
        """The whole page; with ``refresh``, one that loads itself anew every so many seconds."""
        bodies = {key: getattr(self, key)() for key in SECTIONS}
        shown = {key: body for key, body in bodies.items() if body}
        parts = [f'<section id="{key}"><h2>{SECTIONS[key]}</h2>{body}</section>' for key, body in shown.items()]
        links = "".join(f'<a href="#{key}">{SECTIONS[key]}</a>' for key in shown)
        data = json.dumps(self.specs, separators=(",", ":")).replace("<", "\\u003c")  # no text can end the script
        reload = f'<meta http-equiv="refresh" content="{refresh:g}">' if refresh else ""
        made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
        title = " · ".join(setting.name for setting in self.gathered.settings[:3])
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8">{reload}'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
            f"<title>Sortition: {escape(title)}</title><style>{_text('page.css')}</style></head><body>"
            f"<h1>Who trained, and what came of it</h1>"
            f'<p class="soft">Sortition {__version__} · {len(self.gathered.methods)} methods · {made}</p>'
            f"<nav>{links}</nav>{self._left_out()}{''.join(parts)}"
            f'<script type="application/json" id="specs">{data}</script>'
            f"<script>{_library()}</script><script>{_text('page.js')}</script></body></html>"
        )

    # -- sections -------------------------------------------------------------------------------------------------

    def overview(self) -> str:
        """First screen: the setting in one line, the answer in words, the main table."""
        parts = []
        for setting in self.gathered.settings:
            parts.append(f"<h3>{escape(setting.name)}</h3><p>{escape(description(setting))}</p>{_verdicts(setting)}")
            parts.append(self._table(setting))
        parts.append(self._show("all", learning.overview(self.gathered, self.palette)))
        return "".join(parts)

    def learning(self) -> str:
        """Curves."""
        return self._each(lambda setting: learning.figures(setting, self.palette))

    def selected(self) -> str:
        """Counts, timelines, mixtures, and where guards acted."""
        return self._each(lambda setting: selection.figures(setting, self.palette)) + guard_section.guard_table(
            self.gathered
        )

    def method_notes(self) -> str:
        """Pictures from the notes."""
        return self._each(method_notes.figures)

    def losses(self) -> str:
        """Dropouts, faults and what adversaries captured; nothing where nothing went wrong."""
        return losses_section.loss_tables(self.gathered)

    def cost(self) -> str:
        """Traffic and the privacy label of each method."""
        return self._each(cost.figures) + privacy.privacy_table(self.gathered)

    def federation(self) -> str:
        """The partition and who is there."""
        return self._each(federation.figures)

    def checklist(self) -> str:
        """What reviewers ask."""
        rows = "".join(
            f'<tr><td class="{"good" if point.passed else "bad"}">{"✓ pass" if point.passed else "✗ fail"}</td>'
            f"<td>{escape(point.asks)}</td><td>{escape(point.fact)}</td></tr>"
            for point in checklist(self.gathered)
        )
        return f'<table class="text"><tr><th></th><th>point</th><th>here</th></tr>{rows}</table>'

    def configuration(self) -> str:
        """Exactly what ran, with what, and whom to cite."""
        parts, cited = [], {}
        for setting in self.gathered.settings:
            for label, runs in setting.methods.items():
                run = runs[0]
                text, title = json.dumps(run.config, indent=1, ensure_ascii=False), escape(f"{setting.name} · {label}")
                parts.append(f"<details><summary>{title}</summary><pre>{escape(text)}</pre></details>")
                cited[run.name] = str(run.manifest.get("cite") or "")
        first = self.gathered.settings[0].first
        facts = {key: first.manifest[key] for key in first.manifest if key not in ("cite", "needs")}
        seeds = "; ".join(f"{s.name}: {', '.join(map(str, s.seeds))}" for s in self.gathered.settings)
        bibtex = "\n\n".join(dict.fromkeys(text for text in cited.values() if text))
        return (
            f"<p>Seeds: {escape(seeds)}.</p>{''.join(parts)}"
            f"<details><summary>Versions and hashes</summary><pre>{escape(json.dumps(facts, indent=1))}</pre></details>"
            f"<details open><summary>BibTeX</summary><pre>{escape(bibtex)}</pre></details>"
        )

    # -- parts ----------------------------------------------------------------------------------------------------

    def _each(self, figures: Any) -> str:
        parts = []
        for setting in self.gathered.settings:
            made = figures(setting)
            if made and len(self.gathered.settings) > 1:
                parts.append(f"<h3>{escape(setting.name)}</h3>")
            parts += [self._show(setting.name, figure) for figure in made]
        return "".join(parts)

    def _show(self, setting: str, figure: Chart) -> str:
        self.figures.append((setting, figure))
        self.specs.append({"spec": figure.bare(), "tables": figure.columns()})
        title, place = escape(figure.title), len(self.specs) - 1
        return (
            f'<figure><h3>{title}</h3><div class="chart" role="img" aria-label="{title}" data-chart="{place}"></div>'
            f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
        )

    def _table(self, setting: Setting) -> str:
        """What decides first; every figure behind a fold."""
        main, every = (self._rows(tables.rows(setting, whole), setting) for whole in (False, True))
        return f'{main}<p class="soft">{NOTE}</p><details><summary>All figures</summary>{every}</details>'

    def _rows(self, rows: list[tables.Row], setting: Setting) -> str:
        head = "".join(f"<th>{escape(key)}</th>" for key in rows[0].cells)
        body = ""
        for row in rows:
            kind = tables.COLOURS.get(row.comparison.verdict if row.comparison else "", "even")
            seeds = f"{row.finished}/{row.seeds}" if row.finished < row.seeds else f"{row.seeds}"
            cells = "".join(f"<td>{escape(cell)}</td>" for cell in row.cells.values())
            swatch = f'<span class="swatch" style="border-color:{self.palette.colour(row.label)}"></span>'
            chip = f'<span class="chip {kind}">{escape(row.verdict or "–")}</span>'
            body += f'<tr><td class="name">{swatch}{escape(row.label)}</td><td>{chip}</td><td>{seeds}</td>{cells}</tr>'
        first = f"<th>method</th><th>against {escape(setting.baseline or '–')}</th><th>seeds</th>"
        return f'<div class="scroll"><table><tr>{first}{head}</tr>{body}</table></div>'

    def _left_out(self) -> str:
        if not self.gathered.left_out:
            return ""
        items = "".join(f"<li>{escape(text)}</li>" for text in self.gathered.left_out[:12])
        more = len(self.gathered.left_out) - 12
        rest = f"<li>and {more} more</li>" if more > 0 else ""
        return f'<div class="answer warn">Left out or mixed:<ul>{items}{rest}</ul></div>'


def _verdicts(setting: Setting) -> str:
    items = "".join(f'<li class="{kind}">{escape(text)}</li>' for kind, text in verdict_lines(setting))
    return f'<div class="answer"><ul>{items}</ul></div>'


def _text(name: str) -> str:
    return (files("sortition.report") / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _library() -> str:
    """Vega, Vega-Lite and vega-embed, as vl-convert carries them: no download."""
    import vl_convert

    bundle = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    return str(bundle).replace("</script", "<\\/script")

"""The page: one file, no network. Prose and tables are HTML, charts are drawn when they come into view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from html import escape

from sortition import __version__
from sortition.report import overview
from sortition.report.charts import Chart, by_cost, learning, method_notes, selection, who_holds_what
from sortition.report.checklist import review_points
from sortition.report.configuration import configuration_html
from sortition.report.description import describe_setting
from sortition.report.document import Canvas, html_document
from sortition.report.gather import Gathered, Setting
from sortition.report.guard_section import guard_html
from sortition.report.look import FigureStyle, Look
from sortition.report.losses_section import losses_html
from sortition.report.measured_trust import trust_section_html
from sortition.report.palette import Palette
from sortition.report.policy_section import policy_html
from sortition.report.privacy import privacy_html
from sortition.report.speed_section import speed_html
from sortition.report.verdicts import first_sentence
from sortition.results.equal_cost import devices_differ

SECTIONS = {
    "overview": "",
    "learning": "Learning",
    "cost": "Cost and privacy",
    "selected": "Who was chosen",
    "method_notes": "What the method saw",
    "losses": "Lost on the way",
    "federation": "Federation",
    "checklist": "Reviewer's checklist",
    "configuration": "Configuration",
}
WITH_ADVERSARIES = "Lost on the way, and adversaries"
MOST_WARNINGS = 12
EQUAL_DEVICES = (
    "All devices are equally fast here, so that seconds follow from the amount of work alone. "
    "devices = { speed_spread = 1.0 } in the study makes them differ, and methods are then compared by seconds."
)


class Page:
    """Collects sections and charts, then renders them; with a style, its charts are those of files."""

    def __init__(self, gathered: Gathered, style: FigureStyle | None = None) -> None:
        self.gathered = gathered
        palette = Palette(gathered.methods, gathered.names)
        self.look = Look(palette) if style is None else Look.of_files(palette, style)
        self.canvas = Canvas()

    @property
    def charts(self) -> list[tuple[str, Chart]]:
        """All charts so far, each with its setting."""
        return self.canvas.charts

    def render(self, progress: str = "") -> str:
        """Return the whole page; ``progress`` is markup above it, of a page that is still growing."""
        return html_document(
            self.canvas,
            title=self.gathered.title,
            lead=first_sentence(self.gathered),
            subtitle=self._subtitle(),
            bodies={
                "overview": self.overview(),
                "learning": self.learning(),
                "cost": self.cost(),
                "selected": self.selected(),
                "method_notes": self.method_notes(),
                "losses": self.losses(),
                "federation": self.federation(),
                "checklist": self.checklist(),
                "configuration": self.configuration(),
            },
            headings=self._headings(),
            above=progress,
            selector=self._setting_switch_html() + self._axis_switch_html(),
            warnings=self._warnings_html(),
        )

    # -- sections: each returns its markup -----------------------------------------------------------------------------

    def overview(self) -> str:
        """Return the first screen: cards, forest plots, the main table; ranks and sweeps of several settings."""
        all_settings = overview.all_settings_html(self.gathered, self.look, self.canvas)

        def block(setting: Setting) -> str:
            markup = overview.setting_html(setting, self.look, self.canvas)
            if len(self.gathered.settings) == 1:  # described at the top of the page
                return markup
            return f'<p class="soft">{escape(describe_setting(setting))}</p>{markup}'

        return all_settings + self._each_setting(block)

    def learning(self) -> str:
        """Return the curves, and how to make seconds count where all devices are equally fast."""
        figures = self._add_figures(lambda setting: learning.draw_charts(setting, self.look))
        if any(devices_differ(setting.first.config) for setting in self.gathered.settings):
            return figures
        return f'{figures}<p class="soft">{escape(EQUAL_DEVICES)}</p>'

    def cost(self) -> str:
        """Return accuracy against cost, traffic, and the privacy label of each method."""
        return self._add_figures(lambda setting: by_cost.draw_charts(setting, self.look)) + privacy_html(self.gathered)

    def selected(self) -> str:
        """Return counts, timelines, mixtures, what speed cost whom, and where policy and guards acted."""
        figures = self._add_figures(lambda setting: selection.draw_charts(setting, self.look))
        guards = guard_html(self.gathered) + trust_section_html(self.gathered)
        return figures + speed_html(self.gathered) + policy_html(self.gathered) + guards

    def method_notes(self) -> str:
        """Return the pictures that methods left in their notes."""
        return self._add_figures(method_notes.draw_charts)

    def losses(self) -> str:
        """Return dropouts, faults and what adversaries captured; nothing where nothing went wrong."""
        return losses_html(self.gathered)

    def federation(self) -> str:
        """Return who holds what, and who is reachable when."""
        return self._add_figures(who_holds_what.draw_charts)

    def checklist(self) -> str:
        """Return the table of what reviewers ask, and whether these runs pass."""
        rows = ""
        for point in review_points(self.gathered):
            if point.passed:
                mark = '<td class="good">✓ pass</td>'
            else:
                mark = '<td class="bad">✗ fail</td>'
            rows += f"<tr>{mark}<td>{escape(point.asks)}</td><td>{escape(point.fact)}</td></tr>"
        return (
            f'<div class="scroll"><table class="text"><tr><th></th><th>point</th><th>here</th></tr>{rows}</table></div>'
        )

    def configuration(self) -> str:
        """Return what exactly ran, with which versions, and whom to cite."""
        return configuration_html(self.gathered)

    # -- parts ----------------------------------------------------------------------------------------------------

    def _each_setting(self, make: Callable[[Setting], str]) -> str:
        """Return one block a setting; with several, the page shows the one that is chosen."""
        settings = self.gathered.settings
        if len(settings) == 1:
            return make(settings[0])
        blocks = []
        for number, setting in enumerate(settings):
            body = make(setting)
            if body:
                heading = f'<h3 class="setting">{escape(setting.name)}</h3>'
                blocks.append(f'<div class="of-setting" data-setting="{number}">{heading}{body}</div>')
        return "".join(blocks)

    def _add_figures(self, figures: Callable[[Setting], Sequence[Chart | str]]) -> str:
        """Add the charts of every setting; return the markup of their places, and of sentences that replace charts."""
        return self._each_setting(lambda setting: self.canvas.add_figures(setting.name, figures(setting)))

    def _headings(self) -> dict[str, str]:
        """Return the headings of the sections; one of them names adversaries where a setting has some."""
        is_attacked = any(setting.first.config.get("attacks") for setting in self.gathered.settings)
        if not is_attacked:
            return SECTIONS
        return {**SECTIONS, "losses": WITH_ADVERSARIES}

    def _setting_switch_html(self) -> str:
        """Return the switch between settings; nothing where there is only one."""
        if len(self.gathered.settings) < 2:
            return ""
        options = "".join(
            f'<option value="{number}">{escape(setting.name)}</option>'
            for number, setting in enumerate(self.gathered.settings)
        )
        return f'<label>setting <select id="setting">{options}<option value="">all</option></select></label>'

    def _axis_switch_html(self) -> str:
        """Return the one switch that sets the axis of every curve on the page: rounds, and the costs that runs have."""
        settings = self.gathered.settings
        currencies = {axis.currency for setting in settings for axis in learning.cost_axes(setting)}
        chosen = settings[0].comparison.currency
        options = "".join(
            f'<option value="{currency}"{" selected" if currency == chosen else ""}>{title}</option>'
            for currency, title in learning.AXES.items()
            if currency in currencies
        )
        return f'<label>curves over <select id="axis">{options}</select></label>'

    def _subtitle(self) -> str:
        """Return the line below the headline: what was run, the version of Sortition, and when the page was written."""
        gathered = self.gathered
        if len(gathered.settings) == 1:
            summary = escape(describe_setting(gathered.settings[0]))
        else:
            n_seeds = len({run.seed for run in gathered.runs})
            seeds = "1 seed" if n_seeds == 1 else f"{n_seeds} seeds"
            summary = f"{len(gathered.methods)} methods · {len(gathered.settings)} settings · {seeds}"
        written_at = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
        return f"{summary} · Sortition {__version__} · {written_at}"

    def _warnings_html(self) -> str:
        """Return the warnings: runs left out, unfinished or mixed, missing costs; nothing where all is well."""
        warnings = self.gathered.warnings
        if not warnings:
            return ""
        listed = "".join(f"<li>{escape(text)}</li>" for text in warnings[:MOST_WARNINGS])
        if len(warnings) > MOST_WARNINGS:
            listed += f"<li>and {len(warnings) - MOST_WARNINGS} more</li>"
        return f'<div class="warn">What to know of these runs:<ul>{listed}</ul></div>'

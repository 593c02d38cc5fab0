"""The page: one file, no network. Prose and tables are HTML, charts are drawn when they come into view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from html import escape

from sortition import __version__
from sortition.report import overview
from sortition.report.charts import Chart, cost, federation, learning, method_notes, selection
from sortition.report.checklist import checklist
from sortition.report.configuration import configuration
from sortition.report.description import description
from sortition.report.document import Canvas, html_document
from sortition.report.gather import Gathered, Setting
from sortition.report.guard_section import guard_table
from sortition.report.losses_section import loss_tables
from sortition.report.palette import Palette
from sortition.report.privacy import privacy_table
from sortition.report.verdicts import answer

SECTIONS = {
    "overview": "",
    "learning": "Learning",
    "cost": "Cost and privacy",
    "selected": "Who was selected",
    "method_notes": "What the method saw",
    "losses": "Lost on the way",
    "federation": "Federation",
    "checklist": "Reviewer's checklist",
    "configuration": "Configuration",
}


WITH_ADVERSARIES = "Lost on the way, and adversaries"


class Page:
    """Collects sections and charts, then renders them."""

    def __init__(self, gathered: Gathered) -> None:
        self.gathered = gathered
        self.palette = Palette(gathered.methods, gathered.names)
        self.canvas = Canvas()

    @property
    def charts(self) -> list[tuple[str, Chart]]:
        """All charts so far, each with its setting."""
        return self.canvas.charts

    def render(self, progress: str = "") -> str:
        """The whole page; ``progress`` is markup above it, of a page that is still growing."""
        return html_document(
            self.canvas,
            title=self.gathered.title,
            lead=answer(self.gathered),
            facts=self._facts(),
            bodies={key: getattr(self, key)() for key in SECTIONS},
            headings=SECTIONS | ({"losses": WITH_ADVERSARIES} if self._attacked else {}),
            above=progress,
            selector=self._selector(),
            warnings=self._left_out(),
        )

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
        """The place of a chart."""
        return self.canvas.show(setting, chart)

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

    def _drawn(self, figures: Callable[[Setting], Sequence[Chart | str]]) -> str:
        """Charts, and below them the sentences that stand for charts without anything to see."""
        return self._each(lambda setting: self.canvas.drawn(setting.name, figures(setting)))

    @property
    def _attacked(self) -> bool:
        """Whether some setting has adversaries."""
        return any(setting.first.config.get("attacks") for setting in self.gathered.settings)

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

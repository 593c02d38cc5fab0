"""The page of a federation: who was chosen, what became of them, what was asked, and how long it took."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from html import escape

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import printable
from sortition.core.round_record import FATES, Fate
from sortition.report.charts import Chart, fates, who_holds_what
from sortition.report.charts.method_notes import draw_notes
from sortition.report.description import count_text
from sortition.report.document import Canvas, html_document
from sortition.report.guard_section import guard_actions_html
from sortition.report.history_digest import HistoryDigest
from sortition.report.markup import Cell, duration_text, sortable_table_html, table_html
from sortition.report.overview import card_html
from sortition.report.policy_section import count_exclusions, exclusions_html
from sortition.report.privacy import needs_html
from sortition.report.tables import short_number_text
from sortition.report.verdicts import Card
from sortition.results.table import Table

SECTIONS = {
    "overview": "",
    "chosen": "Who was chosen",
    "fates": "What became of them",
    "questions": "Questions and privacy",
    "time": "Time",
    "method_notes": "What the method saw",
    "federation": "Federation",
    "configuration": "Configuration",
}
MEANINGS: dict[Fate, str] = {
    "used": "the update is part of the model, of this round's or, where rounds overlap, of a later one's",
    "standby": "not needed: the round had closed with enough answers",
    "withdrawn": "not sent to work: another federation had used up its limit meanwhile",
    "silent": "no answer before the round closed, though it was waited for",
    "failed": "the client's program raised an error, or its connection broke",
    "left out": "an update arrived that cannot be used",
    "given up": "nobody waits for the update any longer",
    "too stale": "an update arrived after too many versions of the model",
    "still at work": "no round has used the update so far, and the client's work is not over",
    "lost": "not used; the record does not say why",
}
NEEDED = tuple(fate for fate in FATES if fate not in ("standby", "withdrawn", "still at work"))
NO_TEST_FIGURES = (
    "The history of a federation has no test figures, so this page has no learning curves, gains or verdicts: "
    "those are of studies, which simulate several methods side by side. Traffic is not measured either."
)
MOST_LABELS = 1_000  # that have a colour each in a chart
ROWS = 500  # clients that the table lists
REASONS = 50  # that the table lists
MOST_CELLS = 1 << 26  # of the table of rounds × clients that the chart of availability needs


class HistoryPage:
    """Makes the sections of a federation's page, then renders them."""

    def __init__(self, digest: HistoryDigest) -> None:
        self.digest = digest
        self.history = digest.history
        self.canvas = Canvas()

    def render(self) -> str:
        """Return the whole page."""
        return html_document(
            self.canvas,
            title=f"Federation {printable(self.history.title)}",
            lead=self.lead(),
            subtitle=self.subtitle(),
            bodies={
                "overview": self.overview(),
                "chosen": self.chosen(),
                "fates": self.fates(),
                "questions": self.questions(),
                "time": self.time(),
                "method_notes": self.method_notes(),
                "federation": self.federation(),
                "configuration": self.configuration(),
            },
            headings=SECTIONS,
        )

    def lead(self) -> str:
        """Say in two sentences what happened."""
        totals = self.digest.totals
        requested = sum(totals.values())
        if self.history.backend:
            backend = f" of a federation run by {self.history.backend}"
        else:
            backend = ""
        rounds = count_text(len(self.digest.records), "round")
        method = self.history.method[0].upper() + self.history.method[1:]  # "the method" where it is unknown
        choice = f"{method} chose among {self.history.clients:,} clients in {rounds}{backend}"
        if not requested:
            return f"{choice}: nobody was ever chosen."
        unused = [f"{totals[fate]:,} {fate}" for fate in FATES if fate != "used" and fate in totals]
        listed = f" ({', '.join(unused)})" if unused else ""
        usage = f"{totals.get('used', 0):,} of {requested:,} updates that were asked for were used{listed}"
        return f"{choice}: {usage}. {self._never_chosen_sentence()}"

    def _never_chosen_sentence(self) -> str:
        """Say how many clients were never chosen, of those that could be."""
        choice_counts = self.digest.choice_counts
        count = choice_counts.never_chosen
        restriction = "" if choice_counts.candidates.all() else " that could be chosen"
        if count == 0:
            return f"Every client{restriction} was chosen at least once."
        if count == 1:
            return f"1 client{restriction} was never chosen."
        return f"{count:,} clients{restriction} were never chosen."

    def subtitle(self) -> str:
        """Return the line below the title: the file, what wrote it, and when this page was made."""
        run_description = self.history.about
        written_at = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
        parts = [printable(self.history.path.name), self.history.backend, f"{self.history.cohort} clients a round"]
        overselect = run_description.get("overselect", 1.0)
        if overselect != 1.0:
            parts.append(f"{overselect:g} × over-selected")
        version = run_description.get("sortition")
        if version:
            parts.append(f"Sortition {printable(str(version))}")
        parts.append(written_at)
        return escape(" · ".join(part for part in parts if part))

    # -- sections: each returns its markup -----------------------------------------------------------------------------

    def overview(self) -> str:
        """Return the cards, and what the page cannot show."""
        cards = "".join(map(card_html, self.cards()))
        return f'<div class="cards">{cards}</div><p class="soft">{NO_TEST_FIGURES}</p>'

    def cards(self) -> list[Card]:
        """Return up to six figures: rounds, clients, updates, who was never chosen, evenness, time."""
        digest = self.digest
        totals = digest.totals
        needed = sum(totals.get(fate, 0) for fate in NEEDED)
        used = totals.get("used", 0)
        skipped = sum(not outcome for outcome in digest.outcomes)
        choice_counts = digest.choice_counts
        candidates = int(choice_counts.candidates.sum())
        cards = [
            Card(
                title="rounds",
                value=f"{len(digest.records):,}",
                detail=f"{skipped:,} without a cohort" if skipped else "all with a cohort",
            ),
            Card(
                title="clients",
                value=f"{self.history.clients:,}",
                detail=f"{candidates:,} were ever available",
            ),
            Card(
                title="updates used",
                value=_percent(used, needed),
                detail=f"{used:,} of {needed:,} that were needed",
            ),
            Card(
                title="never chosen",
                value=f"{choice_counts.never_chosen:,}",
                detail=f"of {candidates:,} clients that could be",
            ),
        ]
        if choice_counts.jain is not None:
            if digest.available is None:
                relative = ""
            else:
                relative = "; relative to availability"
            cards.append(
                Card(title="evenness (Jain)", value=f"{choice_counts.jain:.2f}", detail=f"1 is even{relative}")
            )
        if digest.total_seconds is not None:
            median = duration_text(float(np.median(digest.durations)))
            cards.append(
                Card(title="time", value=duration_text(digest.total_seconds), detail=f"{median} a round (median)")
            )
        return cards

    def chosen(self) -> str:
        """Return the strip, counts, the table of clients, and where policy and guards acted."""
        method = self.history.method
        charts = self._add_figures(fates.draw_charts(self.digest))
        exclusions = exclusions_html({method: count_exclusions(self.history.records)})
        return charts + self.client_table() + exclusions + guard_actions_html({method: self.digest.guarded})

    def client_table(self) -> str:
        """Return how often each client was there, was chosen, and what became of it."""
        digest = self.digest
        counts: dict[str, Array] = {}
        if digest.available is not None:
            counts["available"] = digest.available
        counts["chosen"] = digest.chosen
        counts |= {fate: digest.by_client[fate] for fate in FATES if fate in digest.totals}
        if digest.late.any():
            counts["late answers"] = digest.late
        body = []
        for client in np.argsort(-digest.chosen, kind="stable")[:ROWS].tolist():
            name = Cell(self.history.names.short_name(client), kind="name")
            body.append([name, _number_cell(client), *[_number_cell(column[client]) for column in counts.values()]])
        note = "In how many rounds a client could be chosen, was chosen, and what became of it; a heading sorts."
        if self.history.clients > ROWS:
            note += f" The {ROWS} of {self.history.clients:,} clients that were chosen most often."
        table = sortable_table_html(["client", "id", *counts], body, "plain")
        is_open = " open" if len(body) <= 30 else ""
        return f'<details{is_open}><summary>Every client</summary>{table}<p class="soft">{note}</p></details>'

    def fates(self) -> str:
        """Return the totals, the rounds, and why updates could not be used."""
        totals = self.digest.totals
        if not totals:
            return ""
        chosen = sum(totals.values())
        table = Table("", ["what became of it", "times", "share", "meaning"], prose=("meaning",))
        for fate in FATES:
            if fate in totals:
                table.rows.append([fate, f"{totals[fate]:,}", _percent(totals[fate], chosen), MEANINGS[fate]])
        if late := int(self.digest.late.sum()):
            meaning = "an answer to an earlier round, counted there as silent, standby or given up"
            table.rows.append(["late", f"{late:,}", "", meaning])
        return (
            _text_table_html(table) + self._add_figures([fates.draw_fates_by_round(self.digest)]) + self.reason_table()
        )

    def reason_table(self) -> str:
        """Return what programs and the server said of updates that could not be used; empty where all could."""
        reasons = self.digest.reasons
        if not reasons:
            return ""
        table = Table("Why updates could not be used", ["what was said", "times", "fate", "clients"])
        for reason in reasons[:REASONS]:
            clients = self.history.names.list_clients([client for client, _ in reason.clients.most_common()], most=6)
            table.rows.append(
                [printable(reason.text.strip(), 300), f"{reason.clients.total():,}", reason.fate, clients]
            )
        if len(reasons) > REASONS:
            table.notes.append(f"The {REASONS} most frequent of {len(reasons):,} reasons.")
        return _text_table_html(table)

    def questions(self) -> str:
        """Return what the method asked, and what the server sees."""
        asked = self.digest.asked
        label = needs_html({self.history.method: self.history.about.get("needs")})
        if not asked:
            return f"<p>Clients were asked nothing before they were chosen.</p>{label}"
        heads = ["signal", "rounds", "clients asked", "answered", "numbers sent", "trained for a rehearsal"]
        table = Table("", heads, notes=["Totals of all rounds: what clients were asked before anybody was chosen."])
        for signal, total in asked.items():
            table.rows.append(
                [
                    printable(signal),
                    f"{total.rounds:,}",
                    f"{total.n_asked:,}",
                    f"{total.n_answered:,} ({_percent(total.n_answered, total.n_asked)})",
                    short_number_text(total.floats),
                    f"{total.rehearsals:,}",
                ]
            )
        return table_html(table) + label

    def time(self) -> str:
        """Return the chart of the seconds of rounds, where the history has a clock."""
        chart = fates.draw_durations(self.digest)
        if chart is None:
            return ""
        return self._add_figures([chart])

    def method_notes(self) -> str:
        """Return the pictures that the method left in its notes."""
        return self._add_figures(
            draw_notes(self.history.method, self.digest.pictures, self.digest.facts.get("label_counts"))
        )

    def federation(self) -> str:
        """Return the facts of the clients and who was there, where that is known."""
        charts: list[Chart | str] = []
        facts = self.digest.facts
        if "label_counts" in facts and facts["label_counts"].shape[1] <= MOST_LABELS:
            charts.append(who_holds_what.draw_label_holdings(facts["label_counts"]))
        if "sizes" in facts:
            charts.append(who_holds_what.draw_size_histogram(facts["sizes"]))
        elif "label_counts" in facts:
            charts.append(who_holds_what.draw_size_histogram(facts["label_counts"].sum(axis=1)))
        cells = self.history.clients * len(self.digest.records)
        if self.digest.available is not None and cells <= MOST_CELLS:
            mask = np.zeros((len(self.digest.records), self.history.clients), bool)
            for row, ids in zip(mask, self.history.present(), strict=True):
                row[ids] = True
            charts.append(who_holds_what.draw_presence(mask, first=self.digest.records[0]["round"]))
        return self._add_figures(charts)

    def configuration(self) -> str:
        """Return the content of NAME.about.json without the names, which the table shows."""
        run_description = {key: value for key, value in self.history.about.items() if key != "names"}
        if not run_description:
            return ""
        return f"<pre>{escape(json.dumps(run_description, indent=1, ensure_ascii=False))}</pre>"

    def _add_figures(self, charts: Sequence[Chart | str]) -> str:
        return self.canvas.add_figures(self.history.title, charts)


def _text_table_html(table: Table) -> str:
    """Return a table whose cells are words, which may break into lines."""
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    title = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in table.notes)
    return f'{title}<div class="scroll"><table class="text"><tr>{head}</tr>{rows}</table></div>{notes}'


def _number_cell(value: int) -> Cell:
    return Cell(f"{value:,}", float(value))


def _percent(part: int, whole: int) -> str:
    if whole:
        return f"{100 * part / whole:.0f} %"
    return "–"

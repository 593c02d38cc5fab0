"""What was lost on the way, by method, and what adversaries captured; empty where nothing went wrong."""

from __future__ import annotations

from html import escape

from sortition.report.gather import Gathered
from sortition.results.attrition_tables import Attacked, capture, losses
from sortition.results.table import Table


def loss_tables(gathered: Gathered) -> str:
    """A table for each setting in which work was lost, and those of all settings in which clients attacked."""
    made = [
        losses(setting.name, {label: [run.attrition for run in runs] for label, runs in setting.methods.items()})
        for setting in gathered.settings
    ]
    attacked = [
        Attacked(s.name, s.first.config, {label: [run.figures for run in runs] for label, runs in s.methods.items()})
        for s in gathered.settings
    ]
    return "".join(_html(table) for table in (*capture(attacked), *made) if table is not None)


def _html(table: Table) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.columns)
    body = "".join(
        f'<tr><td class="name">{escape(row[0])}</td>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in table.rows
    )
    notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in table.notes)
    return f'<h3>{escape(table.title)}</h3><div class="scroll"><table><tr>{head}</tr>{body}</table></div>{notes}'

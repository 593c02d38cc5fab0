"""What was lost on the way, by method, and what adversaries captured; empty where nothing went wrong."""

from __future__ import annotations

from sortition.report.gather import Gathered
from sortition.report.markup import table_html
from sortition.results.attrition_tables import Attacked, capture_tables, losses_table


def losses_html(gathered: Gathered) -> str:
    """Return the tables of attacks, and one for each setting in which work was lost, as markup."""
    attacked = []
    losses_by_setting = []
    for setting in gathered.settings:
        totals = {}
        for label, runs in setting.methods.items():
            finished = [run.attrition for run in runs if run.done]
            if finished:
                totals[label] = finished
        losses_by_setting.append(losses_table(setting.name, totals))
        figures = {label: [run.figures for run in runs] for label, runs in setting.methods.items()}
        attacked.append(Attacked(name=setting.name, config=setting.first.config, figures=figures))
    tables = [*capture_tables(attacked), *losses_by_setting]
    return "".join(table_html(table) for table in tables if table is not None)

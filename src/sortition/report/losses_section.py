"""What was lost on the way, by method, and what adversaries captured; empty where nothing went wrong."""

from __future__ import annotations

from sortition.report.gather import Gathered
from sortition.report.markup import plain
from sortition.results.attrition_tables import Attacked, capture, losses


def loss_tables(gathered: Gathered) -> str:
    """A table for each setting in which work was lost, and those of all settings in which clients attacked."""
    made = []
    for setting in gathered.settings:
        finished = {label: [run.attrition for run in runs if run.done] for label, runs in setting.methods.items()}
        made.append(losses(setting.name, {label: found for label, found in finished.items() if found}))
    attacked = [
        Attacked(s.name, s.first.config, {label: [run.figures for run in runs] for label, runs in s.methods.items()})
        for s in gathered.settings
    ]
    return "".join(plain(table) for table in (*capture(attacked), *made) if table is not None)

"""What was lost on the way, by method, and what adversaries captured; empty where nothing went wrong."""

from __future__ import annotations

from sortition.report.gather import Gathered
from sortition.report.markup import plain
from sortition.results.attrition_tables import Attacked, capture, losses


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
    return "".join(plain(table) for table in (*capture(attacked), *made) if table is not None)

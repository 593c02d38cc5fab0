"""Where a policy acted: client-rounds that each rule left out, and what each rule costs, where that was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sortition.report.markup import plain
from sortition.results.policy_costs import PolicyRun, RuleCost, rule_costs
from sortition.results.statistics import Centre, half_width
from sortition.results.table import Table

if TYPE_CHECKING:
    from sortition.report.digest import Digest
    from sortition.report.gather import Gathered

NOBODY_ELIGIBLE = "rounds with nobody eligible"


def exclusions(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Count the client-rounds that each rule left out, and the rounds that were skipped for it."""
    totals: Counter[str] = Counter()
    for record in records:
        excluded = record.get("excluded")
        if isinstance(excluded, Mapping):
            totals.update({str(rule): count for rule, count in excluded.items() if isinstance(count, int)})
        if excluded and record.get("skipped"):
            totals[NOBODY_ELIGIBLE] += 1
    return dict(totals)


def policy_tables(gathered: Gathered) -> str:
    """Return the tables of a study's page; nothing where no policy acted."""
    counts_by_row: dict[str, Mapping[str, int]] = {}
    for setting in gathered.settings:
        for label, runs in setting.methods.items():
            if len(gathered.settings) > 1:
                row = f"{setting.name} · {label}"
            else:
                row = label
            totals: Counter[str] = Counter()
            for run in runs:
                totals.update(run.excluded)
            counts_by_row[row] = totals
    return exclusions_table(counts_by_row) + _costs_table(gathered)


def exclusions_table(counts_by_row: Mapping[str, Mapping[str, int]]) -> str:
    """Return how many client-rounds each rule left out, by row; nothing where none did."""
    rules = list(dict.fromkeys(rule for counts in counts_by_row.values() for rule in counts))
    if not rules:
        return ""
    table = Table("Client-rounds that the policy left out", ["method", *rules])
    for row, counts in counts_by_row.items():
        table.rows.append([row, *[str(counts.get(rule, 0)) for rule in rules]])
    return plain(table)


def _costs_table(gathered: Gathered) -> str:
    costs = rule_costs(_policy_run(run) for run in gathered.runs if run.done)
    if not costs:
        return ""
    columns = [
        "setting",
        "method",
        "rule",
        "seeds",
        "points of accuracy lost",
        "simulated seconds more",
        "rounds skipped",
    ]
    table = Table("What each rule costs", columns)
    for cost in costs:
        table.rows.append(_cells(cost))
    table.notes.append(
        "Runs with the whole policy beside the same seeds without the rule; ± is half the 95 % interval of the mean."
    )
    return plain(table)


def _cells(cost: RuleCost) -> list[str]:
    return [
        cost.setting,
        cost.method,
        cost.rule,
        str(cost.seeds),
        _mean(cost.accuracy, factor=100),
        _mean(cost.seconds),
        f"{cost.skipped:.1f}",
    ]


def _mean(centre: Centre | None, factor: float = 1.0) -> str:
    if centre is None:
        return "–"
    mean = f"{factor * centre.mean:+.2f}"
    if centre.n_known < 2:
        return mean
    width = float(half_width(np.array(centre.sd), np.array(centre.n_known)))
    return f"{mean} ± {factor * width:.2f}"


def _policy_run(run: Digest) -> PolicyRun:
    clock = run.costs["seconds"]
    seconds = float(clock[-1]) if clock.size else 0.0
    return PolicyRun(
        method=run.method,
        seed=run.seed,
        config=run.config,
        accuracy=run.figures.get("last-accuracy"),
        seconds=seconds,
        skipped=run.skipped,
    )

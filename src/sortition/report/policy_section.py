"""Where a policy acted: client-rounds that each rule left out, and what each rule costs, where that was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sortition.report.markup import table_html
from sortition.results.policy_costs import PolicyRun, RuleCost, rule_costs
from sortition.results.statistics import Centre, half_width
from sortition.results.table import Table

if TYPE_CHECKING:
    from sortition.report.digest import Digest
    from sortition.report.gather import Gathered

NOBODY_ELIGIBLE = "rounds with nobody eligible"


def count_exclusions(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Count the client-rounds that each rule left out, and the rounds that were skipped for it."""
    totals: Counter[str] = Counter()
    for record in records:
        excluded = record.get("excluded")
        if isinstance(excluded, Mapping):
            totals.update({str(rule): count for rule, count in excluded.items() if isinstance(count, int)})
        if excluded and record.get("skipped"):
            totals[NOBODY_ELIGIBLE] += 1
    return dict(totals)


def policy_html(gathered: Gathered) -> str:
    """Return the tables of a study's page; nothing where no policy acted."""
    counts_by_row: dict[str, Mapping[str, int]] = {}
    for row, runs in gathered.runs_by_row().items():
        totals: Counter[str] = Counter()
        for run in runs:
            totals.update(run.excluded)
        counts_by_row[row] = totals
    return exclusions_html(counts_by_row) + _rule_costs_html(gathered)


def exclusions_html(counts_by_row: Mapping[str, Mapping[str, int]]) -> str:
    """Return how many client-rounds each rule left out, by row; nothing where none did."""
    rules = list(dict.fromkeys(rule for counts in counts_by_row.values() for rule in counts))
    if not rules:
        return ""
    table = Table("Client-rounds that the policy left out", ["method", *rules])
    for row, counts in counts_by_row.items():
        table.rows.append([row, *[str(counts.get(rule, 0)) for rule in rules]])
    return table_html(table)


def _rule_costs_html(gathered: Gathered) -> str:
    """Return what each rule of a policy costs, where runs without it were made; else nothing."""
    costs = rule_costs(_as_policy_run(run) for run in gathered.runs if run.done)
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
        table.rows.append(_rule_cost_row(cost))
    table.notes.append(
        "Runs with the whole policy beside the same seeds without the rule; ± is half the 95 % interval of the mean."
    )
    return table_html(table)


def _rule_cost_row(cost: RuleCost) -> list[str]:
    return [
        cost.setting,
        cost.method,
        cost.rule,
        str(cost.seeds),
        _mean_text(cost.accuracy, factor=100),
        _mean_text(cost.seconds),
        f"{cost.skipped:.1f}",
    ]


def _mean_text(centre: Centre | None, factor: float = 1.0) -> str:
    """Write a mean with half its 95 % interval."""
    if centre is None:
        return "–"
    mean = f"{factor * centre.mean:+z.2f}"
    if centre.n_known < 2:
        return mean
    width = float(half_width(np.array(centre.sd), np.array(centre.n_known)))
    return f"{mean} ± {factor * width:.2f}"


def _as_policy_run(run: Digest) -> PolicyRun:
    """Return what the cost of rules is computed from."""
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

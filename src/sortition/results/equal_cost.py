"""Figures at equal cost: what a model was worth when every method had spent the same.

A test figure at a cost is that of the last evaluation at or before it. Nothing is extrapolated: beyond its last
evaluation a run has no figure, and all runs of a setting are compared at a budget that each of them has spent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from sortition.core.arrays import Array, Floats
from sortition.core.cost import CURRENCIES, Currency, Until, last_costs
from sortition.core.errors import unknown
from sortition.results import run_folder
from sortition.results.reference_lines import REFERENCES
from sortition.results.statistics import Budget
from sortition.results.sweeps import Config

Costs = Mapping[Currency, Floats]  # (E,) by currency, what a run had cost at each of its evaluations
AT_COST = "at-cost"  # the figure at the budget
AUC = "auc"  # the mean of the figure over the cost up to the budget: the area under the curve, divided by its width
KEYS_OF_EQUAL_DEVICES = ("speed", "bandwidth", "dropout")  # keys of [devices] under which all devices are equally fast


def checked_currency(cost: str, who: str) -> Currency:
    """Return a currency by its name, or refuse a name that is none."""
    for currency in CURRENCIES:
        if cost == currency:
            return currency
    raise unknown("cost", cost, CURRENCIES, who)


def devices_differ(config: Config) -> bool:
    """Tell whether a run's clients are not all equally fast."""
    devices = config.get("devices") or {}
    return any(value for key, value in devices.items() if key not in KEYS_OF_EQUAL_DEVICES)


def usual_currency(config: Config) -> Currency:
    """Return what a study counts that does not say so: what its runs end by; seconds where devices differ; rounds."""
    limits = config.get("until")
    if limits:
        return Until(**limits).currency
    if devices_differ(config):
        return "seconds"
    return "rounds"


def common_budget(costs_of_runs: Iterable[Costs], currency: Currency, limit: float = math.inf) -> Budget | None:
    """Return what every run has spent, at most the limit at which runs end; None where a run has no such cost."""
    costs = [costs[currency] for costs in costs_of_runs]
    if not costs or any(not run.size or not np.isfinite(run).all() for run in costs):
        return None
    amount = min(limit, min(float(run[-1]) for run in costs))
    start = max(float(run[0]) for run in costs)
    if amount > 0:
        return Budget(currency=currency, start=start, amount=amount)
    return None


def value_at(costs: Floats, values: Array, amount: float) -> float | None:
    """Return the value of the last evaluation at or before a cost; None where the run has none, or cost less."""
    position = int(np.searchsorted(costs, amount, side="right")) - 1
    if position < 0 or not costs.size or costs[-1] < amount:
        return None
    return float(values[position])


def mean_over(costs: Floats, values: Array, start: float, amount: float) -> float | None:
    """Return the mean of a curve over the cost between two points; each evaluation holds until the next one."""
    if not costs.size or costs[0] > start or costs[-1] < amount or amount <= start:
        return None
    begins = np.clip(costs, start, amount)
    ends = np.append(begins[1:], amount)
    widths = ends - begins
    return float((widths * values)[widths > 0].sum() / (amount - start))


def figures_at_cost(costs: Costs, test: Mapping[str, Array], budget: Budget) -> dict[str, float | None]:
    """Return a run's test figures at a budget and up to it, by metric, and what it had spent of other currencies."""
    spent = costs[budget.currency]
    figures: dict[str, float | None] = {}
    is_level = spent.size > 0 and spent[-1] == 0  # a reference line: what it reaches costs a federation nothing
    for metric, values in test.items():
        figures[f"{AT_COST}-{metric}"] = float(values[-1]) if is_level else value_at(spent, values, budget.amount)
        figures[f"{AUC}-{metric}"] = mean_over(spent, values, budget.start, budget.amount)
    for currency, other_costs in costs.items():
        figures[f"{currency}-{AT_COST}"] = value_at(spent, other_costs, budget.amount)
    return figures


def limit_of(configs: Iterable[Config], currency: Currency) -> float:
    """Return the least cost in a currency at which runs end; infinite where no run ends by it."""
    limits = [float((config.get("until") or {}).get(currency, math.inf)) for config in configs]
    return min(limits, default=math.inf)


def limits_not_reached(runs: Iterable[run_folder.Run]) -> list[str]:
    """Write a sentence for each method of which finished runs ended before their cost reached ``until``."""
    rounds_by_method: dict[tuple[str, str, str], list[int]] = {}
    for run in runs:
        limits = run.config.get("until")
        if not run.done or not limits or run.config["method"]["name"] in REFERENCES:
            continue
        cost_limit = Until(**limits)
        if not cost_limit.is_reached(last_costs(run.records)):
            key = (run.setting, run.method, str(cost_limit))
            rounds_by_method.setdefault(key, []).append(len(run.records))
    return [
        _not_reached(setting, method, limit, rounds) for (setting, method, limit), rounds in rounds_by_method.items()
    ]


def _not_reached(setting: str, method: str, limit: str, rounds: Sequence[int]) -> str:
    n_runs = "1 run" if len(rounds) == 1 else f"{len(rounds)} runs"
    return f"{setting}, {method}: {n_runs} ended before {limit}, after at most {max(rounds):,} rounds."

"""The main table: how good, how soon, better than the baseline or not, how fair, at what cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sortition.core.cost import CURRENCIES, Currency
from sortition.report.gather import Setting
from sortition.results.comparisons import figure_to_target
from sortition.results.reference_lines import REFERENCES
from sortition.results.statistics import BETTER, Comparison
from sortition.results.table import mean_and_sd
from sortition.results.task_metric import task_metric, tested_metrics
from sortition.results.verdict_words import (
    SHORT_UNITS,
    cell_text,
    difference_text,
    figure_title,
    p_text,
    speed_up_text,
)

BOLD = "Bold: shown better than the baseline, or least cost."


@dataclass(frozen=True)
class Column:
    """A heading, and what it says of a method.

    Attributes:
        title: the heading.
        text: gives the cell of a label.
        value: gives what the cell of a label sorts by.
        main: whether it is among the few columns that decide.
        better: the methods that this figure shows to be better than the baseline.
        cost: whether it is counted, and less is better.
    """

    title: str
    text: Callable[[str], str]
    value: Callable[[str], float | None]
    main: bool = False
    better: Collection[str] = ()
    cost: bool = False


@dataclass
class Row:
    """One method in one setting.

    Attributes:
        label: the label of the method.
        seeds: how many runs it has.
        finished: how many of them are finished.
        diverged: how many of them diverged.
        comparison: the comparison with the baseline; None where it is not compared.
        verdict: the verdict in words, or what the row is.
        cells: heading → text.
        values: heading → what the cell sorts by.
    """

    label: str
    seeds: int
    finished: int
    diverged: int
    comparison: Comparison | None
    verdict: str
    cells: dict[str, str]
    values: dict[str, float | None]


def method_rows(setting: Setting, whole: bool = True) -> list[Row]:
    """Make the rows of one setting: all figures, or those that decide. Columns without any figure are left out."""
    comparisons = setting.against_baseline()
    shown_columns = [
        column
        for column in method_columns(setting)
        if (whole or column.main) and any(column.text(label).strip("– ") for label in setting.methods)
    ]
    return [
        Row(
            label=label,
            seeds=len(runs),
            finished=sum(run.done for run in runs),
            diverged=sum(run.diverged for run in runs),
            comparison=comparisons.get(label),
            verdict=cell_text(label, comparisons.get(label), setting.baseline),
            cells={column.title: column.text(label) for column in shown_columns},
            values={column.title: column.value(label) for column in shown_columns},
        )
        for label, runs in setting.methods.items()
    ]


def bold_cells(setting: Setting, table_rows: Sequence[Row]) -> set[tuple[str, str]]:
    """Return (method, heading) of what is shown better than the baseline, and of the least cost.

    All costs that look the same as the least are bold, unless all look the same. Nothing is bold in other columns:
    their differences are not tested, and bold type would claim a winner.
    """
    bold: set[tuple[str, str]] = set()
    for column in method_columns(setting):
        bold |= {(label, column.title) for label in column.better}
        if column.cost:
            bold |= {(label, column.title) for label in _cheapest_methods(column, table_rows)}
    return bold


def _cheapest_methods(column: Column, table_rows: Sequence[Row]) -> list[str]:
    """Return the methods whose cost looks the same as the least; none where all look the same."""
    costs: dict[str, float] = {}
    for row in table_rows:
        value = row.values.get(column.title)
        if value is not None and row.label not in REFERENCES:
            costs[row.label] = value
    if not costs:
        return []
    texts = {label: column.text(label) for label in costs}
    least_text = texts[min(costs, key=lambda label: costs[label])]
    cheapest = [label for label, text in texts.items() if text == least_text]
    if len(cheapest) < len(texts):
        return cheapest
    return []


def method_columns(setting: Setting) -> list[Column]:
    """Return all that is known of a setting's methods."""
    metric = setting.metric
    other_metrics = [tested for tested in tested_metrics(setting.first.config) if tested != metric]
    clients_metric = task_metric(setting.first.config)
    clients_unit = percent_ending(clients_metric)
    unit = percent_ending(metric)
    end, area = setting.comparison.compared_figures
    end_title = setting.end_title
    area_title = figure_title(area, setting.comparison.basis)
    return [
        _compared_column(setting, end, f"{end_title}{unit}", main=True),
        _difference_column(setting, end, f"− {setting.baseline}", main=True),
        _p_column(setting),
        _compared_column(setting, area, f"{area_title}{unit}"),
        _difference_column(setting, area, f"{area_title} − {setting.baseline}"),
        _spread_column(setting, f"best{unit}", f"best-{metric}", metric),
        _spread_column(setting, f"final{unit}", f"final-{metric}", metric),
        _spread_column(setting, f"peak − final{unit}", f"peak-minus-final-{metric}", metric),
        *[_spread_column(setting, f"{end_title} {name}", f"{end}-{name}", name) for name in other_metrics],
        *[_spread_column(setting, f"final {name}", f"final-{name}", name) for name in other_metrics],
        _to_target_column(setting, "first crossing", "rounds-to-target"),
        *[_cost_to_target_column(setting, currency) for currency in CURRENCIES],
        _difference_to_target_column(setting),
        _speed_up_column(setting),
        _spread_column(setting, f"worst tenth{clients_unit}", "worst-tenth", clients_metric, main=True),
        _mean_column(setting, "Jain", "jain", digits=3, main=True),
        _mean_column(setting, "Gini", "gini", digits=3),
        _mean_column(setting, "count variance", "count-variance", digits=2),
        _mean_column(setting, "spread among similar", "sigma", digits=2),
        _mean_column(setting, "never chosen, %", "never-selected", digits=1, scale=100),
        _mean_column(setting, "MB", "megabytes", digits=1, main=True, cost=True),
        _passes_column(setting),
        _mean_column(
            setting, "simulated s", "seconds", digits=1, main=setting.comparison.currency == "seconds", cost=True
        ),
        _mean_column(setting, "trainings", "trainings", digits=0),
        _mean_column(setting, "uploads", "uploads", digits=0),
        _mean_column(setting, "ms/selection", "ms", digits=2),
        _mean_column(setting, "wall-clock s", "wall-clock", digits=2),
    ]


def _scale_and_digits(metric: str) -> tuple[float, int]:
    """Return by what a mean of a metric is multiplied, and how many digits follow the point: an accuracy is in %."""
    if metric == "accuracy":
        return 100.0, 1
    return 1.0, 3


def percent_ending(metric: str) -> str:
    """Return what ends the heading of a column of means of this metric."""
    if metric == "accuracy":
        return ", %"
    return ""


def mean_text(mean: float, metric: str) -> str:
    """Write a mean as the main table does, without its spread."""
    scale, digits = _scale_and_digits(metric)
    return f"{mean * scale:.{digits}f}"


def _spread_column(
    setting: Setting, title: str, figure: str, metric: str, *, main: bool = False, better: Collection[str] = ()
) -> Column:
    """Make a column of mean ± sd over seeds: an accuracy in %, a loss as it is."""
    scale, digits = _scale_and_digits(metric)
    return Column(
        title=title,
        text=lambda label: mean_and_sd(setting.centre(label, figure), digits, scale=scale),
        value=lambda label: setting.mean(label, figure),
        main=main,
        better=better,
    )


def _compared_column(setting: Setting, figure: str, title: str, *, main: bool = False) -> Column:
    """Make the column of a figure that is compared with the baseline's."""
    comparisons = setting.against_baseline(figure).values()
    better = [comparison.method for comparison in comparisons if comparison.verdict == BETTER]
    return _spread_column(setting, title, f"{figure}-{setting.metric}", setting.metric, main=main, better=better)


def _mean_column(
    setting: Setting,
    title: str,
    figure: str,
    *,
    digits: int,
    scale: float = 1.0,
    main: bool = False,
    cost: bool = False,
) -> Column:
    """Make a column of means over seeds."""

    def text(label: str) -> str:
        value = setting.mean(label, figure)
        if value is None:
            return ""
        return f"{value * scale:.{digits}f}"

    return Column(title=title, text=text, value=lambda label: setting.mean(label, figure), main=main, cost=cost)


def _cost_to_target_column(setting: Setting, currency: Currency) -> Column:
    """Make the column of one cost to the target; that of the study's own cost is among those that decide."""
    title = f"{SHORT_UNITS[currency]} to target"
    return _to_target_column(setting, title, figure_to_target(currency), main=currency == setting.comparison.currency)


def _difference_to_target_column(setting: Setting) -> Column:
    """Make the column of the difference in the study's cost to the target; empty without a target."""
    comparisons = {pair.method: pair for pair in setting.comparison.to_target if pair.baseline == setting.baseline}

    def value(label: str) -> float | None:
        if label in comparisons:
            return comparisons[label].difference
        return None

    return Column(
        title=f"{SHORT_UNITS[setting.comparison.currency]} to target − {setting.baseline}",
        text=lambda label: difference_text(comparisons.get(label)),
        value=value,
        better=[label for label, pair in comparisons.items() if pair.verdict == BETTER],
    )


def _to_target_column(setting: Setting, title: str, figure: str, *, main: bool = False) -> Column:
    """Make a column of a cost to the target, over the seeds that reached it; empty without a target."""

    def text(label: str) -> str:
        if setting.target is None:
            return ""
        finished = sum(run.done for run in setting.methods[label])
        return mean_and_sd(setting.centre(label, figure), 1, total=finished)

    return Column(title=title, text=text, value=lambda label: setting.mean(label, figure), main=main)


def _difference_column(setting: Setting, figure: str, title: str, *, main: bool = False) -> Column:
    """Make the column of a figure's differences from the baseline's."""
    comparisons = setting.against_baseline(figure)

    def value(label: str) -> float | None:
        if label in comparisons:
            return comparisons[label].difference
        return None

    return Column(title=title, text=lambda label: difference_text(comparisons.get(label)), value=value, main=main)


def _p_column(setting: Setting) -> Column:
    """Make the column of corrected p values of the comparison that decides the verdicts."""
    comparisons = setting.against_baseline()

    def value(label: str) -> float | None:
        if label in comparisons:
            return comparisons[label].p
        return None

    return Column(title="p", text=lambda label: p_text(comparisons.get(label)), value=value, main=True)


def _speed_up_column(setting: Setting) -> Column:
    """Make the column of speed-ups over the baseline; empty without a target."""
    if setting.target is not None:
        comparisons = setting.against_baseline()
    else:
        comparisons = {}

    def value(label: str) -> float | None:
        if label in comparisons:
            return comparisons[label].speed_up
        return None

    return Column(title="speed-up", text=lambda label: speed_up_text(comparisons.get(label)), value=value, main=True)


def _passes_column(setting: Setting) -> Column:
    """Make the column of examples that clients passed through the model."""
    return Column(
        title="client passes",
        text=lambda label: short_number_text(setting.mean(label, "passes")),
        value=lambda label: setting.mean(label, "passes"),
        main=True,
        cost=True,
    )


def short_number_text(value: float | None) -> str:
    """Write three digits and a unit, such as ``1.2 M``; nothing where the value is unknown."""
    if value is None:
        return ""
    rounded = float(f"{value:.3g}")
    for size, unit in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(rounded) >= size:
            return f"{rounded / size:.3g}{unit}"
    return f"{rounded:.3g}"

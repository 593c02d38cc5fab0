"""A published table beside ours: cells as text, and the values of single seeds behind them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sortition.core.errors import InputError
from sortition.reproduction.preset import Cell, PaperTable
from sortition.results.metrics import metric
from sortition.results.run_folder import Run
from sortition.results.statistics import centre
from sortition.results.summary import Groups
from sortition.results.table import Table, mean_and_sd
from sortition.studies.plan import StudyPlan

RunsByMethod = dict[str, dict[int, Run]]  # label → seed → run, of one setting


@dataclass(frozen=True)
class SeedValue:
    """What one run measured for one table; ``value`` is None where a target was not reached."""

    table: str
    setting: str
    method: str
    seed: int
    value: float | None


def paper_table(table: PaperTable, plan: StudyPlan, groups: Groups) -> Table:
    """Return a row per method and a column per setting, with the published column before ours where there is one.

    A published column that is of no setting (some papers do not say of which) stands alone.
    """
    settings = list(dict.fromkeys([*plan.settings, *table.paper]))
    published_labels = [label for cells in table.paper.values() for label in cells]
    labels = list(dict.fromkeys([*plan.labels, *published_labels]))
    columns = ["method"]
    for setting in settings:
        if setting in table.paper:
            columns.append(f"{setting}, paper")
        if setting in plan.settings:
            columns.append(f"{setting}, ours" if setting in table.paper else setting)
    rows = []
    for label in labels:
        row = [label]
        for setting in settings:
            if setting in table.paper:
                row.append(paper_cell(table.paper[setting].get(label), table.digits))
            if setting in plan.settings:
                row.append(our_cell(table, groups.get(setting, {}), label))
        rows.append(row)
    return Table(table.title, columns, rows)


def paper_cell(cell: Cell | None, digits: int) -> str:
    """Write a paper's cell as text."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, list):
        return " ± ".join(f"{value:.{digits}f}" for value in cell)
    return f"{cell:.{digits}f}"


def our_cell(table: PaperTable, methods: RunsByMethod, label: str) -> str:
    """Write our cell: mean and standard deviation over seeds; empty where nothing was run."""
    if not methods.get(label):
        return ""
    values = [value for _, value in seed_values(table, methods, label)]
    default_aggregate = "geometric" if table.metric == "speed-up" else ""
    geometric = (table.aggregate or default_aggregate) == "geometric"
    return mean_and_sd(centre(values, geometric=geometric), table.digits, scale=table.scale, total=len(values))


def seed_values(table: PaperTable, methods: RunsByMethod, label: str) -> Iterator[tuple[int, float | None]]:
    """Yield (seed, value) of a method's runs; with a reference, only of the seeds that the reference was run on."""
    function = metric(table.metric)
    options = dict(table.model_extra or {})
    for seed, run in methods.get(label, {}).items():
        if table.reference:
            if seed not in methods.get(table.reference, {}):
                continue
            options["reference"] = methods[table.reference][seed]
        try:
            yield seed, function(run, **options)
        except TypeError as error:
            raise InputError(f"table {table.title!r}: {table.metric} does not take these options: {error}.") from None


def seed_values_of_tables(tables: tuple[PaperTable, ...], groups: Groups) -> list[SeedValue]:
    """Return the values of single seeds behind the cells of all tables, in the tables' scale."""
    return [
        SeedValue(
            table=table.title,
            setting=setting,
            method=label,
            seed=seed,
            value=None if value is None else value * table.scale,
        )
        for table in tables
        for setting, methods in groups.items()
        for label in methods
        for seed, value in seed_values(table, methods, label)
    ]

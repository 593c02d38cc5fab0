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


@dataclass(frozen=True)
class SeedValue:
    """What one run measured for one table; ``value`` is None where a target was not reached."""

    table: str
    setting: str
    method: str
    seed: int
    value: float | None


def paper_table(table: PaperTable, plan: StudyPlan, groups: Groups) -> Table:
    """Rows are methods; a column for each setting, with the published one before it where there is one.

    A published column that is of no setting (some papers do not say of which) stands alone.
    """
    settings = list(dict.fromkeys([*plan.settings, *table.paper]))
    labels = list(dict.fromkeys([*plan.labels, *[label for cells in table.paper.values() for label in cells]]))
    made = Table(table.title, ["method", *(title for one in settings for title in _titles(table, plan, one))])
    for label in labels:
        cells = (cell for setting in settings for cell in _cells(table, plan, groups, setting, label))
        made.rows.append([label, *cells])
    return made


def _titles(table: PaperTable, plan: StudyPlan, setting: str) -> list[str]:
    """The columns of a setting: the paper's where it has one, ours where we have one."""
    published = setting in table.paper
    paper = [f"{setting}, paper"] if published else []
    ours = [f"{setting}, ours" if published else setting] if setting in plan.settings else []
    return [*paper, *ours]


def _cells(table: PaperTable, plan: StudyPlan, groups: Groups, setting: str, label: str) -> list[str]:
    """The cells of a method under the columns of a setting."""
    paper = [paper_cell(table.paper[setting].get(label), table.digits)] if setting in table.paper else []
    ours = [our_cell(table, groups.get(setting, {}), label)] if setting in plan.settings else []
    return [*paper, *ours]


def paper_cell(cell: Cell | None, digits: int) -> str:
    """A paper's cell as text."""
    if cell is None:
        return ""
    if isinstance(cell, list):
        return " ± ".join(f"{value:.{digits}f}" for value in cell)
    return cell if isinstance(cell, str) else f"{cell:.{digits}f}"


def our_cell(table: PaperTable, methods: dict[str, dict[int, Run]], label: str) -> str:
    """Our cell: mean and standard deviation over seeds; empty where nothing was run."""
    values = [value for _, value in seed_values(table, methods, label)]
    if not methods.get(label):
        return ""
    geometric = (table.aggregate or ("geometric" if table.metric == "speed-up" else "")) == "geometric"
    return mean_and_sd(centre(values, geometric=geometric), table.digits, scale=table.scale, total=len(values))


def seed_values(
    table: PaperTable, methods: dict[str, dict[int, Run]], label: str
) -> Iterator[tuple[int, float | None]]:
    """(seed, value) of a method's runs; with a reference, of the seeds that the reference was run on."""
    function, options = metric(table.metric), dict(table.model_extra or {})
    for seed, run in methods.get(label, {}).items():
        if table.reference:
            if seed not in methods.get(table.reference, {}):
                continue
            options["reference"] = methods[table.reference][seed]
        try:
            yield seed, function(run, **options)
        except TypeError as error:
            raise InputError(f"table {table.title!r}: {table.metric} does not take these options: {error}.") from None


def every_seed(tables: tuple[PaperTable, ...], groups: Groups) -> list[SeedValue]:
    """The values of single seeds behind the cells of all tables, in the tables' scale."""
    return [
        SeedValue(table.title, setting, label, seed, None if value is None else value * table.scale)
        for table in tables
        for setting, methods in groups.items()
        for label in methods
        for seed, value in seed_values(table, methods, label)
    ]

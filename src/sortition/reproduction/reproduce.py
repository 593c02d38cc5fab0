"""A published table or figure beside ours: run what is missing, compare, write a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sortition.core.errors import InputError, bad
from sortition.reproduction import preset as presets
from sortition.reproduction.page import page
from sortition.reproduction.preset import Cell, PaperTable, Preset
from sortition.results import summary
from sortition.results.metrics import metric
from sortition.results.run_folder import Run
from sortition.results.statistics import centre
from sortition.results.table import Table, mean_and_sd
from sortition.studies.plan import StudyPlan
from sortition.studies.runs import runner
from sortition.studies.runs.progress import Progress
from sortition.studies.selection import selected

Groups = summary.Groups


@dataclass(frozen=True)
class Cuts:
    """How the command line cut a preset to size."""

    only: tuple[str, ...] = ()
    seeds: int | None = None
    rounds: int | None = None

    def sets(self) -> tuple[str, ...]:
        """The same as ``--set`` options."""
        given = (("seeds", self.seeds), ("rounds", self.rounds))
        return tuple(f"{key}={value}" for key, value in given if value is not None)

    def options(self) -> str:
        """As they were typed."""
        pairs = [("--only", one) for one in self.only] + [("--seeds", self.seeds), ("--rounds", self.rounds)]
        return "".join(f" {key} {value}" for key, value in pairs if value is not None)


@dataclass
class Context:
    """What a figure hook is given."""

    name: str
    folder: Path  # where the page will be, and its pictures with it
    runs: Path | None
    seeds: int | None
    rounds: int | None
    say: Callable[[str], None] = field(default=lambda text: None)

    def save(self, name: str, chart: Any) -> str:
        """Draw an Altair chart into ``<preset>-<name>.png`` beside the page; the Markdown that shows it."""
        from sortition.data.charts import write

        if set(name) & set("/\\:\0"):
            raise bad("A picture's name", "a text that can name a file", name)
        file = write(chart, self.folder / f"{self.name}-{name}.png")
        return f"![{name}]({Path(file).name})"


@dataclass
class Reproduction:
    """What was made of a preset."""

    tables: list[Table]
    markdown: str
    outcome: runner.Execution | None


def reproduce(
    preset: Preset,
    out: Path,
    cuts: Cuts,
    *,
    folder: Path | None = None,
    jobs: int | None = None,
    on: str | None = None,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Reproduction:
    """Run what is missing of a preset under ``out``; its pictures go to ``folder`` (default: ``out``)."""
    whole, chosen = preset.plan(), cut(preset, cuts)
    outcome, runs = None, out / "runs"
    if chosen.runs:
        outcome = runner.execute(chosen, runs, jobs=jobs, resume=True, progress=progress, on=on)
    found = _of(chosen, runs)
    groups = summary.grouped(found)
    tables = [paper_table(table, whole, groups) for table in preset.tables]
    context = Context(preset.name, folder or out, runs if chosen.runs else None, cuts.seeds, cuts.rounds, say)
    context.folder.mkdir(parents=True, exist_ok=True)
    pictures = [presets.hook(one)(context, **(one.model_extra or {})) for one in preset.figures]
    compared = [one for one in summary.tables(found) if one.title.endswith("compared")]
    text = page(preset, cuts.options(), chosen, whole, found, tables, pictures, compared)
    return Reproduction(tables, text, outcome)


def cut(preset: Preset, cuts: Cuts) -> StudyPlan:
    """What is to be run of a preset."""
    return selected(preset.plan(cuts.sets()), cuts.only, preset.plan())


def _of(plan: StudyPlan, runs: Path) -> list[Run]:
    """The finished runs of a plan, in its order."""
    places = {runner.place(runs, run): None for run in sorted(plan.runs, key=_order(plan))}
    return [run for run in map(Run, places) if run.done]


def _order(plan: StudyPlan) -> Callable[[Any], tuple[int, int, int]]:
    settings, labels = plan.settings, plan.labels
    return lambda run: (settings.index(run.setting), labels.index(run.method.label), run.seed)


def paper_table(table: PaperTable, plan: StudyPlan, groups: Groups) -> Table:
    """Rows are methods; a column for each setting, with the published one before it where there is one.

    A published column that is of no setting (some papers do not say of which) stands alone.
    """
    settings = list(dict.fromkeys([*plan.settings, *table.paper]))
    labels = list(dict.fromkeys([*plan.labels, *[label for cells in table.paper.values() for label in cells]]))
    columns = ["method"]
    for setting in settings:
        ours = [f"{setting}, ours" if setting in table.paper else setting] if setting in plan.settings else []
        columns += [*([f"{setting}, paper"] if setting in table.paper else []), *ours]
    made = Table(table.title, columns)
    for label in labels:
        row = [label]
        for setting in settings:
            if setting in table.paper:
                row.append(published(table.paper[setting].get(label), table.digits))
            if setting in plan.settings:
                row.append(measured(table, groups.get(setting, {}), label))
        made.rows.append(row)
    return made


def published(cell: Cell | None, digits: int) -> str:
    """A paper's cell as text."""
    if cell is None:
        return ""
    if isinstance(cell, list):
        return " ± ".join(f"{value:.{digits}f}" for value in cell)
    return cell if isinstance(cell, str) else f"{cell:.{digits}f}"


def measured(table: PaperTable, methods: dict[str, dict[int, Run]], label: str) -> str:
    """Our cell: empty where nothing was run."""
    runs = methods.get(label, {})
    if not runs:
        return ""
    function, options = metric(table.metric), dict(table.model_extra or {})
    values = []
    for seed, run in runs.items():
        if table.reference:
            if seed not in methods.get(table.reference, {}):
                continue
            options["reference"] = methods[table.reference][seed]
        try:
            values.append(function(run, **options))
        except TypeError as error:
            raise InputError(f"table {table.title!r}: {table.metric} does not take these options: {error}.") from None
    geometric = (table.aggregate or ("geometric" if table.metric == "speed-up" else "")) == "geometric"
    return mean_and_sd(centre(values, geometric=geometric), table.digits, scale=table.scale, total=len(values))

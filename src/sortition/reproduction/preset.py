"""Presets: published tables and figures as TOML files with a study, the published numbers, and figure hooks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from sortition.core.errors import InputError, unknown
from sortition.core.import_policy import import_named
from sortition.results.metrics import metric
from sortition.studies.config import StrictTable, validated
from sortition.studies.plan import StudyPlan, plan, read

FOLDER = Path(__file__).parent / "presets"
PRESET_KEYS = ("paper", "table", "figure")  # the keys of a preset that are not those of a study
Cell = float | int | str | list[float]  # a list: mean and standard deviation


class Paper(StrictTable):
    """What is reproduced.

    Attributes:
        title: heading of the page.
        source: where it was published.
        notes: how it is read here; both are Markdown.
    """

    title: str
    source: str = ""
    notes: str = ""


class PaperTable(StrictTable):
    """A table: one metric over settings and methods, with the published cells where there are any.

    Attributes:
        title: heading of the table.
        metric: name or import path of the metric; further keys are its options.
        digits: decimals of a cell.
        scale: factor of a value before it is written.
        aggregate: "geometric" for geometric means; default: by metric.
        reference: label of the method whose run of the same seed the metric is given.
        paper: published cells, by setting and method.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    title: str
    metric: str
    digits: Annotated[int, Field(ge=0)] = 1
    scale: float = 1.0
    aggregate: str = ""
    reference: str = ""
    paper: dict[str, dict[str, Cell]] = {}


class FigureHook(StrictTable):
    """A function ``package.module:function`` that makes a part of the page; further keys are its options."""

    model_config = ConfigDict(frozen=True, extra="allow")
    make: str


@dataclass(frozen=True)
class Preset:
    """One file of ``presets/``; ``study`` is None where nothing has to be run."""

    name: str
    paper: Paper
    tables: tuple[PaperTable, ...]
    figures: tuple[FigureHook, ...]
    study: dict[str, Any] | None

    def plan(self, sets: tuple[str, ...] = ()) -> StudyPlan:
        """Plan the runs, cut by ``--set`` options; none where there is no study."""
        if self.study is None:
            return StudyPlan(self.paper.title, ())
        return plan(self.study, sets, subject=self.name)


def preset_names() -> list[str]:
    """Return the names of all presets of the package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_preset(name: str) -> Preset:
    """Load a preset by name, or by the path of a TOML file of the same form."""
    if name.endswith(".toml"):
        path = Path(name)
    elif name in preset_names():
        path = FOLDER / f"{name}.toml"
    else:
        raise unknown("preset", name, preset_names())
    document = read(path)
    if "paper" not in document:
        raise InputError(f"{path.name} must have a table [paper] with a title; got none. Use 'sortition run' for it.")
    study = {key: value for key, value in document.items() if key not in PRESET_KEYS}
    figures = document.get("figure", [])
    if isinstance(figures, dict):
        figures = [figures]
    preset = Preset(
        name=path.stem,
        paper=validated(Paper, document["paper"], "paper"),
        tables=tuple(validated(PaperTable, table, "table") for table in document.get("table", [])),
        figures=tuple(validated(FigureHook, figure, "figure") for figure in figures),
        study=study or None,
    )
    for table in preset.tables:
        metric(table.metric)  # refuses an unknown one
    return preset


def import_hook(figure: FigureHook) -> Callable[..., str]:
    """Import the function of a figure."""
    function: Callable[..., str] = import_named(figure.make, "figure.make")
    return function

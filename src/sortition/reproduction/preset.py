"""Published tables and figures as files of the package: a study, its published numbers, hooks for what is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from sortition.core.errors import InputError, unknown
from sortition.core.import_policy import imported
from sortition.results.metrics import metric
from sortition.studies.config import StrictTable, validated
from sortition.studies.plan import StudyPlan, plan, read

FOLDER = Path(__file__).parent / "presets"
OURS = ("paper", "table", "figure")
Cell = float | int | str | list[float]


class Paper(StrictTable):
    """What is reproduced."""

    title: str
    source: str = ""
    notes: str = ""


class PaperTable(StrictTable):
    """A table: one metric over settings and methods, with the published cells where there are any."""

    model_config = ConfigDict(frozen=True, extra="allow")
    title: str
    metric: str
    digits: Annotated[int, Field(ge=0)] = 1
    scale: float = 1.0
    aggregate: str = ""
    reference: str = ""
    paper: dict[str, dict[str, Cell]] = {}


class FigureHook(StrictTable):
    """A hook ``package.module:function`` and its options."""

    model_config = ConfigDict(frozen=True, extra="allow")
    make: str


@dataclass(frozen=True)
class Preset:
    """One file of ``presets/``."""

    name: str
    paper: Paper
    tables: tuple[PaperTable, ...]
    figures: tuple[FigureHook, ...]
    study: dict[str, Any] | None

    def plan(self, sets: tuple[str, ...] = ()) -> StudyPlan:
        """The runs, cut by ``--set`` options; none where there is no study."""
        return StudyPlan(self.paper.title, ()) if self.study is None else plan(self.study, sets, owner=self.name)


def preset_names() -> list[str]:
    """All presets."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_preset(name: str) -> Preset:
    """A preset by name, or by the path of a TOML file of the same form."""
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not name.endswith(".toml") and name not in preset_names():
        raise unknown("preset", name, preset_names())
    table = read(path)
    if "paper" not in table:
        raise InputError(f"{path.name} must have a table [paper] with a title; got none. Use 'sortition run' for it.")
    study = {key: value for key, value in table.items() if key not in OURS}
    figures = table.get("figure", [])
    preset = Preset(
        path.stem,
        validated(Paper, table["paper"], "paper"),
        tuple(validated(PaperTable, one, "table") for one in table.get("table", [])),
        tuple(validated(FigureHook, one, "figure") for one in ([figures] if isinstance(figures, dict) else figures)),
        study or None,
    )
    for one in preset.tables:
        metric(one.metric)
    return preset


def hook(figure: FigureHook) -> Callable[..., str]:
    """The function of a figure."""
    made: Callable[..., str] = imported(figure.make, "figure.make")
    return made

"""A published table or figure beside ours: run what is missing, compare, write a page."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sortition.reproduction import preset as presets
from sortition.reproduction.comparison import every_seed, paper_table
from sortition.reproduction.context import Context
from sortition.reproduction.page import ReproductionPage
from sortition.reproduction.preset import Preset
from sortition.results import summary
from sortition.results.run_folder import Run
from sortition.studies.plan import StudyPlan
from sortition.studies.run_filter import matching_runs
from sortition.studies.runs import runner
from sortition.studies.runs.progress import Progress


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
        """As they can be typed in a shell."""
        pairs = [("--only", one) for one in self.only] + [("--seeds", self.seeds), ("--rounds", self.rounds)]
        return "".join(f" {key} {shlex.quote(str(value))}" for key, value in pairs if value is not None)


@dataclass
class Reproduction:
    """What was made of a preset."""

    page: ReproductionPage
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
    found = _finished(chosen, runs)
    groups = summary.grouped(found)
    context = Context(preset.name, folder or out, runs if chosen.runs else None, cuts.seeds, cuts.rounds, say, found)
    context.folder.mkdir(parents=True, exist_ok=True)
    page = ReproductionPage(
        preset,
        cuts.options(),
        chosen,
        whole,
        found,
        tables=[paper_table(table, whole, groups) for table in preset.tables],
        pictures=[presets.hook(one)(context, **(one.model_extra or {})) for one in preset.figures],
        compared=[one for one in summary.tables(found, chosen.criteria) if one.title.endswith("compared")],
        values=every_seed(preset.tables, groups),
    )
    return Reproduction(page, outcome)


def cut(preset: Preset, cuts: Cuts) -> StudyPlan:
    """What is to be run of a preset."""
    return matching_runs(preset.plan(cuts.sets()), cuts.only, preset.plan())


def _finished(plan: StudyPlan, runs: Path) -> list[Run]:
    """The finished runs of a plan, in its order."""
    places = {runner.place(runs, run): None for run in sorted(plan.runs, key=_order(plan))}
    return [run for run in map(Run, places) if run.done]


def _order(plan: StudyPlan) -> Callable[[Any], tuple[int, int, int]]:
    settings, labels = plan.settings, plan.labels
    return lambda run: (settings.index(run.setting), labels.index(run.method.label), run.seed)

"""A published table or figure beside ours: run what is missing, compare, and return the page."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sortition.reproduction import preset as presets
from sortition.reproduction.comparison import paper_table, seed_values_of_tables
from sortition.reproduction.context import Context
from sortition.reproduction.preset import Preset
from sortition.reproduction.preset_page import ReproductionPage
from sortition.results import summary
from sortition.results.run_folder import Run
from sortition.studies.plan import StudyPlan
from sortition.studies.run_filter import matching_runs
from sortition.studies.runs import runner
from sortition.studies.runs.progress import Progress


@dataclass(frozen=True)
class Cuts:
    """How the command line cuts a preset to size.

    Attributes:
        only: settings, methods or ``setting/method``; default: everything.
        seeds: number of seeds; None: the preset's own.
        rounds: number of rounds; None: the preset's own.
    """

    only: tuple[str, ...] = ()
    seeds: int | None = None
    rounds: int | None = None

    def set_options(self) -> tuple[str, ...]:
        """Return seeds and rounds as ``--set`` options of a study."""
        options = {"seeds": self.seeds, "rounds": self.rounds}
        return tuple(f"{key}={value}" for key, value in options.items() if value is not None)

    def options(self) -> str:
        """Return the options as they can be typed in a shell."""
        pairs = [*(("--only", name) for name in self.only), ("--seeds", self.seeds), ("--rounds", self.rounds)]
        return "".join(f" {option} {shlex.quote(str(value))}" for option, value in pairs if value is not None)


@dataclass
class Reproduction:
    """The page of a preset, and what happened to its runs; ``outcome`` is None where it has none."""

    page: ReproductionPage
    outcome: runner.Execution | None


def reproduce_preset(
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
    plan = cut_plan(preset, cuts)
    runs_folder = out / "runs"
    outcome = None
    if plan.runs:
        outcome = runner.execute(plan, runs_folder, jobs=jobs, resume=True, progress=progress, on=on)
    finished = _finished_runs(plan, runs_folder)
    context = Context(
        name=preset.name,
        folder=folder or out,
        runs=runs_folder if plan.runs else None,
        seeds=cuts.seeds,
        rounds=cuts.rounds,
        say=say,
        finished=finished,
    )
    context.folder.mkdir(parents=True, exist_ok=True)
    whole_plan = preset.plan()
    groups = summary.group_runs(finished)
    page = ReproductionPage(
        preset=preset,
        options=cuts.options(),
        plan=plan,
        whole_plan=whole_plan,
        runs=finished,
        tables=[paper_table(table, whole_plan, groups) for table in preset.tables],
        pictures=[presets.import_hook(figure)(context, **(figure.model_extra or {})) for figure in preset.figures],
        compared=summary.comparison_tables(finished, plan.criteria),
        values=seed_values_of_tables(preset.tables, groups),
    )
    return Reproduction(page, outcome)


def cut_plan(preset: Preset, cuts: Cuts) -> StudyPlan:
    """Plan what is to be run of a preset."""
    return matching_runs(preset.plan(cuts.set_options()), cuts.only, preset.plan())


def _finished_runs(plan: StudyPlan, runs_folder: Path) -> list[Run]:
    """Return the finished runs of a plan, by setting, method and seed, in the plan's order of settings and methods."""
    settings = plan.settings
    labels = plan.labels
    in_order = sorted(
        plan.runs,
        key=lambda run: (settings.index(run.setting), labels.index(run.method.label), run.seed),
    )
    folders = dict.fromkeys(runner.place(runs_folder, run) for run in in_order)
    return [run for run in map(Run, folders) if run.done]

"""All runs of a plan: finished ones are checked, begun ones resumed, missing ones played, failures collected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sortition.audit.encoding import json_value
from sortition.core.errors import InputError, bad
from sortition.results import metrics, run_folder
from sortition.studies import python_objects
from sortition.studies.config import RunConfig
from sortition.studies.plan import StudyPlan
from sortition.studies.python_objects import RegisteredObject
from sortition.studies.runs import write_folder
from sortition.studies.runs.callback import Callback
from sortition.studies.runs.folder_checks import PlannedRuns, check_other_runs
from sortition.studies.runs.progress import Progress, Quiet, say
from sortition.studies.runs.resume import run_state
from sortition.studies.runs.run_task import OneRun
from sortition.studies.track import make_trackers
from sortition.studies.types import TomlTable
from sortition.studies.workers import local, ray_cluster
from sortition.studies.workers.process_control import uncollected
from sortition.studies.workers.scheduler import Event


@dataclass
class Execution:
    """Says what became of a plan's runs.

    Attributes:
        out: the folder of its runs.
        failed: the folder of each run that failed → why.
        interrupted: whether Ctrl-C stopped it.
    """

    out: Path
    failed: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False


def place(out: Path, run: RunConfig) -> Path:
    """Return the folder of a run."""
    return out / run.setting / run.method.label / f"seed-{run.seed}"


def places(out: Path, plan: StudyPlan) -> frozenset[Path]:
    """Return the folders of all runs of a plan."""
    return frozenset(place(out, run) for run in plan.runs)


def execute(
    plan: StudyPlan,
    out: Path,
    *,
    jobs: int | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    on: str | None = None,
    callbacks: Sequence[Callback] = (),
) -> Execution:
    """Play the runs of a plan that are not yet done in ``out``; everything that can be wrong is reported before.

    ``on``: the Ray cluster where they are played (``ray``, ``ray://host:port``); default: this machine.
    ``callbacks`` follow the runs, beside the trackers that the study names.
    """
    all_callbacks = (*callbacks, *make_trackers(plan.track))
    if all_callbacks and on is not None:
        raise bad("callbacks", "left out where runs are played on a cluster", f"{len(all_callbacks)} of them")
    for callback in all_callbacks:
        callback.check()
    planned = {place(out, run): run for run in plan.runs}
    display = progress or Quiet()
    with write_folder.locked(out), _machines(on, plan.runs, jobs) as machines:
        unfinished = _unfinished_runs(out, planned, resume=resume)
        if unfinished:
            remarks = machines.call(check_runs, list(unfinished.values()), python_objects.registered_objects())
            for remark in remarks:
                say(display, f"note: {remark}")
        _write_index(out, plan)
        tasks = [
            OneRun(config=run, path=path, callbacks=all_callbacks, lockstep=plan.lockstep)
            for path, run in unfinished.items()
        ]
        n_done = len(planned) - len(unfinished)
        return _play(tasks, out=out, n_done=n_done, machines=machines, jobs=jobs, progress=display)


def _unfinished_runs(out: Path, planned: PlannedRuns, *, resume: bool) -> dict[Path, RunConfig]:
    """Return the runs that are missing or begun; a folder that holds some of them is refused without ``resume``."""
    for path in planned:
        write_folder.check_inside(path, out)
    check_other_runs(out, planned)
    states = {path: run_state(run, path) for path, run in planned.items()}
    n_known = sum(run_state != "new" for run_state in states.values())
    n_done = sum(run_state == "done" for run_state in states.values())
    if n_known and not resume:
        raise InputError(
            f"{out} must be an empty folder; got one with {n_known} of these runs ({n_done} done). "
            "Add --resume to go on with them, or choose another with -o."
        )
    for path, run in planned.items():
        if states[path] == "done":
            _update_target(run, path)
    return {path: run for path, run in planned.items() if states[path] != "done"}


def _update_target(run: RunConfig, path: Path) -> None:
    """Give a finished run the target that its study has now; its figures follow from its records."""
    stored = run_folder.Run(path)
    target = run.table().get("target", {})
    if stored.config.get("target", {}) == target:
        return
    stored.config["target"] = target
    summary = {**stored.summary, "figures": json_value(metrics.summarise(stored))}
    write_folder.write_document(path / run_folder.SUMMARY, summary)
    write_folder.write_config(path / run_folder.CONFIG, run.table())  # last: until then it is done again


Machines = local.ThisMachine | ray_cluster.RayCluster


@contextmanager
def _machines(on: str | None, runs: Sequence[RunConfig], jobs: int | None) -> Iterator[Machines]:
    if on is None:
        yield local.ThisMachine(jobs)
        return
    with ray_cluster.connected(on, runs) as cluster:
        yield cluster


def _play(
    tasks: Sequence[OneRun], *, out: Path, n_done: int, machines: Machines, jobs: int | None, progress: Progress
) -> Execution:
    execution = Execution(out)

    def on_event(event: Event) -> None:
        if event.kind == "failed":
            execution.failed[str(tasks[event.index].path)] = event.text
        progress.update(event)

    with progress.watching([task.config for task in tasks], n_done):
        execution.interrupted = not machines.run(tasks, jobs, on_event)
    return execution


def check_runs(runs: Iterable[RunConfig], objects: Mapping[str, RegisteredObject] | None = None) -> list[str]:
    """Set up each setting with each method once, so that what is missing is reported before any run.

    Return what a person should know before the first round: limits out of reach, rules and paces without an effect.

    ``objects`` are those that Python code gave to the study, where this runs in a process of a Ray cluster.
    """
    with uncollected():
        from sortition.simulation import foresight, start
        from sortition.studies import build_federation

    python_objects.receive(objects or {})
    checked = set()
    remarks: dict[str, None] = {}  # each once, in order
    all_runs = list(runs)
    has_several_settings = len({run.setting for run in all_runs}) > 1
    for run in all_runs:
        key = (run.setting, run.method.label)
        if key not in checked:
            checked.add(key)
            setup = build_federation.setup(run)[1]
            start(setup)
            texts = [*setup.selector.remarks(setup.conditions), *foresight.remarks(setup)]
            if has_several_settings:
                texts = [f"{run.setting}: {text}" for text in texts]
            remarks |= dict.fromkeys(texts)
    return list(remarks)


def _write_index(out: Path, plan: StudyPlan) -> None:
    """Store the order in which settings and methods are shown; those of earlier plans in the same folder come after."""
    previous_index = run_folder.read_document(out / run_folder.INDEX)
    index: TomlTable = {
        "title": plan.title or previous_index.get("title", ""),
        "margin": plan.criteria.margin,
        "baseline": plan.criteria.baseline,
    }
    if plan.criteria.all_pairs:
        index["all_pairs"] = True
    if plan.criteria.cost is not None:
        index["cost"] = plan.criteria.cost
    index["runs"] = len(plan.runs)
    index["settings"] = list(dict.fromkeys([*plan.settings, *previous_index.get("settings", [])]))
    index["methods"] = list(dict.fromkeys([*plan.labels, *previous_index.get("methods", [])]))
    write_folder.write_document(out / run_folder.INDEX, index)

"""All runs of a plan: finished ones are checked, begun ones resumed, missing ones played, failures collected."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sortition.audit.encoding import json_value
from sortition.core.errors import InputError, StorageError, bad
from sortition.core.storage.snapshot import difference
from sortition.results import metrics, run_folder
from sortition.results.separate import FREE
from sortition.results.sweeps import flat
from sortition.studies import given, methods, own_code
from sortition.studies.config import RunConfig
from sortition.studies.plan import StudyPlan
from sortition.studies.runs import write_folder
from sortition.studies.runs.callback import Callback
from sortition.studies.runs.progress import Progress, Quiet
from sortition.studies.runs.task import OneRun
from sortition.studies.track import trackers
from sortition.studies.workers import local, ray_cluster
from sortition.studies.workers.process_control import uncollected
from sortition.studies.workers.scheduler import Event

ELSEWHERE = "Choose another folder with -o (out= in Python)"
OF_A_METHOD = ("cohort", "local", "server", "guards")  # what methods of one setting may each have their own of


@dataclass
class Execution:
    """What became of a plan."""

    out: Path
    failed: dict[str, str] = field(default_factory=dict)  # run folder → why
    interrupted: bool = False


def place(out: Path, run: RunConfig) -> Path:
    """The folder of a run."""
    return out / run.setting / run.method.label / f"seed-{run.seed}"


def places(out: Path, plan: StudyPlan) -> frozenset[Path]:
    """The folders of all runs of a plan."""
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
    following = (*callbacks, *trackers(plan.track))
    if following and on is not None:
        raise bad("callbacks", "left out where runs are played on a cluster", f"{len(following)} of them")
    for callback in following:
        callback.check()
    with write_folder.locked(out), _machines(on, plan.runs, jobs) as machines:
        left = _unfinished(plan, out, resume=resume)
        if left:
            machines.call(check, left, given.objects())
        _index(out, plan)
        tasks = [OneRun(run, place(out, run), following, plan.lockstep) for run in left]
        return _played(tasks, len(plan.runs) - len(left), out, machines, jobs, progress or Quiet())


def _unfinished(plan: StudyPlan, out: Path, *, resume: bool) -> list[RunConfig]:
    """The runs that are missing or begun; a folder that holds some of them is refused without ``resume``."""
    for run in plan.runs:
        write_folder.inside(place(out, run), out)
    _same_code_as_others(plan, out)
    _same_federation_as_others(plan, out)
    _same_work_as_others(plan, out)
    states = [(run, state(run, place(out, run))) for run in plan.runs]
    known = [found for _, found in states if found != "new"]
    if known and not resume:
        raise InputError(
            f"{out} must be an empty folder; got one with {len(known)} of these runs ({known.count('done')} done). "
            "Add --resume to go on with them, or choose another with -o."
        )
    for run in (run for run, found in states if found == "done"):
        _take_target(run, place(out, run))
    return [run for run, found in states if found != "done"]


def _same_code_as_others(plan: StudyPlan, out: Path) -> None:
    """Refuse a folder that holds runs of other code by the same names: they would share a table."""
    named = {pair for run in plan.runs for pair in own_code.import_paths(run.table()).items()}
    now = {(key, path): own_code.digest(key, path) for key, path in named}
    for held in run_folder.find(out) if now else ():
        for key, path in own_code.import_paths(held.config).items():
            if now.get((key, path), before := held.manifest.get("python", {}).get(key)) != before:
                raise _other_code(held, key)


def _same_federation_as_others(plan: StudyPlan, out: Path) -> None:
    """Refuse a folder whose settings hold other runs, of another federation: they would share a table."""
    asked = {place(out, run) for run in plan.runs}
    for run in {run.setting: run for run in plan.runs}.values():
        for path in sorted((out / run.setting).glob(f"*/*/{run_folder.CONFIG}")):
            held: dict[str, Any] = {}
            with suppress(StorageError):  # a damaged run says so when it is read
                held = {} if path.parent in asked else run_folder.Run(path.parent).config
            if held and (changed := difference(_shared(held), _shared(run.table()))):
                raise StorageError(
                    f"{path.parent} is of another federation, and would share a table with these runs: {changed}. "
                    f"{ELSEWHERE}, or remove it."
                )


def _same_work_as_others(plan: StudyPlan, out: Path) -> None:
    """Refuse a folder with other seeds of a method that have another cohort, local rule, server rule or guards.

    Other methods may each have their own; tables and report warn where they are compared.
    """
    asked = {place(out, run) for run in plan.runs}
    for setting in plan.settings:
        planned = {run.method.label: run for run in plan.runs if run.setting == setting}
        for held in _stored_runs(out / setting, asked):
            if held.method in planned:
                changed = difference(_work(held.config), _work(planned[held.method].table()))
                if changed:
                    raise StorageError(
                        f"{held.path} was run with another cohort, local rule, server rule or guards, and would be "
                        f"counted with these runs: {changed}. {ELSEWHERE}, or remove it."
                    )


def _stored_runs(folder: Path, asked: Collection[Path]) -> list[run_folder.Run]:
    """The runs of a setting that are in its folder and are not among those asked for."""
    stored = []
    for path in sorted(folder.glob(f"*/*/{run_folder.CONFIG}")):
        if path.parent not in asked:
            run = run_folder.Run(path.parent)
            with suppress(StorageError):  # a damaged run says so when it is read
                _ = run.config
                stored.append(run)
    return stored


def _work(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a method may have its own of."""
    return flat({key: config[key] for key in OF_A_METHOD if key in config})


def _shared(config: Mapping[str, Any]) -> dict[str, Any]:
    """What all runs of a setting have in common; the rounds may grow."""
    return flat({key: value for key, value in config.items() if key not in (*FREE, *OF_A_METHOD, "rounds")})


def _take_target(run: RunConfig, path: Path) -> None:
    """Give a finished run the target that its study has now; its figures follow from its records."""
    held, target = run_folder.Run(path), run.table().get("target", {})
    if held.config.get("target", {}) == target:
        return
    held.config["target"] = target
    summary = {**held.summary, "figures": json_value(metrics.summarise(held))}
    write_folder.write_document(path / run_folder.SUMMARY, summary)
    write_folder.write_config(path / run_folder.CONFIG, run.table())  # last: until then it is done again


def _played(
    tasks: Sequence[OneRun], done: int, out: Path, machines: Machines, jobs: int | None, progress: Progress
) -> Execution:
    execution = Execution(out)

    def on_event(event: Event) -> None:
        if event.kind == "failed":
            execution.failed[str(tasks[event.index].path)] = event.text
        progress.update(event)

    with progress.watching([task.config for task in tasks], done):
        execution.interrupted = not machines.run(tasks, jobs, on_event)
    return execution


Machines = local.ThisMachine | ray_cluster.RayCluster


@contextmanager
def _machines(on: str | None, runs: Sequence[RunConfig], jobs: int | None) -> Iterator[Machines]:
    if on is None:
        yield local.ThisMachine(jobs)
        return
    with ray_cluster.connected(on, runs) as cluster:
        yield cluster


def check(runs: Iterable[RunConfig], objects: Mapping[str, Any] | None = None) -> None:
    """Build each setting's federation once, and every method on it, so that what is missing is reported now.

    ``objects`` are those that Python code gave to the study, where this is called in another process.
    """
    with uncollected():
        from sortition.simulation import start
        from sortition.studies import federation

    given.hold(objects or {})
    seen = set()
    for run in runs:
        if (key := (run.setting, run.method.label)) not in seen:
            seen.add(key)
            start(federation.setup(run)[1])


def state(run: RunConfig, path: Path) -> str:
    """``new``, ``started`` or ``done``; a folder of another configuration is refused, naming the difference."""
    if not (path / run_folder.CONFIG).exists():
        return "new"
    held = run_folder.Run(path)
    _same_code(held, run.table())
    _same_configuration(run, held)
    if not held.done:
        return "started"
    played = held.summary.get("rounds", 0)
    stopped_at_target = played < held.config["rounds"]
    return "done" if stopped_at_target or played >= run.rounds else "started"


def _same_code(held: run_folder.Run, table: Mapping[str, Any]) -> None:
    """Refuse a folder that was played with other code of the user's, or with another object given from Python."""
    if changed := own_code.changed(held.manifest, table):
        raise _other_code(held, changed[0])


def _other_code(held: run_folder.Run, key: str) -> StorageError:
    whose = f"the runs of {held.method!r}" if key.startswith("method.") else "its runs"
    return StorageError(
        f"{held.path} was played with other code: what {key} stands for has changed since. "
        f"{ELSEWHERE}, or remove {whose}."
    )


def _same_configuration(run: RunConfig, held: run_folder.Run) -> None:
    """Refuse a folder whose configuration differs in more than what may change between two starts of a run."""
    before, now = flat(held.config), flat(run.table())
    free = _may_change(run, before, now)
    changed = difference(
        {key: value for key, value in before.items() if key not in free},
        {key: value for key, value in now.items() if key not in free},
    )
    if changed:
        horizon = f" {run.method.label} plans for its horizon." if "rounds was" in changed and _horizon(run) else ""
        raise StorageError(f"{held.path} is of another configuration: {changed}.{horizon} {ELSEWHERE}, or remove it.")


def _may_change(run: RunConfig, before: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    """Keys that may differ: more rounds for a method without a horizon, and a target at which runs do not stop."""
    free = set()
    if now["rounds"] >= before.get("rounds", float("inf")) and not _horizon(run):
        free.add("rounds")
    if not run.stop_at_target:
        free |= {key for key in {**before, **now} if key.startswith("target.")}
    return free


def _horizon(run: RunConfig) -> bool:
    return methods.selector(run.method.name, run.method.options).needs.horizon


def _index(out: Path, plan: StudyPlan) -> None:
    """Store the order in which settings and methods are shown; those of earlier plans in the same folder come after."""
    before = run_folder.document(out / run_folder.INDEX)
    merged = {
        key: list(dict.fromkeys([*own, *before.get(key, [])]))
        for key, own in (("settings", plan.settings), ("methods", plan.labels))
    }
    title = plan.title or before.get("title", "")
    criteria = {"margin": plan.criteria.margin, "baseline": plan.criteria.baseline}
    if plan.criteria.all_pairs:
        criteria["all_pairs"] = True
    write_folder.write_document(out / run_folder.INDEX, {"title": title, **criteria, "runs": len(plan.runs), **merged})

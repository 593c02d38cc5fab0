"""All runs of a plan: what is there already is checked or resumed, what is missing is played, what failed is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sortition.core.errors import InputError, StorageError
from sortition.core.storage.snapshot import difference
from sortition.results import run_folder
from sortition.simulation import start
from sortition.studies import federation, methods
from sortition.studies.config import RunConfig
from sortition.studies.plan import Plan
from sortition.studies.runs import write_folder
from sortition.studies.runs.one_run import Play
from sortition.studies.runs.progress import Progress, Quiet
from sortition.studies.workers import local, ray_cluster
from sortition.studies.workers.scheduler import Event


@dataclass
class Outcome:
    """What became of a plan."""

    out: Path
    failed: dict[str, str] = field(default_factory=dict)  # run folder → why
    interrupted: bool = False


def place(out: Path, run: RunConfig) -> Path:
    """The folder of a run."""
    return out / run.setting / run.method.label / f"seed-{run.seed}"


def execute(
    plan: Plan,
    out: Path,
    *,
    jobs: int | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    on: str | None = None,
) -> Outcome:
    """Play the runs of a plan that are not yet done in ``out``; everything that can be wrong is told before.

    ``on``: the Ray cluster where they are played (``ray``, ``ray://host:port``); default: this machine.
    """
    shown: Progress = progress or Quiet()
    with write_folder.locked(out), _machines(on, plan.runs) as machines:
        for run in plan.runs:
            write_folder.inside(place(out, run), out)
        states = [(run, state(run, place(out, run))) for run in plan.runs]
        known = [told for _, told in states if told != "new"]
        if known and not resume:
            raise InputError(
                f"{out} must be an empty folder; got one with {len(known)} of these runs ({known.count('done')} done). "
                "Add --resume to go on with them, or choose another with -o."
            )
        left = [run for run, told in states if told != "done"]
        if left:
            machines.call(check, left)
        if jobs != 1:
            federation.forget()  # the workers hold their own
        _index(out, plan)
        outcome = Outcome(out)

        def hear(event: Event) -> None:
            if event.kind == "failed":
                outcome.failed[str(place(out, left[event.at]))] = event.text
            shown.hear(event)

        with shown.over(left, len(plan.runs) - len(left)):
            tasks = [Play(run, place(out, run)) for run in left]
            outcome.interrupted = not machines.run(tasks, jobs, hear)
    return outcome


@contextmanager
def _machines(on: str | None, runs: Sequence[RunConfig]) -> Iterator[local.Here | ray_cluster.Cluster]:
    if on is None:
        yield local.Here()
        return
    with ray_cluster.connected(on, runs) as cluster:
        yield cluster


def check(runs: Iterable[RunConfig]) -> None:
    """Build each setting's federation once, and every method on it, so that what is missing is told now."""
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
    _ = held.manifest  # of a newer format: refused
    before, now = flat(held.config), flat(run.table())
    longer = "rounds" in before and now["rounds"] >= before["rounds"]
    free = {"rounds"} if longer and not _horizon(run) else set()
    free |= set() if run.stop_at_target else {key for key in before | now if key.startswith("target.")}
    changed = difference(
        {key: value for key, value in before.items() if key not in free},
        {key: value for key, value in now.items() if key not in free},
    )
    if changed:
        horizon = f" {run.method.label} plans for its horizon." if "rounds was" in changed and _horizon(run) else ""
        raise StorageError(
            f"{path} is of another configuration: {changed}.{horizon} Choose another folder with -o, or remove it."
        )
    if not held.done:
        return "started"
    played = held.summary.get("rounds", 0)
    reached = played < before["rounds"]  # it stopped at its target
    return "done" if reached or played >= run.rounds else "started"


def _horizon(run: RunConfig) -> bool:
    return methods.make(run.method.name, run.method.options).needs.horizon


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """``{"a": {"b": 1}}`` as ``{"a.b": 1}``."""
    result: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            result |= flat(value, f"{prefix}{key}.")
        else:
            result[f"{prefix}{key}"] = value
    return result


def _index(out: Path, plan: Plan) -> None:
    """In which order settings and methods are shown; those of earlier plans in the same folder come after."""
    before = run_folder.document(out / run_folder.INDEX)
    merged = {
        key: list(dict.fromkeys([*own, *before.get(key, [])]))
        for key, own in (("settings", plan.settings), ("methods", plan.labels))
    }
    write_folder.write_document(out / run_folder.INDEX, {"title": plan.title or before.get("title", ""), **merged})

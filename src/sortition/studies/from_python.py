"""Studies from Python: compare methods on data, models and rules that are names or Python objects."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from sortition.core.arrays import Array
from sortition.core.cost import Until
from sortition.core.errors import SortitionError, unknown
from sortition.core.round_record import RoundRecord
from sortition.core.state import State
from sortition.data.partitions import NATURAL, Partition
from sortition.results import run_folder
from sortition.results.statistics import MARGIN
from sortition.studies import arguments, python_objects
from sortition.studies.config import Data
from sortition.studies.plan import StudyPlan, plan, read
from sortition.studies.runs.callback import Callback
from sortition.studies.runs.progress import Progress, automatic, say
from sortition.studies.study_result import StudyResult, left_out_note, notes_of
from sortition.studies.study_table import Study
from sortition.studies.types import (
    AvailabilityLike,
    ClientsLike,
    CompareOptions,
    DataLike,
    FederationOptions,
    LocalLike,
    LossFunction,
    MethodLike,
    MethodsLike,
    MetricFunction,
    ModelLike,
    PartitionLike,
    ReadOnlyTable,
    StudyOptions,
    TomlTable,
)

if TYPE_CHECKING:
    from sortition.simulation import Setup

DEFAULT_ROUNDS = 100
DEFAULT_LOCAL = {"epochs": 1, "batch": 32, "lr": 0.1}


def compare(
    methods: MethodsLike,
    *,
    data: DataLike,
    clients: ClientsLike | None = None,
    partition: PartitionLike | None = None,
    model: ModelLike = "mlp",
    availability: AvailabilityLike = "always",
    local: LocalLike | None = None,
    loss: str | LossFunction | None = None,
    metric: str | MetricFunction | None = None,
    higher_is_better: bool | None = None,
    rounds: int | None = None,
    cohort: int = 10,
    seeds: int | Sequence[int] = 10,
    sweep: ReadOnlyTable | None = None,
    margin: float = MARGIN,
    baseline: str = "",
    callbacks: Sequence[Callback] = (),
    out: str | Path | None = None,
    jobs: int | None = None,
    on: str | None = None,
    progress: bool | Progress = True,
    **more: Unpack[StudyOptions],
) -> StudyResult:
    """Play every method on every seed, and compare them in pairs; docs/studies.md has all forms of the arguments.

    - ``methods``: names, instances (``load("fedgs", alpha=0.5)``), Selector classes, or tables as in a file.
    - ``data``: a name, a file, arrays, tensors, a torch Dataset or ``{client: (x, y)}``; ``clients``: how many, or
      beside ``(x, y)`` the client of each example; ``partition``: a name, ``partition(name, …)``, a file, index arrays
      (the rows of ``x`` of each client) or a function, by default ``iid`` or the data's own clients.
    - ``model``, ``availability``, ``local``: a name or table, or the object itself; ``local`` is by default
      ``{"epochs": 1, "batch": 32, "lr": 0.1}``.
    - ``loss``, ``metric``: of a task other than classification, each a name (``"mse"``, ``"bce"``, ``"r2"``, …) or a
      function ``(outputs, targets)``; ``higher_is_better`` belongs to a metric of one's own. See docs/tasks.md.
    - ``rounds``: how many a run has, by default 100; ``until={"seconds": 3600}`` (or ``megabytes``, ``passes``) ends a
      run by its cost, and ``rounds`` is then the most that it has.
    - ``margin``: a difference up to here is practically none, in points of accuracy (% of the baseline's loss).
    - ``baseline``: the method that others are compared with, by label or name, by default ``uniform``; with
      ``all_pairs=True`` every pair of methods is compared.
    - ``cost``: what compared methods are given equally much of, ``"rounds"``, ``"seconds"``, ``"megabytes"``
      or ``"passes"``; by default what runs end by, else seconds where devices differ, else rounds.
    - ``out``: the folder of runs, resumed where it holds some, by default a new temporary one; ``jobs``: processes at a
      time, by default as many as there are cores, or one where runs cannot be played in others; ``on``: a Ray cluster;
      ``callbacks`` follow the runs; ``progress`` shows them.
    - ``more``: any other key of a study's file.
    """
    _check_keys(more, "compare", compare, taken=("method",))
    with python_objects.forgotten_afterwards():
        table = _study_table(
            methods,
            data=data,
            clients=clients,
            partition=partition,
            model=model,
            availability=availability,
            local=local,
            loss=loss,
            metric=metric,
            higher_is_better=higher_is_better,
            rounds=rounds,
            cohort=cohort,
            seeds=seeds,
            **more,
        )
        table["margin"] = margin
        table["baseline"] = baseline
        if sweep:
            table["sweep"] = dict(sweep)
        return _execute(plan(table), out, jobs=jobs, on=on, progress=progress, callbacks=callbacks)


def run(method: MethodLike, **options: Unpack[CompareOptions]) -> StudyResult:
    """Play one method alone; the options are those of :func:`compare`, with one seed unless ``seeds`` is given."""
    options.setdefault("seeds", 1)
    return compare([method], **options)


@dataclass(frozen=True)
class Step:
    """One round of :func:`simulate`.

    Attributes:
        record: the round's record, as in rounds.jsonl.
        state: the selector's memory after the round.
        params: the numbers of the global model after the round, of shape (P,).
        setup: what is played: world, selector, population, availability.
    """

    record: RoundRecord
    state: State
    params: Array
    setup: Setup

    @property
    def round(self) -> int:
        """Return how many rounds were played, from 1."""
        return self.record["round"] + 1


def simulate(method: MethodLike, *, seed: int = 0, **options: Unpack[FederationOptions]) -> Iterator[Step]:
    """Play one run in this process, round by round, without a folder; the options are those of :func:`compare`."""
    from sortition.simulation import start
    from sortition.studies import build_federation

    _check_keys(options, "simulate", _study_table, taken=("method", "methods", "seeds"))
    with python_objects.forgotten_afterwards():
        table = _study_table(method, seeds=[seed], **options)
        config = plan(table).runs[0]
        setup = build_federation.setup(config)[1]
        simulation = start(setup)
        while not simulation.has_ended:
            record = simulation.play_round()
            yield Step(record=record, state=simulation.registrar.state, params=simulation.params, setup=setup)


def study(
    source: str | Path | ReadOnlyTable,
    *,
    out: str | Path | None = None,
    sets: Iterable[str] = (),
    jobs: int | None = None,
    on: str | None = None,
    progress: bool | Progress = True,
    callbacks: Sequence[Callback] = (),
    until: ReadOnlyTable | Until | None = None,
) -> StudyResult:
    """Run what is missing of a study, given as a TOML file or as a table with the same keys.

    Args:
        source: a TOML file, or its table as a dictionary.
        out: the folder of runs; one that holds some of them is resumed. Default: a new temporary folder.
        sets: ``a.b=c`` overrides.
        jobs: processes at a time, by default as many as there are cores; one where an object that was given cannot be
            sent to another process, and by default where a callback is not the package's.
        on: the Ray cluster where runs are played, ``ray`` or ``ray://host:port``; default: this machine.
        progress: whether to show how far the runs are; or what shows it.
        callbacks: what follows the runs.
        until: the cost at which runs end, in place of the study's: ``{"seconds": 3600}``, megabytes or passes.
    """
    if isinstance(source, str | Path):
        table = read(source)
    else:
        table = dict(source)
    if until is not None:
        table["until"] = arguments.rule_table(until)
    return _execute(plan(table, tuple(sets)), out, jobs=jobs, on=on, progress=progress, callbacks=callbacks)


def _study_table(
    methods: MethodsLike,
    *,
    data: DataLike,
    clients: ClientsLike | None = None,
    partition: PartitionLike | None = None,
    model: ModelLike = "mlp",
    availability: AvailabilityLike = "always",
    local: LocalLike | None = None,
    loss: str | LossFunction | None = None,
    metric: str | MetricFunction | None = None,
    higher_is_better: bool | None = None,
    rounds: int | None = None,
    cohort: int = 10,
    seeds: int | Sequence[int] = 10,
    **more: Unpack[StudyOptions],
) -> TomlTable:
    """Return the arguments of :func:`compare` as the table of a study's file."""
    table = {
        "cohort": cohort,
        "seeds": arguments.seeds_value(seeds),
        "data": _data_with_partition(data, clients, partition),
        "model": arguments.model_table(model),
        "availability": arguments.availability_table(availability),
        "local": arguments.rule_table(DEFAULT_LOCAL if local is None else local),
        "method": arguments.method_tables(methods),
        **{key: arguments.rule_table(value) for key, value in more.items()},
    }
    if rounds is None and "until" not in table:
        rounds = DEFAULT_ROUNDS
    if rounds is not None:
        table["rounds"] = rounds
    task = arguments.task_table(loss, metric, higher_is_better)
    if task:
        table["task"] = {**table.get("task", {}), **task}
    return table


def _check_keys(keys: Iterable[str], owner: str, function: Callable[..., Any], *, taken: Sequence[str]) -> None:
    """Refuse keys that are neither arguments of a function nor of a study's file, or that are ``taken`` already."""
    parameters = signature(function).parameters.values()
    arguments_of_function = [parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    allowed = dict.fromkeys(key for key in (*arguments_of_function, *Study.model_fields) if key not in taken)
    for key in keys:
        if key not in allowed:
            raise unknown("key", key, allowed, owner)


def _data_with_partition(data: DataLike, clients: ClientsLike | None, partition: PartitionLike | None) -> TomlTable:
    """Return ``[data]``; where only a number of clients is given, data without clients are split ``iid``."""
    table = arguments.data_table(data, clients)
    rule = arguments.partition_table(partition)
    if isinstance(partition, Partition | list | tuple | np.ndarray):
        table.setdefault("clients", len(partition))
    if rule is None and "partition" not in table and isinstance(table.get("clients"), int):
        rule = {"name": _usual_partition(table)}
    if rule is not None:
        table["partition"] = rule
    return table


def _usual_partition(table: TomlTable) -> str:
    """Return the partition of data for which nobody named one: their own clients where they come with some."""
    from sortition.studies.build_federation import dataset_of

    try:
        dataset = dataset_of(Data.model_validate(table))
    except (SortitionError, ValueError):  # the plan of the study says what is wrong with the data
        return "iid"
    if dataset.clients is None:
        return "iid"
    return NATURAL


def _execute(
    study_plan: StudyPlan,
    out: str | Path | None,
    *,
    jobs: int | None,
    on: str | None,
    progress: bool | Progress,
    callbacks: Sequence[Callback],
) -> StudyResult:
    """Play what is missing of a plan in its folder, and return what the folder then holds."""
    from sortition.studies.runs import runner

    if out is None:
        folder = Path(tempfile.mkdtemp(prefix="sortition-"))
    else:
        folder = Path(out)
    notes = []
    if isinstance(progress, bool):
        display = automatic(progress)
    else:
        display = progress
    processes, why_one = _processes(jobs, callbacks)
    if why_one:
        say(display, f"All runs are played in this process, since {why_one}.")
        if jobs is not None:
            notes.append(f"All runs were played in this process, since {why_one}.")
    execution = runner.execute(
        study_plan,
        folder,
        jobs=processes,
        resume=True,
        progress=display,
        on=on,
        callbacks=callbacks,
    )
    if execution.failed:
        first_folder, reason = next(iter(execution.failed.items()))
        n_failed = len(execution.failed)
        if n_failed == 1:
            raise SortitionError(f"1 run failed, {first_folder}: {reason}")
        raise SortitionError(f"{n_failed} runs failed; the first, {first_folder}: {reason}")
    if execution.interrupted:
        notes.append(f"Stopped early; the same call with out={str(folder)!r} goes on.")
    run_folders = runner.places(folder, study_plan)
    stored_runs = run_folder.find(folder)
    notes += notes_of([run for run in stored_runs if run.path in run_folders])
    notes += left_out_note(stored_runs, run_folders)
    return StudyResult(out=folder, notes=tuple(notes), run_folders=run_folders)


def _processes(jobs: int | None, callbacks: Sequence[Callback]) -> tuple[int | None, str]:
    """Return how many processes play the runs, None for all cores; and why only one, empty where there is no reason."""
    if jobs == 1:
        return 1, ""
    callback_by_name = {type(callback).__name__: callback for callback in callbacks}
    unsendable = python_objects.first_that_cannot_be_sent(callback_by_name)
    if unsendable:
        return 1, f"an object cannot be sent to another process: {unsendable}"
    users_callbacks = [type(callback) for callback in callbacks if not _is_ours(callback)]
    if jobs is None and users_callbacks:
        name = users_callbacks[0].__name__
        return 1, f"{name} may keep what it sees (jobs=… plays them in others, each with a copy of it)"
    return jobs, ""


def _is_ours(callback: Callback) -> bool:
    return type(callback).__module__.startswith("sortition.")

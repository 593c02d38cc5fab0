"""Studies from Python: compare methods on data, models and rules that are names or Python objects."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core.errors import SortitionError, unknown
from sortition.core.record import RoundRecord
from sortition.data.partitions import Partition
from sortition.results import run_folder
from sortition.results.statistics import MARGIN
from sortition.studies import arguments, given
from sortition.studies.plan import StudyPlan, plan, read
from sortition.studies.runs.callback import Callback
from sortition.studies.runs.progress import Progress, automatic, say
from sortition.studies.study_result import StudyResult, left_out_note, notes_of
from sortition.studies.study_table import Study

LOCAL = {"epochs": 1, "batch": 32, "lr": 0.1}


def compare(
    methods: Iterable[arguments.MethodGiven] | arguments.MethodGiven,
    *,
    data: Any,
    clients: Any = None,
    partition: Any = None,
    model: Any = "mlp",
    availability: Any = "always",
    local: Any = None,
    rounds: int = 100,
    cohort: int = 10,
    seeds: int | Sequence[int] = 10,
    sweep: Mapping[str, Any] | None = None,
    margin: float = MARGIN,
    baseline: str = "",
    callbacks: Sequence[Callback] = (),
    out: str | Path | None = None,
    jobs: int | None = None,
    on: str | None = None,
    progress: bool | Progress = True,
    **more: Any,
) -> StudyResult:
    """Play every method on every seed, and compare them in pairs; docs/studies.md has all forms of the arguments.

    - ``methods``: names, instances (``load("fedgs", alpha=0.5)``), Selector classes, or tables as in a file.
    - ``data``: a name, a file, arrays, tensors, a torch Dataset or ``{client: (x, y)}``; ``clients``: how many, or
      beside ``(x, y)`` the client of each example; ``partition``: a name, ``partition(name, …)``, a file, index arrays
      (the rows of ``x`` of each client) or a function, by default ``iid`` or the data's own clients.
    - ``model``, ``availability``, ``local``: a name or table, or the object itself; ``local`` is by default
      ``{"epochs": 1, "batch": 32, "lr": 0.1}``.
    - ``margin``: a difference up to here is practically none, in points of accuracy (% of the baseline's loss).
    - ``baseline``: the method that others are compared with, by label or name, by default ``uniform``; with
      ``all_pairs=True`` every pair of methods is compared.
    - ``out``: the folder of runs, resumed where it holds some, by default a new temporary one; ``jobs``: processes at a
      time, by default as many as there are cores, or one where runs cannot be played in others; ``on``: a Ray cluster;
      ``callbacks`` follow the runs; ``progress`` shows them.
    - ``more``: any other key of a study's file.
    """
    shared: dict[str, Any] = {"data": data, "clients": clients, "partition": partition, "model": model}
    shared |= {"availability": availability, "local": local, "rounds": rounds, "cohort": cohort, "seeds": seeds}
    shared |= {"margin": margin, "baseline": baseline}
    shared |= {"sweep": dict(sweep)} if sweep else {}
    _check_keys(more, "compare", compare, "method")
    with given.lent():
        table = _table(methods, **shared, **more)
        return _executed(plan(table), out, jobs=jobs, on=on, progress=progress, callbacks=callbacks)


def _table(
    methods: Iterable[arguments.MethodGiven] | arguments.MethodGiven,
    *,
    data: Any,
    clients: Any = None,
    partition: Any = None,
    model: Any = "mlp",
    availability: Any = "always",
    local: Any = None,
    rounds: int = 100,
    cohort: int = 10,
    seeds: int | Sequence[int] = 10,
    **more: Any,
) -> dict[str, Any]:
    """The arguments of :func:`compare` as the table of a study's file."""
    return {
        "rounds": rounds,
        "cohort": cohort,
        "seeds": arguments.seeds_value(seeds),
        "data": _data(data, clients, partition),
        "model": arguments.model_table(model),
        "availability": arguments.availability_table(availability),
        "local": arguments.rule_table(LOCAL if local is None else local),
        "method": arguments.methods_table(methods),
        **{key: arguments.rule_table(value) for key, value in more.items()},
    }


def _check_keys(keys: Iterable[str], owner: str, call: Callable[..., Any], *taken: str) -> None:
    """Refuse what is neither an argument of a function nor a key of a study's file; some are ``taken`` already."""
    own = [one.name for one in signature(call).parameters.values() if one.kind is not one.VAR_KEYWORD]
    known = dict.fromkeys(key for key in (*own, *Study.model_fields) if key not in taken)
    for key in keys:
        if key not in known:
            raise unknown("key", key, known, owner)


def _data(data: Any, clients: Any, partition: Any) -> dict[str, Any]:
    table = arguments.data_table(data, clients)
    rule = arguments.partition_table(partition)
    if isinstance(partition, Partition | list | tuple | np.ndarray):
        table.setdefault("clients", len(partition))
    if rule is None and "partition" not in table and isinstance(table.get("clients"), int):
        rule = {"name": "iid"}
    return table if rule is None else {**table, "partition": rule}


def run(method: arguments.MethodGiven, **options: Any) -> StudyResult:
    """One method alone; the options are those of :func:`compare`, with one seed unless ``seeds`` says otherwise."""
    return compare([method], **{"seeds": 1, **options})


@dataclass(frozen=True)
class Step:
    """One round of :func:`simulate`.

    Attributes:
        record: as in rounds.jsonl.
        state: the selector's memory after the round.
        params: the global model's numbers (P,) after the round.
        setup: what is played: world, selector, population, availability.
    """

    record: RoundRecord
    state: Any
    params: Any
    setup: Any

    @property
    def round(self) -> int:
        """Rounds played, from 1."""
        return int(self.record["round"]) + 1


def simulate(method: arguments.MethodGiven, *, seed: int = 0, **options: Any) -> Iterator[Step]:
    """Play one run in this process, round by round, without a folder; the options are those of :func:`compare`."""
    from sortition.simulation import start
    from sortition.studies import federation

    _check_keys(options, "simulate", _table, "method", "methods", "seeds")
    with given.lent():
        config = plan(_table(method, seeds=[seed], **options)).runs[0]
        setup = federation.setup(config)[1]
        simulation = start(setup)
        while simulation.played < config.rounds:
            record = simulation.play_round()
            yield Step(record, simulation.registrar.state, simulation.params, setup)


def study(
    source: str | Path | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    sets: Iterable[str] = (),
    jobs: int | None = None,
    on: str | None = None,
    progress: bool | Progress = True,
    callbacks: Sequence[Callback] = (),
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
    """
    table = read(source) if isinstance(source, str | Path) else dict(source)
    return _executed(plan(table, tuple(sets)), out, jobs=jobs, on=on, progress=progress, callbacks=callbacks)


def _executed(
    chosen: StudyPlan,
    out: str | Path | None,
    *,
    jobs: int | None,
    on: str | None,
    progress: bool | Progress,
    callbacks: Sequence[Callback],
) -> StudyResult:
    from sortition.studies.runs import runner

    folder = Path(tempfile.mkdtemp(prefix="sortition-")) if out is None else Path(out)
    notes = []
    shown = automatic(progress) if isinstance(progress, bool) else progress
    processes, why = _processes(jobs, callbacks)
    if why:
        say(shown, f"All runs are played in this process, since {why}.")
        notes += [f"All runs were played in this process, since {why}."] if jobs is not None else []
    done = runner.execute(chosen, folder, jobs=processes, resume=True, progress=shown, on=on, callbacks=callbacks)
    if done.failed:
        where, why = next(iter(done.failed.items()))
        raise SortitionError(f"{len(done.failed)} runs failed; the first, {where}: {why}")
    if done.interrupted:
        notes.append(f"Stopped early; the same call with out={str(folder)!r} goes on.")
    notes += _notes(folder, chosen)
    return StudyResult(folder, tuple(notes), runner.places(folder, chosen))


def _processes(jobs: int | None, callbacks: Sequence[Callback]) -> tuple[int | None, str]:
    """How many processes play the runs, None for all cores; and why it is one, where more were asked for."""
    if jobs == 1:
        return 1, ""
    given_callbacks = {type(callback).__name__: callback for callback in callbacks}
    if unsent := given.cannot_be_sent(given_callbacks):
        return 1, f"an object cannot be sent to another: {unsent}"
    own = [name for name, one in given_callbacks.items() if not type(one).__module__.startswith("sortition.")]
    if jobs is None and own:
        return 1, f"{own[0]} may keep what it sees (jobs=… plays them in others, each with a copy of it)"
    return jobs, ""


def _notes(folder: Path, chosen: StudyPlan) -> list[str]:
    """What the runs of a study note, and which runs of its folder are not the study's."""
    from sortition.studies.runs import runner

    found, asked = run_folder.find(folder), runner.places(folder, chosen)
    return [*notes_of([run for run in found if run.path in asked]), *left_out_note(found, asked)]

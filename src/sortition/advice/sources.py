"""Where a federation may be described: a profile, a run's folder, an audit log, a history, label histograms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sortition.advice.profile import MEAN_SIZE, MOST_CELLS, Known, Profile, from_profile
from sortition.audit.recompute import UNREADABLE
from sortition.core.arrays import Array, Ids
from sortition.core.errors import InputError, SortitionError, StorageError, bad, shown
from sortition.results import run_folder
from sortition.results.history import History, cohort_of, fates, find_history
from sortition.studies.audit.log_reader import Log
from sortition.studies.config import Named, validated
from sortition.studies.plan import read

UNKNOWN_PRESENCE = "The history does not say who was there, so everybody is taken to have been."


def known(source: str | Path, *, cohort: int | None = None) -> Known:
    """A profile's file, a run's folder, an audit log, a federation's history or label counts, by what the source is."""
    path = Path(source)
    history = find_history(path)
    if history is not None:
        return from_history(history, cohort)
    if path.is_dir():
        return from_run(run_folder.Run(path))
    if path.suffix == ".toml":
        return from_profile(validated(Profile, read(path), "profile"), path.parent)
    if path.suffix == ".jsonl":
        return from_log(path)
    if path.suffix not in (".csv", ".npy", ".npz", ".parquet"):
        rule = "a profile (.toml), a run's folder, a federation's history or audit log (.jsonl), or a table of clients"
        raise bad("source", rule, str(path))
    if cohort is None:
        raise InputError("--cohort must be given where the source does not say it; got nothing.")
    table = {"cohort": cohort, "label_counts": str(path.resolve())}
    return from_profile(validated(Profile, table, "profile"), path.parent)


def from_run(run: run_folder.Run) -> Known:
    """A finished or unfinished run of a study: its federation, and whom its method chose."""
    arrays, config = run.federation(), run.config
    if "label_counts" not in arrays:
        raise StorageError(f"{run.path} has no federation.npz to learn from.")
    with readable(run.path):
        return _played(run.records, config, arrays, run.method)


def _played(records: list[dict[str, Any]], config: dict[str, Any], arrays: dict[str, Array], method: str) -> Known:
    faults, devices = config.get("faults") or {}, config.get("devices") or {}
    unharmed = 1 - sum(faults.get(fate, 0.0) for fate in ("before", "during", "after"))
    chosen = tuple((np.array(r["cohort"], np.int64), np.array(r.get("weights") or [])) for r in records)
    return Known(
        int(config["cohort"]),
        int(config["rounds"]),
        arrays["label_counts"],
        validated(Named, config.get("availability") or {"name": "always"}, "availability"),
        arrays.get("availability"),
        dropout=float(1 - unharmed * (1 - devices.get("dropout", 0.0))),
        chosen=tuple((ids, weights if weights.size == ids.size else _equal(ids)) for ids, weights in chosen),
        played_by=method,
    )


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what is of another form in a run's files or a log into one error message."""
    try:
        yield
    except UNREADABLE as error:
        if isinstance(error, SortitionError):
            raise
        raise StorageError(f"{path} cannot be read: {shown(repr(error))}.") from None


def from_log(path: Path) -> Known:
    """An audit log: who was there and who was chosen; facts of clients where they were disclosed beside it."""
    log = Log(path)
    if not log.entries:
        raise StorageError(f"{path} has no round yet.")
    with readable(path):
        return _logged(log, path)


def _logged(log: Log, path: Path) -> Known:
    rounds = [log.round(t) for t in range(len(log.entries))]
    clients = log.clients(len(rounds) - 1)
    if not 0 < clients * len(rounds) <= MOST_CELLS:
        raise StorageError(f"{path} cannot be read: {clients:,} clients in {len(rounds):,} rounds.")
    masks = np.zeros((len(rounds), clients), bool)
    for t, one in enumerate(rounds):
        masks[t, one.available] = True
    disclosed = run_folder.document(path.with_name(f"{path.name}.reveal.json")).get("facts") or {}
    if "label_counts" in disclosed:
        counts = np.asarray(disclosed["label_counts"])
    else:
        counts = np.asarray(disclosed.get("sizes") or np.full(clients, MEAN_SIZE)).reshape(-1, 1)
    return Known(
        int(rounds[0].entry["budget"]),
        len(rounds),
        counts,
        masks=masks,
        chosen=tuple((one.cohort, one.weights) for one in rounds),
        played_by=log.method,
    )


def from_history(history: History, cohort: int | None = None) -> Known:
    """A federation's history: who was there and who was chosen; facts of clients where its checkpoint is beside it."""
    records = history.played()
    clients = history.clients
    if not 0 < clients * len(records) <= MOST_CELLS:
        raise StorageError(f"{history.path} cannot be read: {clients:,} clients in {len(records):,} rounds.")
    facts = history.facts()
    counts = facts.get("label_counts")
    if counts is None:
        counts = facts.get("sizes", np.full(clients, MEAN_SIZE)).reshape(-1, 1)
    chosen = [(np.array(cohort_of(record), np.int64), np.array(record.get("weights") or [])) for record in records]
    return Known(
        cohort or max(history.cohort, 1),
        len(records),
        counts,
        masks=_masks(history, clients),
        dropout=_dropout(history),
        chosen=tuple(chosen),
        played_by=history.method,
        notes=() if history.says_who_was_there else (UNKNOWN_PRESENCE,),
    )


def _masks(history: History, clients: int) -> Array | None:
    """(rounds, N) who could be chosen, where the records say it."""
    if not history.says_who_was_there:
        return None
    masks = np.zeros((len(history.records), clients), bool)
    for row, ids in zip(masks, history.present(), strict=True):
        row[ids] = True
    return masks


def _dropout(history: History) -> float:
    """Share of the chosen clients that were wanted and did not help; those that were not needed do not count."""
    outcomes = [fate for record in history.records for fate in fates(record).values() if fate != "standby"]
    if not outcomes:
        return 0.0
    lost = sum(fate != "used" for fate in outcomes)
    return min(lost, len(outcomes) - 1) / len(outcomes)  # below 1: somebody may always answer


def _equal(ids: Ids) -> Array:
    return np.full(ids.size, 1.0 / max(ids.size, 1))

"""Where a federation may be described: a profile, a run's folder, an audit log, a Flower history, label histograms."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sortition.advice.flower_history import from_history, is_history
from sortition.advice.profile import MEAN_SIZE, Known, Profile, from_profile
from sortition.core.arrays import Array, Ids
from sortition.core.errors import InputError, StorageError, bad
from sortition.results import run_folder
from sortition.studies.audit.log_reader import Log
from sortition.studies.config import Named, validated
from sortition.studies.plan import read


def known(source: str | Path, *, cohort: int | None = None) -> Known:
    """A profile's file, a run's folder, an audit log, a Flower history or label histograms, by what the source is."""
    path = Path(source)
    if path.is_dir():
        return from_run(run_folder.Run(path))
    if path.suffix == ".toml":
        return from_profile(validated(Profile, read(path), "profile"), path.parent)
    if path.suffix == ".jsonl":
        return from_history(path, cohort) if is_history(path) else from_log(path)
    if path.suffix not in (".csv", ".npy", ".npz", ".parquet"):
        rule = "a profile (.toml), a run's folder, an audit log or a Flower history (.jsonl), or a table of clients"
        raise bad("source", rule, str(path))
    if cohort is None:
        raise InputError("--cohort must be given where the source does not say it; got nothing.")
    return from_profile(Profile(cohort=cohort, label_counts=str(path.resolve())), path.parent)


def from_run(run: run_folder.Run) -> Known:
    """A finished or unfinished run of a study: its federation, and whom its method chose."""
    arrays, config = run.federation(), run.config
    if "label_counts" not in arrays:
        raise StorageError(f"{run.path} has no federation.npz to learn from.")
    faults = config.get("faults") or {}
    chosen = tuple((np.array(r["cohort"], np.int64), np.array(r.get("weights") or [])) for r in run.records)
    return Known(
        int(config["cohort"]),
        int(config["rounds"]),
        arrays["label_counts"],
        Named(**config.get("availability", {"name": "always"})),
        arrays.get("availability"),
        dropout=float(sum(faults.get(fate, 0.0) for fate in ("before", "during", "after"))),
        chosen=tuple((ids, weights if weights.size == ids.size else _equal(ids)) for ids, weights in chosen),
        played_by=run.method,
    )


def from_log(path: Path) -> Known:
    """An audit log: who was there and who was chosen; facts of clients where they were disclosed beside it."""
    log = Log(path)
    if not log.entries:
        raise StorageError(f"{path} has no round yet.")
    rounds = [log.round(t) for t in range(len(log.entries))]
    clients = log.clients(len(rounds) - 1)
    masks = np.zeros((len(rounds), clients), bool)
    for t, one in enumerate(rounds):
        masks[t, one.available] = True
    disclosed = run_folder.document(path.with_name(f"{path.name}.reveal.json")).get("facts") or {}
    notes: tuple[str, ...] = ()
    if "label_counts" in disclosed:
        counts = np.asarray(disclosed["label_counts"])
    else:
        counts = np.asarray(disclosed.get("sizes") or np.full(clients, MEAN_SIZE)).reshape(-1, 1)
        notes = ("The log does not hold the clients' label counts, so nothing is said of mixtures.",)
    return Known(
        int(rounds[0].entry["budget"]),
        len(rounds),
        counts,
        masks=masks,
        chosen=tuple((one.cohort, one.weights) for one in rounds),
        played_by=log.method,
        notes=notes,
    )


def _equal(ids: Ids) -> Array:
    return np.full(ids.size, 1.0 / max(ids.size, 1))

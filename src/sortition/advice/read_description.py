"""Where a federation may be described: a profile, a run's folder, an audit log, a history, label histograms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np

from sortition.advice.profile import MEAN_SIZE, MOST_CELLS, KnownFederation, LocalWork, Profile, from_profile
from sortition.advice.shadows import shadow_summaries
from sortition.audit.recompute import UNREADABLE
from sortition.core.arrays import Array, Ids
from sortition.core.cost import BYTES_PER_MEGABYTE, BYTES_PER_NUMBER
from sortition.core.errors import InputError, SortitionError, StorageError, bad, show_value
from sortition.core.round_record import RoundRecord, cohort_ids
from sortition.federation.pace import Pace
from sortition.results import run_folder
from sortition.results.equal_cost import devices_differ
from sortition.results.history import History, find_history
from sortition.simulation.devices import Devices
from sortition.studies.audit.log_reader import Log
from sortition.studies.config import Named, validated
from sortition.studies.plan import read

NO_DROPOUT = ("standby", "withdrawn", "still at work")  # fates: not needed, not sent to work, not over yet
POLICY_ACTED = (
    "A policy left clients out of the rounds as they were played; the methods here choose among all who were available."
)
UNKNOWN_PRESENCE = "The history does not say who was there, so everybody is taken to have been."


def known_federation(source: str | Path, *, cohort: int | None = None) -> KnownFederation:
    """Read a federation from whatever the source is.

    Args:
        source: a profile's file, a run's folder, an audit log, a federation's history, or a table of label counts.
        cohort: clients a round, where the source does not say it.
    """
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


def from_run(run: run_folder.Run) -> KnownFederation:
    """Read a finished or unfinished run of a study: its federation, and whom its method chose."""
    arrays = run.federation()
    if "label_counts" not in arrays:
        raise StorageError(f"{run.path} has no federation.npz to learn from.")
    config = run.config
    with readable(run.path):
        return KnownFederation(
            cohort=int(config["cohort"]),
            rounds=int(config.get("rounds") or len(run.records) or 1),
            counts=arrays["label_counts"],
            mode=validated(Named, config.get("availability") or {"name": "always"}, "availability"),
            masks=arrays.get("availability"),
            dropout=_configured_dropout(config),
            **_configured_devices(run),
            chosen=_chosen(run.records),
            played_by=run.method,
            shadows=shadow_summaries(cast(list[RoundRecord], run.records)),
            notes=_policy_notes(run.records),
        )


def _configured_devices(run: run_folder.Run) -> dict[str, Any]:
    """Return devices, pace and local work of a study's run whose devices differ; nothing otherwise."""
    config = run.config
    if not devices_differ(config):
        return {}
    table = dict(config["devices"])
    table.pop("dropout", None)  # counted in the federation's
    local = config["local"]
    work: dict[str, float] = {}
    if local.get("epochs"):
        work["epochs"] = local["epochs"]
    elif local.get("batch"):
        work["examples"] = local["steps"] * local["batch"]
    parameters = (run.manifest.get("model") or {}).get("parameters")
    if parameters:
        work["megabytes"] = BYTES_PER_NUMBER * parameters / BYTES_PER_MEGABYTE
    return {
        "devices": Devices(**table),
        "pace": Pace.of(config.get("pace"), "run"),
        "work": validated(LocalWork, work, "work"),
    }


def _policy_notes(records: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return what a reader must know where a policy acted in the records, or the entries of an audit log."""
    if any(record.get("excluded") for record in records):
        return (POLICY_ACTED,)
    return ()


def _configured_dropout(config: Mapping[str, Any]) -> float:
    """Return the chance that a chosen client of a study's run does not answer."""
    faults = config.get("faults") or {}
    devices = config.get("devices") or {}
    without_fault = 1 - sum(faults.get(fate, 0.0) for fate in ("before", "during", "after"))
    return float(1 - without_fault * (1 - devices.get("dropout", 0.0)))


def _chosen(records: Sequence[Mapping[str, Any]]) -> tuple[tuple[Ids, Array], ...]:
    """Return the cohorts and weights of all rounds; equal weights where a record has none."""
    cohorts = []
    for record in records:
        ids = np.array(record["cohort"], np.int64)
        weights = np.array(record.get("weights") or [])
        if weights.size != ids.size:
            weights = np.full(ids.size, 1.0 / max(ids.size, 1))
        cohorts.append((ids, weights))
    return tuple(cohorts)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what is of another form in a run's files or a log into one error message."""
    try:
        yield
    except UNREADABLE as error:
        if isinstance(error, SortitionError):
            raise
        raise StorageError(f"{path} cannot be read: {show_value(repr(error))}.") from None


def from_log(path: Path) -> KnownFederation:
    """Read an audit log: who was there and who was chosen; facts of clients where they were disclosed beside it."""
    log = Log(path)
    if not log.entries:
        raise StorageError(f"{path} has no round yet.")
    with readable(path):
        return _from_entries(log, path)


def _from_entries(log: Log, path: Path) -> KnownFederation:
    rounds = [log.round(t) for t in range(len(log.entries))]
    clients = log.clients(len(rounds) - 1)
    if not 0 < clients * len(rounds) <= MOST_CELLS:
        raise StorageError(f"{path} cannot be read: {clients:,} clients in {len(rounds):,} rounds.")
    masks = np.zeros((len(rounds), clients), bool)
    for t, logged_round in enumerate(rounds):
        masks[t, logged_round.available] = True
    facts = run_folder.read_document(path.with_name(f"{path.name}.reveal.json")).get("facts") or {}
    if "label_counts" in facts:
        counts = np.asarray(facts["label_counts"])
    else:
        counts = np.asarray(facts.get("sizes") or np.full(clients, MEAN_SIZE)).reshape(-1, 1)
    return KnownFederation(
        cohort=int(rounds[0].entry["budget"]),
        rounds=len(rounds),
        counts=counts,
        masks=masks,
        chosen=tuple((logged_round.cohort, logged_round.weights) for logged_round in rounds),
        played_by=log.method,
        notes=_policy_notes([logged_round.entry for logged_round in rounds]),
    )


def from_history(history: History, cohort: int | None = None) -> KnownFederation:
    """Read a federation's history: who was there and who was chosen; facts where its checkpoint is beside it."""
    records = history.played_records()
    clients = history.clients
    if not 0 < clients * len(records) <= MOST_CELLS:
        raise StorageError(f"{history.path} cannot be read: {clients:,} clients in {len(records):,} rounds.")
    facts = history.facts()
    counts = facts.get("label_counts")
    if counts is None:
        counts = facts.get("sizes", np.full(clients, MEAN_SIZE)).reshape(-1, 1)
    notes = _policy_notes(records)
    if not history.says_who_was_there:
        notes = (UNKNOWN_PRESENCE, *notes)
    chosen = [(np.array(cohort_ids(record), np.int64), np.array(record.get("weights") or [])) for record in records]
    return KnownFederation(
        cohort=cohort or max(history.cohort, 1),
        rounds=len(records),
        counts=counts,
        masks=_masks(history, clients),
        dropout=_dropout(history),
        chosen=tuple(chosen),
        played_by=history.method,
        shadows=shadow_summaries(records),
        notes=notes,
    )


def _masks(history: History, clients: int) -> Array | None:
    """Return who could be chosen (rounds, N), where the records say it."""
    if not history.says_who_was_there:
        return None
    masks = np.zeros((len(history.records), clients), bool)
    for row, ids in zip(masks, history.present(), strict=True):
        row[ids] = True
    return masks


def _dropout(history: History) -> float:
    """Return the share of the chosen clients that were wanted and sent to work, and did not help."""
    fates = [outcome.fate for chosen in history.outcomes.values() for outcome in chosen.values()]
    fates_at_work = [fate for fate in fates if fate not in NO_DROPOUT]
    if not fates_at_work:
        return 0.0
    n_lost = sum(fate != "used" for fate in fates_at_work)
    return min(n_lost, len(fates_at_work) - 1) / len(fates_at_work)  # below 1: somebody may always answer

"""Whether an audit log agrees with what lies beside it in the run folder: manifest, records, summary, configuration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sortition.audit import log as audit
from sortition.audit.encoding import decode_ids, decode_numbers, plain
from sortition.audit.log import commitment, digest_of
from sortition.audit.recompute import UNREADABLE
from sortition.core.errors import SortitionError
from sortition.core.registrar import Registrar
from sortition.results import metrics, run_folder
from sortition.studies.config import RunConfig
from sortition.studies.runs.one_run import StopRule

READS = (*UNREADABLE, SortitionError)


def against_header(header: Mapping[str, Any], registrar: Registrar, revealed: Any) -> list[str]:
    """Whether the log is of this selection, and of the seed that was committed to."""
    now = audit.header(registrar, b"")
    found = [
        f"The header's {key} should be {now.get(key)!r}; the log has {header.get(key)!r}."
        for key in ("selector", "parameters", "guards", "clients", *(["horizon"] if registrar.needs.horizon else []))
        if header.get(key) != now.get(key)
    ]
    if header.get("population") != digest_of(registrar.population):
        found.append("The header's population has another digest than the run's clients.")
    try:
        seed, salt = revealed["seed"], bytes.fromhex(revealed["salt"])
        if isinstance(seed, bool) or commitment(salt, seed) != header.get("commitment"):
            found.append("The revealed seed is not the one that the log committed to.")
        elif seed != registrar.seed:
            found.append(f"The revealed seed is {seed}; the run's configuration has {registrar.seed}.")
    except (TypeError, KeyError, ValueError, AttributeError):
        found.append("The manifest does not reveal seed and salt.")
    return found


def against_records(entries: list[dict[str, Any]], rounds: list[dict[str, Any]]) -> list[str]:
    """Whether rounds.jsonl tells the same choices, completions and refusals."""
    found = []
    if len(entries) != len(rounds):
        found.append(f"The log tells of {len(entries)} rounds; rounds.jsonl of {len(rounds)}.")
    for entry, record in zip(entries, rounds, strict=False):
        try:
            found += _one(entry, record)
        except READS as error:
            found.append(f"Round {shown(entry)}: rounds.jsonl cannot be compared: {error!r}.")
    return found


def shown(entry: Mapping[str, Any]) -> str:
    """An entry's round, in words."""
    return str(entry.get("round", "?"))[:20]


def _one(entry: Mapping[str, Any], record: Mapping[str, Any]) -> list[str]:
    cohort = decode_ids(entry["cohort"])
    answered = record["cohort"] if record["answered"] is None else record["answered"]
    notes, told = dict(record["notes"]), {key: value for key, value in entry["notes"].items() if key != "guards"}
    asked = [[one["signal"], decode_ids(one.get("ids", entry["available"])).size] for one in entry.get("asked", [])]
    pairs: dict[str, tuple[Any, Any]] = {
        "round": (entry["round"], record["round"]),
        "number of available clients": (decode_ids(entry["available"]).size, record["available"]),
        "questions": (asked, [[one["signal"], one["asked"]] for one in record["questions"]]),
        "cohort": (cohort.tolist(), record["cohort"]),
        "weights": (decode_numbers(entry["weights"], cohort.size).tolist(), record["weights"]),
        "completed clients": (decode_ids(entry.get("done", entry["cohort"])).tolist(), answered),
        "refused numbers": (entry.get("rejected", {}), record.get("rejected") or {}),
        "refused updates": ([int(k) for k in entry.get("blamed", {})], notes.get("unsound_updates", [])),
    }
    if set(told) != {"sha256"}:  # else they are long, and their digest is held against the recomputed ones
        pairs["notes"] = (told, {key: notes.get(key) for key in told})
    return [
        f"Round {shown(entry)}: {what}: the log has {plain(mine)}; rounds.jsonl has {plain(other)}."
        for what, (mine, other) in pairs.items()
        if mine != other
    ]


def against_end(run: run_folder.Run, config: RunConfig) -> list[str]:
    """Whether a run that says it is done has all its rounds, and figures that follow from its records."""
    played, found = len(run.records), list[str]()
    if run.summary.get("rounds") != played:
        found.append(f"The summary tells of {run.summary.get('rounds')} rounds; rounds.jsonl of {played}.")
    target = config.target if config.stop_at_target else None
    if played < config.rounds and not StopRule(target, run.records).reached:
        found.append(f"The run ends after {played} of {config.rounds} rounds, and no target was reached by then.")
    try:
        now, told = metrics.summarise(run), run.summary.get("figures", {})
    except UNREADABLE as error:
        return [*found, f"The summary's figures cannot be computed from the records: {error!r}."]
    other = [name for name in now if name in told and not _close(now[name], told[name])]
    if other:
        more = f" {len(other) - 1} more figures differ." if other[1:] else ""
        found.append(f"The summary's {other[0]} is {told[other[0]]}; by the records {now[other[0]]}.{more}")
    return found


def _close(mine: float | None, other: float | None) -> bool:
    return mine == other if mine is None or other is None else math.isclose(mine, other, rel_tol=1e-9)

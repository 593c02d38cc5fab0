"""Whether an audit log agrees with what lies beside it in the run folder: manifest, records, summary, configuration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sortition.audit import entries as audit
from sortition.audit.encoding import decode_ids, decode_numbers, json_value
from sortition.audit.entries import commitment, digest_of
from sortition.audit.recompute import UNREADABLE
from sortition.audit.schema import Header, RoundEntry, asked_ids, done_ids
from sortition.core.errors import SortitionError
from sortition.core.record import RoundRecord, answered_ids
from sortition.core.registrar import Registrar
from sortition.results import metrics, run_folder
from sortition.results.names import ClientNames
from sortition.studies.config import RunConfig
from sortition.studies.runs.one_run import StopRule

READS = (*UNREADABLE, SortitionError)
OF_CLIENTS = ("cohort", "completed clients", "refused updates")


def against_header(header: Header, registrar: Registrar, disclosed: Any) -> list[str]:
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
        seed, salt = disclosed["seed"], bytes.fromhex(disclosed["salt"])
        if isinstance(seed, bool) or commitment(salt, seed) != header.get("commitment"):
            found.append("The disclosed seed is not the one that the log committed to.")
        elif seed != registrar.seed:
            found.append(f"The disclosed seed is {seed}; the run's configuration has {registrar.seed}.")
    except (TypeError, KeyError, ValueError, AttributeError):
        found.append("The manifest does not disclose seed and salt.")
    return found


def against_records(
    entries: Sequence[RoundEntry],
    records: Sequence[RoundRecord],
    file: str = run_folder.ROUNDS,
    names: ClientNames | None = None,
) -> list[str]:
    """Whether a file of records (a run's, or a federation's history) has the same choices, completions and refusals."""
    found = []
    if len(entries) != len(records):
        found.append(f"The log has {len(entries)} rounds; {file} {len(records)}.")
    for entry, record in zip(entries, records, strict=False):
        try:
            found += [
                f"Round {round_name(entry)}: {difference.text(file, names or ClientNames())}"
                for difference in _differences(entry, record)
            ]
        except READS as error:
            found.append(f"Round {round_name(entry)}: {file} cannot be compared: {error!r}.")
    return found


@dataclass(frozen=True)
class Difference:
    """What a log and a record say differently of one round."""

    what: str
    logged: Any
    recorded: Any

    def text(self, file: str, names: ClientNames) -> str:
        """In words; clients that only one of both has are named where they have names."""
        said = f"{self.what}: the log has {json_value(self.logged)}; {file} has {json_value(self.recorded)}."
        if names and self.what in OF_CLIENTS:
            for where, mine, other in (("the log", self.logged, self.recorded), (file, self.recorded, self.logged)):
                if alone := [client for client in mine if client not in other]:
                    said += f" Only {where} has {names.listed(alone)}."
        return said


def round_name(entry: Mapping[str, Any] | RoundEntry) -> str:
    """An entry's round, as messages have it."""
    return str(entry.get("round", "?"))[:20]


def _differences(entry: RoundEntry, record: RoundRecord) -> list[Difference]:
    cohort = decode_ids(entry["cohort"])
    notes = dict(record["notes"] or {})
    logged_notes = {key: value for key, value in entry["notes"].items() if key != "guards"}
    pairs: dict[str, tuple[Any, Any]] = {
        "round": (entry["round"], record["round"]),
        "number of available clients": (decode_ids(entry["available"]).size, record["available"]),
        "questions": _questions(entry, record),
        "cohort": (cohort.tolist(), record["cohort"]),
        "weights": (decode_numbers(entry["weights"], cohort.size).tolist(), record["weights"]),
        "completed clients": (done_ids(entry).tolist(), answered_ids(record)),
        "refused numbers": (entry.get("rejected") or {}, record.get("rejected") or {}),
        "refused updates": ([int(k) for k in entry.get("blamed") or {}], notes.get("unsound_updates", [])),
    }
    if set(logged_notes) != {"sha256"}:  # else they are long, and compared by their digest when they are recomputed
        pairs["notes"] = (logged_notes, {key: notes.get(key) for key in logged_notes})
    return [Difference(what, logged, recorded) for what, (logged, recorded) in pairs.items() if logged != recorded]


def _questions(entry: RoundEntry, record: RoundRecord) -> tuple[list[list[Any]], list[list[Any]]]:
    """Signals with how many clients were asked, by the log and by the record."""
    logged = [[question["signal"], asked_ids(question, entry).size] for question in entry.get("asked") or []]
    recorded = [[question["signal"], question["asked"]] for question in record["questions"] or []]
    return logged, recorded


def against_end(run: run_folder.Run, config: RunConfig) -> list[str]:
    """Whether a run that says it is done has all its rounds, and figures that follow from its records."""
    played, found = len(run.records), list[str]()
    if run.summary.get("rounds") != played:
        found.append(f"The summary has {run.summary.get('rounds')} rounds; rounds.jsonl {played}.")
    target = config.target if config.stop_at_target else None
    if played < config.rounds and not StopRule(target, cast(list[RoundRecord], run.records)).reached:
        found.append(f"The run ends after {played} of {config.rounds} rounds, and no target was reached by then.")
    try:
        now, stored = metrics.summarise(run), run.summary.get("figures", {})
    except UNREADABLE as error:
        return [*found, f"The summary's figures cannot be computed from the records: {error!r}."]
    other = [name for name in now if name in stored and not _close(now[name], stored[name])]
    if other:
        more = f" {len(other) - 1} more figures differ." if other[1:] else ""
        found.append(f"The summary's {other[0]} is {stored[other[0]]}; by the records {now[other[0]]}.{more}")
    return found


def _close(mine: float | None, other: float | None) -> bool:
    return mine == other if mine is None or other is None else math.isclose(mine, other, rel_tol=1e-9)

"""Reading the history of a federation: what Flower, NVIDIA FLARE or one's own server left beside its checkpoint.

A federation with the checkpoint NAME appends one :class:`~sortition.core.round_record.RoundRecord` a round to
``NAME.history.jsonl``. ``NAME.about.json`` says what the history is of, and NAME itself holds the facts of its members.
A file of records alone, such as one that ``on_round`` wrote, can be read as well: it says nothing of method and facts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any, cast

import numpy as np

from sortition.audit.encoding import decode_ids
from sortition.core.arrays import Array, Ids
from sortition.core.errors import InputError, StorageError, bad, printable
from sortition.core.population import check_fact
from sortition.core.round_record import ABOUT, ENDINGS, HISTORY, RoundRecord, answered_ids, cohort_ids
from sortition.core.storage import snapshot
from sortition.core.storage.safe_files import read_lines
from sortition.results.names import ClientNames
from sortition.results.outcomes import ClientOutcome, resolve_outcomes
from sortition.results.run_folder import CONFIG, read_document, read_records

MOST_CLIENTS = 10_000_000  # of one federation; more would fill the memory
WITH_REASONS = ("failed", "left_out", "given_up", "too_stale", "rejected")  # keys of tables: client id → why
BACKENDS = {"flower": "Flower", "nvflare": "NVIDIA FLARE", "server": "its own server"}


@dataclass(frozen=True)
class History:
    """The history of one federation; files are read when they are first needed, then kept.

    Attributes:
        path: the file of records, usually NAME.history.jsonl.
    """

    path: Path

    @property
    def name(self) -> str:
        """Return the NAME of the checkpoint."""
        return self.path.name.removesuffix(HISTORY)

    @property
    def title(self) -> str:
        """Return the name as a headline: without an ending."""
        return self.name.removesuffix(".npz").removesuffix(".jsonl") or self.name

    def path_beside(self, ending: str) -> Path:
        """Return the path of a file that belongs to the same checkpoint."""
        return self.path.with_name(self.name + ending)

    @cached_property
    def records(self) -> list[RoundRecord]:
        """Return one record a round, in order, each one sound in itself and with those before it."""
        records = cast(list[RoundRecord], read_records(self.path, "record"))
        for number, record in enumerate(records, 1):
            if fault := _fault(record):
                raise StorageError(f"{self.path} is damaged in line {number}: {fault}.")
        for number, (previous, record) in enumerate(pairwise(records), 2):
            if record["round"] <= previous["round"]:
                raise StorageError(f"{self.path} is damaged in line {number}: rounds must follow each other.")
            if record.get("members", 0) < previous.get("members", 0):
                raise StorageError(f"{self.path} is damaged in line {number}: members must not get fewer.")
        return records

    def played_records(self) -> list[RoundRecord]:
        """Return the records, of which there must be one."""
        if not self.records:
            raise StorageError(f"{self.path} has no round yet.")
        return self.records

    @cached_property
    def about(self) -> dict[str, Any]:
        """Return what NAME.about.json says; empty where there is none."""
        if not self.path.name.endswith(HISTORY):
            return {}
        return read_document(self.path_beside(ABOUT), "about")

    @property
    def method(self) -> str:
        """Return the class of the method, where the history is of a known one."""
        return printable(str(self.about.get("method") or "the method"))

    @property
    def backend(self) -> str:
        """Return what ran the federation, in words; empty where that is not known."""
        name = str(self.about.get("backend") or "")
        return BACKENDS.get(name, printable(name))

    @property
    def cohort(self) -> int:
        """Return how many clients a round is to use; where nothing says so, the largest cohort."""
        return int(self.about.get("cohort") or max((len(cohort_ids(record)) for record in self.records), default=0))

    @cached_property
    def clients(self) -> int:
        """Return N, how many clients are known after the last round."""
        members = max((record.get("members", 0) for record in self.records), default=0)
        if members:
            return members
        highest_mentioned = max((client for record in self.records for client in _mentioned_ids(record)), default=-1)
        highest_present = max((int(ids.max()) for ids in self.present() if ids.size), default=-1)
        return 1 + max(highest_mentioned, highest_present)

    @cached_property
    def names(self) -> ClientNames:
        """Return the clients' names: those of NAME.about.json, and of everybody who was ever chosen."""
        names: dict[int, str] = {}
        for record in self.records:
            names |= zip(cohort_ids(record), record.get("names") or [], strict=False)
        names |= enumerate(self.about.get("names") or [])
        return ClientNames(names)

    def facts(self) -> dict[str, Array]:
        """Return ``sizes`` (N,) and ``label_counts`` (N, C), where the checkpoint beside it has them of all clients."""
        checkpoint = self.path_beside("")
        if not self.path.name.endswith(HISTORY) or not checkpoint.exists():
            return {}
        arrays, header = snapshot.load(checkpoint)
        if not isinstance(header.get("federation"), Mapping):
            raise StorageError(
                f"{checkpoint} is not the checkpoint of a federation, and {self.path.name} is beside it."
            )
        facts = {}
        for name in ("sizes", "label_counts"):
            rows = arrays.get(f"facts.{name}")
            if rows is not None and rows.ndim and len(rows) >= self.clients:
                facts[name] = _whole_counts(name, rows[: self.clients], checkpoint)
        return facts

    def present(self) -> Iterator[Ids]:
        """Return who could be chosen, round by round; nothing at all where a record does not say it."""
        if self.says_who_was_there:
            yield from (decode_ids(record["present"]) for record in self.records)

    @property
    def says_who_was_there(self) -> bool:
        """Tell whether every record has ``present``: records of very large federations do not."""
        return bool(self.records) and all("present" in record for record in self.records)

    def seconds(self) -> list[float | None]:
        """Return how long each round took by the server's clock, which begins anew where a server was restarted."""
        durations: list[float | None] = []
        previous_clock = 0.0
        for record in self.records:
            clock = record.get("clock")
            if clock is None:
                durations.append(None)
                continue
            has_begun_anew = clock < previous_clock
            durations.append(clock if has_begun_anew else clock - previous_clock)
            previous_clock = clock
        return durations

    @cached_property
    def outcomes(self) -> dict[int, dict[int, ClientOutcome]]:
        """Return, by round, what became of the clients that it chose; where rounds overlap, later records say it."""
        rounds = [record["round"] for record in self.records]
        return dict(zip(rounds, resolve_outcomes(self.records), strict=True))

    def record(self, round_index: int) -> RoundRecord | None:
        """Return the record of a round, where there is one."""
        return next((record for record in self.records if record["round"] == round_index), None)

    def audit_log(self) -> Path | None:
        """Return the audit log of the same federation, where NAME.about.json names one that lies in the same folder."""
        name = str(self.about.get("audit") or "")
        if name in ("", "..") or Path(name).name != name:  # a file from elsewhere must not lead to other folders
            return None
        return self.path.with_name(name)


# -- one record --------------------------------------------------------------------------------------------------------


def _mentioned_ids(record: RoundRecord) -> list[int]:
    """Return every id that a record names outside of ``present``."""
    by_key = cast(Mapping[str, Any], record)
    ids = [*cohort_ids(record), *answered_ids(record), *(record.get("late") or ())]
    for key in (*ENDINGS, "rejected"):
        ids += [int(client) for client in by_key.get(key) or ()]
    return ids


def _fault(record: RoundRecord) -> str:
    """Return what is wrong with a record that has the right keys and types; empty where nothing is."""
    cohort = cohort_ids(record)
    weights = record.get("weights") or []
    if len(weights) != len(cohort) or len(set(cohort)) < len(cohort):
        return "cohort and weights must be of distinct clients, one weight each"
    if not all(_is_amount(weight) for weight in weights):
        return "weights must be finite and ≥ 0"
    if fault := _fault_of_reasons(record):
        return fault
    if fault := _fault_of_answers(record):
        return fault
    if len(record.get("names") or cohort) != len(cohort):
        return "names must be of the cohort, one each"
    clock = record.get("clock")
    if clock is not None and not _is_amount(clock):
        return "clock must be seconds ≥ 0"
    return _fault_of_ids(record)


def _fault_of_answers(record: RoundRecord) -> str:
    used_clients = answered_ids(record)
    used_weights = record.get("used")  # of a step, which may use work of earlier selections
    if used_weights is None:
        if set(used_clients) <= set(cohort_ids(record)):
            return ""
        return "answered must be clients of the cohort"
    if len(used_weights) != len(used_clients) or not all(map(_is_amount, used_weights)):
        return "used must be finite and ≥ 0, one for each of answered"
    return ""


def _is_amount(value: float) -> bool:
    return isfinite(value) and value >= 0


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def _fault_of_reasons(record: RoundRecord) -> str:
    for key in WITH_REASONS:
        table = cast(Mapping[str, Any], record).get(key) or {}
        if not all(map(_is_id, table)):
            return f"{key} must be a table from ids to reasons"
    return ""


def _fault_of_ids(record: RoundRecord) -> str:
    members = record.get("members", MOST_CLIENTS)
    if members > MOST_CLIENTS:
        return f"members must be at most {MOST_CLIENTS:,}"
    if max(_mentioned_ids(record), default=0) >= members:
        return f"ids must be below {members:,}, the number of members"
    if "present" not in record:
        return ""
    try:
        present = decode_ids(record["present"])
    except StorageError:
        return "present must be ids as an audit log writes them"
    if present.size and (present.max() >= members or not _are_distinct(present)):
        return f"present must be distinct ids below {members:,}, the number of members"
    if present.size != record.get("available", present.size):
        return f"present has {present.size:,} clients, and available says {record.get('available')}"
    return ""


def _are_distinct(ids: Ids) -> bool:
    """Tell whether no id stands there twice; ids that are sorted, as they are written, take one look."""
    return bool(np.all(ids[1:] > ids[:-1])) or np.unique(ids).size == ids.size


def _whole_counts(name: str, rows: Array, checkpoint: Path) -> Array:
    """Return facts that count examples, as whole numbers."""
    try:
        check_fact(name, rows, len(rows), subject=checkpoint.name)
    except InputError as error:
        raise StorageError(f"{checkpoint} is damaged: {error}") from None
    return np.asarray(np.rint(rows), np.int64)


# -- where a history is ------------------------------------------------------------------------------------------------


def find_history(source: Path) -> History | None:
    """Find the history that a source means: the file itself, the checkpoint beside it, or the folder of both.

    None where the source is something else, such as a run's folder or an audit log.
    """
    if source.is_dir():
        return _find_in_folder(source)
    if source.name.endswith(HISTORY):
        return History(source)
    if source.name:
        beside = source.with_name(source.name + HISTORY)
        if beside.is_file():
            return History(beside)
    if source.suffix == ".jsonl" and is_history(source):
        return History(source)
    return None


def _find_in_folder(folder: Path) -> History | None:
    if (folder / CONFIG).exists():  # a run's folder
        return None
    paths = sorted(folder.glob(f"*{HISTORY}"))
    if not paths:
        return None
    if len(paths) > 1:
        listed = ", ".join(path.name for path in paths[:4])
        raise InputError(f"{folder} must hold the history of one federation; got {len(paths)}: {listed}. Name one.")
    return History(paths[0])


def refuse_histories(command: str, sources: Iterable[Path]) -> None:
    """Refuse a federation's history, for a command that reads runs of studies alone."""
    for source in sources:
        if find_history(source) is not None:
            raise bad(
                f"The folder of sortition {command}",
                "one with runs of a study",
                f"the history of a federation, {source}",
                "sortition report, advise, replay, why and audit read it.",
            )


def is_history(path: Path) -> bool:
    """Tell whether a file's first line is the record of a round, not the header of an audit log."""
    try:
        first = json.loads(next(read_lines(path), b""))
    except (OSError, ValueError, RecursionError, StorageError):
        return False
    return isinstance(first, dict) and {"round", "cohort"} <= first.keys() and "hash" not in first


def history_of_log(log: Path) -> History | None:
    """Find the history of an audit log: the only one in the same folder whose NAME.about.json names the log."""
    histories = []
    for about_file in sorted(log.parent.glob(f"*{ABOUT}")):
        history = History(about_file.with_name(about_file.name.removesuffix(ABOUT) + HISTORY))
        try:
            if history.about.get("audit") == log.name:
                histories.append(history)
        except StorageError:  # a damaged one names no log
            continue
    if len(histories) != 1:
        return None
    return histories[0]

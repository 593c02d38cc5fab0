"""The audit log of a run or a federation, decoded round by round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from sortition.audit import hash_chain
from sortition.audit.encoding import decode_ids, decode_numbers
from sortition.audit.entry_schema import AnswersEntry, RoundEntry, asked_ids, done_ids
from sortition.audit.events import has_events
from sortition.audit.recompute import UNREADABLE
from sortition.core.arrays import Floats, Ids
from sortition.core.errors import SortitionError, StorageError, bad, show_value
from sortition.results import run_folder
from sortition.studies.audit.finding import final_hash, format_faults, read_links, why_no_log
from sortition.studies.runs.journals import mentions_audit_log
from sortition.studies.types import TomlTable


class Question(NamedTuple):
    """A question of a round: the signal, the clients that were asked, and what came back."""

    signal: str
    asked: Ids
    answers: AnswersEntry


@dataclass(frozen=True)
class DecodedRound:
    """One round of a log.

    Attributes:
        entry: the line of the log.
        available: ids of the clients that could be chosen.
        cohort: ids of those that were chosen.
        weights: of the cohort, in its order.
        completed: ids of those that completed.
        kept_out: ids that the guards kept out, by why: "quarantined", "ceiling", "returning", "quota".
        excluded: ids that a policy left out, by the key of its rule.
    """

    entry: RoundEntry
    available: Ids
    cohort: Ids
    weights: Floats
    completed: Ids
    kept_out: Mapping[str, Ids]
    excluded: Mapping[str, Ids]

    @property
    def questions(self) -> list[Question]:
        """Return the questions that the method asked."""
        return [
            Question(
                signal=question["signal"],
                asked=asked_ids(question, self.entry),
                answers=question["answers"],
            )
            for question in self.entry.get("asked") or []
        ]

    def refused(self, client: int) -> list[str]:
        """Return why something that the client sent was refused."""
        reasons_by_client = (self.entry.get("rejected") or {}, self.entry.get("blamed") or {})
        return [reasons[str(client)] for reasons in reasons_by_client if reasons.get(str(client))]

    @property
    def notes(self) -> TomlTable:
        """Return what the method noted and, under "guards", what the guards did; without empty ones."""
        return {key: value for key, value in dict(self.entry.get("notes") or {}).items() if value not in ({}, [])}


class Log:
    """An audit log.

    Attributes:
        path: its file.
        header: its first line; empty for an empty log.
        entries: one line a round.
        method: the class of the method.
        warnings: what is wrong with its chain.
    """

    def __init__(self, source: run_folder.Run | Path) -> None:
        if isinstance(source, Path):
            self.path = source
            links = read_links(source, whole=False)
            expected_hash = None
        else:
            self.path = _log_of_run(source)
            links = read_links(self.path, whole=source.done)
            expected_hash = final_hash(source)
        self.header: TomlTable = dict(links[0].entry) if links else {}
        self.entries = [cast(RoundEntry, link.entry) for link in links[1:]]
        if has_events(self.entries):
            raise StorageError(
                f"{self.path} has selections and steps apart, since its rounds overlap; choices are explained where "
                "rounds do not. sortition audit checks it."
            )
        self.warnings: list[str] = []
        if links:
            breaks = hash_chain.find_breaks(links, expected_hash)
            self.warnings = [f"The log is broken, so what follows may be made up: {fault}" for fault in breaks[:1]]
        unreadable = format_faults(self.header) if self.header else []
        if unreadable:
            raise StorageError(f"{self.path} cannot be read: {unreadable[0]}")
        self.method = str(self.header.get("selector", "the method")).rpartition(":")[2]

    def round(self, t: int) -> DecodedRound:
        """Return one round; for an unknown one the error names those that there are."""
        if not self.entries:
            raise StorageError(f"{self.path} has no round yet.")
        if not 0 <= t < len(self.entries):
            raise bad("--round", f"0 to {len(self.entries) - 1}, as this log has them", t)
        entry = self.entries[t]
        with reading(t):
            cohort = decode_ids(entry["cohort"])
            weights = decode_numbers(entry["weights"], cohort.size)
            return DecodedRound(
                entry=entry,
                available=decode_ids(entry["available"]),
                cohort=cohort,
                weights=weights,
                completed=done_ids(entry),
                excluded={rule: decode_ids(ids) for rule, ids in (entry.get("excluded") or {}).items()},
                kept_out={why: decode_ids(ids) for why, ids in (entry.get("kept_out") or {}).items()},
            )

    def clients(self, t: int) -> int:
        """Return how many clients were known in round t."""
        clients = self.header.get("clients", 0)
        for entry in self.entries[: t + 1]:
            joined = entry.get("joined")
            if joined:
                clients = joined["clients"]
        return int(clients)


@contextmanager
def reading(t: int) -> Iterator[None]:
    """Turn what cannot be read in a log into one error message."""
    try:
        yield
    except SortitionError:
        raise
    except UNREADABLE as error:
        raise StorageError(
            f"Round {t} of the audit log cannot be read: {show_value(repr(error))}. Try 'sortition audit'."
        ) from None


def _log_of_run(run: run_folder.Run) -> Path:
    """Return where a run's log is; a run without one is refused."""
    path = run.path / run_folder.AUDIT
    if not path.exists():
        if not (run.path / run_folder.MANIFEST).exists():
            raise StorageError(f"{run.path} has no audit log, and is no run's folder.")
        if mentions_audit_log(run):
            raise StorageError(f"{run.path} has no audit log: it is missing, though the run was made with one.")
        raise StorageError(f"{run.path} has no audit log: {why_no_log(run)}.")
    _ = run.manifest  # refused here if it is of a later version
    return path

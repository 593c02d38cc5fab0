"""The append-only files of one run: records, timings and the audit log, cut to what the checkpoint knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from sortition.audit.log import AuditLog, derive_salt
from sortition.core.errors import StorageError
from sortition.core.observer import add_observer
from sortition.core.registrar import Registrar
from sortition.core.round_record import RoundRecord
from sortition.core.storage.journal import Journal
from sortition.results import run_folder
from sortition.studies.types import RunSummary


class Journals:
    """The open journals of a run; the audit log is the registrar's observer.

    Attributes:
        rounds: one record a round.
        timings: seconds of each round, by step.
        log: the audit log; None where the run keeps none.
    """

    def __init__(self, path: Path, registrar: Registrar, *, audited: bool) -> None:
        self._journals: list[Journal] = []
        self.log: AuditLog | None = None
        try:
            self.rounds = self._open(path / run_folder.ROUNDS, registrar.version)
            self.timings = self._open(path / run_folder.TIMINGS, registrar.version)
            if audited:
                self.log = self._open_log(path / run_folder.AUDIT, registrar)
                registrar.observer = add_observer(registrar.observer, self.log)
        except BaseException:
            self.close()
            raise

    def _open(self, path: Path, n_lines: int) -> Journal:
        """Open a journal, cut to its first lines."""
        journal = Journal(path, n_lines)
        self._journals.append(journal)
        return journal

    def _open_log(self, path: Path, registrar: Registrar) -> AuditLog:
        n_entries = registrar.n_log_entries + 1 if registrar.n_log_entries else 0  # the header is one line more
        journal = self._open(path, n_entries)
        last_hash = _last_hash(journal) if n_entries else ""
        return AuditLog(
            registrar, derive_salt(registrar.seed), write=journal.write, n_entries=n_entries, last_hash=last_hash
        )

    def append(self, record: RoundRecord, timings: Mapping[str, float]) -> None:
        """Write the record and the seconds of a round that was played."""
        if self.log is not None:
            self.log.flush()
        self.rounds.append(record)
        self.timings.append({"round": record["round"], **timings})

    def sync(self) -> None:
        """Wait until all lines are on the disk."""
        for journal in self._journals:
            journal.sync()

    def close(self) -> None:
        """Close the files."""
        for journal in self._journals:
            journal.close()

    def audit_summary(self) -> RunSummary:
        """Return the audit log's length and last hash, for the run's summary; nothing without a log."""
        if self.log is None:
            return {}
        return {"audit": {"entries": self.log.n_entries, "final": self.log.last_hash}}


def keeps_audit_log(path: Path, wanted: bool | None, played: int) -> bool:
    """Tell whether a run keeps an audit log: not if it is unwanted, or was begun without one. A lost one is refused."""
    if wanted is False:
        return False
    if played == 0 or (path / run_folder.AUDIT).exists():
        return True
    if mentions_audit_log(run_folder.Run(path)):
        raise StorageError(
            f"{path / run_folder.AUDIT} is missing, though {played} rounds were played with it. "
            "Bring it back, or remove the run's folder to begin anew."
        )
    return False


def mentions_audit_log(run: run_folder.Run) -> bool:
    """Tell whether manifest or summary mention an audit log."""
    return "audit" in run.manifest or "audit" in run.summary


def _last_hash(journal: Journal) -> str:
    try:
        return str(json.loads(journal.last_line)["hash"])
    except (ValueError, KeyError, TypeError):
        raise StorageError(f"{journal.path} is damaged: its last kept line is no entry of an audit log.") from None

"""The append-only files of one run: records, timings and the audit log, cut to what the checkpoint knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sortition.audit.log import AuditLog, salt_of
from sortition.core.errors import StorageError
from sortition.core.registrar import Registrar
from sortition.core.storage.journal import Journal
from sortition.results import run_folder


class Journals:
    """Opened before the first round, closed after the last; the audit log is the registrar's observer."""

    def __init__(self, path: Path, registrar: Registrar, *, audited: bool) -> None:
        self._open: list[Journal] = []
        self.log: AuditLog | None = None
        try:
            self.rounds = self._opened(path / run_folder.ROUNDS, registrar.version)
            self.timings = self._opened(path / run_folder.TIMINGS, registrar.version)
            if audited:
                self.log = registrar.observer = self._logged(path / run_folder.AUDIT, registrar)
        except BaseException:
            self.close()
            raise

    def _opened(self, path: Path, keep: int) -> Journal:
        self._open.append(Journal(path, keep))
        return self._open[-1]

    def _logged(self, path: Path, registrar: Registrar) -> AuditLog:
        entries = registrar.events + 1 if registrar.events else 0  # the header is one line more
        journal = self._opened(path, entries)
        last = _hash(journal) if entries else ""
        return AuditLog(registrar, salt_of(registrar.seed), journal.write, entries, last)

    def append(self, record: Mapping[str, Any], timed: Mapping[str, float]) -> None:
        """A round was played."""
        if self.log is not None:
            self.log.flush()
        self.rounds.append(record)
        self.timings.append({"round": record["round"], **timed})

    def sync(self) -> None:
        """Wait until all lines are on the disk."""
        for one in self._open:
            one.sync()

    def close(self) -> None:
        """Give the files back."""
        for one in self._open:
            one.close()

    def ending(self) -> dict[str, Any]:
        """The audit log's length and last hash, for the summary."""
        return {} if self.log is None else {"audit": {"entries": self.log.entries, "final": self.log.last}}


def audited(path: Path, wanted: bool | None, played: int) -> bool:
    """Whether a run keeps an audit log: unless it is not wanted, or was begun without one. A lost one is refused."""
    if wanted is False or played == 0 or (path / run_folder.AUDIT).exists():
        return wanted is not False
    if records_a_log(run_folder.Run(path)):
        raise StorageError(
            f"{path / run_folder.AUDIT} is missing, though {played} rounds were played with it. "
            "Bring it back, or remove the run's folder to begin anew."
        )
    return False


def records_a_log(run: run_folder.Run) -> bool:
    """Whether manifest or summary mention an audit log."""
    return "audit" in run.manifest or "audit" in run.summary


def _hash(journal: Journal) -> str:
    try:
        return str(json.loads(journal.last)["hash"])
    except (ValueError, KeyError, TypeError):
        raise StorageError(f"{journal.path} is damaged: its last kept line is no entry of an audit log.") from None

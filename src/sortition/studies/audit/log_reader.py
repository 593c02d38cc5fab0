"""The audit log of a run or a federation, decoded round by round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from sortition.audit import hash_chain
from sortition.audit.encoding import decode_ids, decode_numbers
from sortition.audit.recompute import UNREADABLE
from sortition.audit.schema import AnswersEntry, RoundEntry, asked_ids, done_ids
from sortition.core.arrays import Floats, Ids
from sortition.core.errors import SortitionError, StorageError, bad, shown
from sortition.results import run_folder
from sortition.studies.audit.finding import absent, final_hash, read, readable
from sortition.studies.runs.journals import records_a_log


@dataclass(frozen=True)
class DecodedRound:
    """One round of a log."""

    entry: RoundEntry
    available: Ids
    cohort: Ids
    weights: Floats
    done: Ids
    kept_out: Mapping[str, Ids]  # by the guard that did it; logs of format 1 do not say whom

    @property
    def asked(self) -> list[tuple[str, Ids, AnswersEntry]]:
        """Signal, clients asked and what came back, of each question."""
        found = self.entry.get("asked") or []
        return [(one["signal"], asked_ids(one, self.entry), one["answers"]) for one in found]

    def refused(self, client: int) -> list[str]:
        """Why something that the client sent was refused."""
        found = [self.entry.get("rejected") or {}, self.entry.get("blamed") or {}]
        return [table[str(client)] for table in found if table.get(str(client))]

    @property
    def notes(self) -> dict[str, Any]:
        """What the method noted, and apart from it, under "guards", what the guards did; without empty ones."""
        return {key: value for key, value in dict(self.entry.get("notes") or {}).items() if value not in ({}, [])}


class Log:
    """An audit log; ``warnings`` say what is wrong with its chain."""

    def __init__(self, source: run_folder.Run | Path) -> None:
        path, final, whole = (source, None, False) if isinstance(source, Path) else _of_run(source)
        links = read(path, whole=whole)
        broken = hash_chain.breaks(links, final) if links else []
        if links and links[0].entry and (wrong := readable(links[0].entry)):
            raise StorageError(f"{path} cannot be read: {wrong[0]}")
        self.warnings = [f"The log is broken, so what follows may be made up: {fault}" for fault in broken[:1]]
        self.path, self.header = path, links[0].entry if links else dict[str, Any]()
        self.entries = [cast(RoundEntry, one.entry) for one in links[1:]]
        self.method = str(self.header.get("selector", "the method")).rpartition(":")[2]

    def round(self, t: int) -> DecodedRound:
        """One round; for an unknown one the error names those that there are."""
        if not self.entries:
            raise StorageError(f"{self.path} has no round yet.")
        if not 0 <= t < len(self.entries):
            raise bad("--round", f"0 to {len(self.entries) - 1}, as this log has them", t)
        entry = self.entries[t]
        with reading(t):
            cohort = decode_ids(entry["cohort"])
            weights = decode_numbers(entry["weights"], cohort.size)
            kept = {why: decode_ids(ids) for why, ids in (entry.get("kept_out") or {}).items()}
            return DecodedRound(entry, decode_ids(entry["available"]), cohort, weights, done_ids(entry), kept)

    def clients(self, t: int) -> int:
        """How many clients were known in round t."""
        joined = [one["clients"] for entry in self.entries[: t + 1] if (one := entry.get("joined"))]
        return int(joined[-1] if joined else self.header.get("clients", 0))


@contextmanager
def reading(t: int) -> Iterator[None]:
    """Turn what cannot be read in a log into one error message."""
    try:
        yield
    except SortitionError:
        raise
    except UNREADABLE as error:
        raise StorageError(
            f"Round {t} of the audit log cannot be read: {shown(repr(error))}. Try 'sortition audit'."
        ) from None


def _of_run(run: run_folder.Run) -> tuple[Path, str | None, bool]:
    """Where a run's log is, the hash that it should end with, and whether it is finished."""
    path = run.path / run_folder.AUDIT
    if not path.exists():
        if not (run.path / run_folder.MANIFEST).exists():
            raise StorageError(f"{run.path} has no audit log, and is no run's folder.")
        gone = "it is missing, though the run was made with one"
        raise StorageError(f"{run.path} has no audit log: {gone if records_a_log(run) else absent(run)}.")
    _ = run.manifest  # refused here if it is of a later version
    return path, final_hash(run), run.done

"""The audit log of a run or a federation, unpacked for reading, round by round."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sortition.audit import hash_chain
from sortition.audit.encoding import decode_ids, decode_numbers
from sortition.audit.recompute import UNREADABLE
from sortition.core.arrays import Floats, Ids
from sortition.core.errors import SortitionError, StorageError, bad, shown
from sortition.results import run_folder
from sortition.studies.audit.finding import absent, read, readable
from sortition.studies.runs.journals import records_a_log


@dataclass(frozen=True)
class Entry:
    """One round of a log."""

    told: Mapping[str, Any]
    available: Ids
    cohort: Ids
    weights: Floats
    done: Ids
    kept_out: Mapping[str, Ids]  # by the guards: "quarantined", "quota"; logs of format 1 do not say whom

    @property
    def asked(self) -> list[tuple[str, Ids, Mapping[str, Any]]]:
        """Signal, clients asked and what came back, of each question."""
        found = self.told.get("asked", [])
        return [(one["signal"], decode_ids(one.get("ids", self.told["available"])), one["answers"]) for one in found]

    @property
    def notes(self) -> dict[str, Any]:
        """What the method noted, and apart from it, under "guards", what the guards did; without empty ones."""
        return {key: value for key, value in dict(self.told.get("notes") or {}).items() if value not in ({}, [])}


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
        self.entries = [one.entry for one in links[1:]]
        self.method = str(self.header.get("selector", "the method")).rpartition(":")[2]

    def round(self, t: int) -> Entry:
        """One round; an unknown one is told with those that there are."""
        if not self.entries:
            raise StorageError(f"{self.path} tells of no round yet.")
        if not 0 <= t < len(self.entries):
            raise bad("--round", f"0 to {len(self.entries) - 1}, as this log has them", t)
        told = self.entries[t]
        with reading(t):
            cohort = decode_ids(told["cohort"])
            done = decode_ids(told["done"]) if "done" in told else cohort
            weights = decode_numbers(told["weights"], cohort.size)
            kept = {why: decode_ids(ids) for why, ids in told.get("kept_out", {}).items()}
            return Entry(told, decode_ids(told["available"]), cohort, weights, done, kept)

    def clients(self, t: int) -> int:
        """How many clients were known in round t."""
        joined = [one["joined"]["clients"] for one in self.entries[: t + 1] if "joined" in one]
        return int(joined[-1] if joined else self.header.get("clients", 0))


@contextmanager
def reading(t: int) -> Iterator[None]:
    """What cannot be read in a log is one sentence."""
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
    told = run.summary.get("audit")
    return path, told.get("final") if isinstance(told, Mapping) else None, run.done

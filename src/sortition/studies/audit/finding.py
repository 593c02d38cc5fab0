"""What the audit of one log found, and its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sortition import __version__
from sortition.audit import hash_chain
from sortition.audit.entry_schema import FORMAT
from sortition.audit.recompute import Recomputation
from sortition.core.errors import StorageError
from sortition.core.storage.safe_files import check_format, read_lines
from sortition.results import run_folder
from sortition.results.names import ClientNames, names_by_id
from sortition.studies.types import ReadOnlyTable


@dataclass
class Finding:
    """What the audit of one run or federation found.

    Attributes:
        run: the run's folder, or the federation's log or history.
        entries: lines of the log, the header included.
        n_recomputed: how many rounds have choices that were recomputed, and agree.
        replayed: whether the run was replayed, and all of its records compared.
        faults: what differs.
        doubts: differences that another version's code may explain.
        other_version: the version that began the log, where it is another one.
        unchecked_because: why some rounds could not be recomputed.
        state: how far the run is, and whether there is a log.
        planned: rounds that the run is to have, where known.
        federated: whether it is a federation's: what went in is known from its log alone.
    """

    run: Path
    entries: int = 0
    n_recomputed: int = 0
    replayed: bool = False
    faults: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    other_version: str = ""
    unchecked_because: str = ""
    state: Literal["done", "unfinished", "in progress", "no log"] = "done"
    planned: int = 0
    federated: bool = False

    @property
    def rounds(self) -> int:
        """Return how many rounds the log has."""
        return max(self.entries - 1, 0)

    def take_result(self, result: Recomputation, header: ReadOnlyTable) -> None:
        """Take over what the recomputation found; another version of the code may choose differently."""
        self.n_recomputed = result.rounds
        self.unchecked_because = result.stopped_because or self.unchecked_because
        version = str(dict(header.get("versions") or {}).get("sortition", "unknown"))[:40]
        if version == __version__:
            self.faults += result.differences
        else:
            self.other_version = version
            self.doubts += result.differences

    @property
    def verdict(self) -> str:
        """Return the verdict in a word or two; only "holds" is a pass."""
        if self.faults:
            return "DIFFERS"
        if self.state in ("unfinished", "in progress"):
            of_planned = f" of {self.planned}" if self.planned else ""
            return f"{self.state}: {self.rounds}{of_planned} rounds"
        if self.state == "no log":
            return self.state
        if self.doubts:
            return "other version"
        if self.n_recomputed < self.rounds or self.unchecked_because:
            return "partly"
        return "holds"

    @property
    def remarks(self) -> list[str]:
        """Return what keeps it from being a pass, beside its faults."""
        remarks = []
        if self.state in ("unfinished", "in progress") and not self.faults:
            remarks.append(f"{self.verdict}: how it ends cannot be checked yet.")
        if self.doubts:
            remarks.append(f"made by version {self.other_version}; choices may differ. {self.doubts[0]}")
        if self.n_recomputed < self.rounds:
            reason = self.unchecked_because or "something else differs"
            remarks.append(f"rounds {self.n_recomputed} to {self.rounds - 1} were not recomputed: {reason}.")
        elif self.unchecked_because:
            remarks.append(f"{self.unchecked_because}.")
        return remarks


def read_links(path: Path, *, whole: bool = True) -> list[hash_chain.Link]:
    """Read the lines of an audit log; a torn last line counts, unless the log may go on."""
    try:
        lines = list(read_lines(path))
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist.") from None
    if lines and not whole and not lines[-1].endswith(b"\n"):
        lines.pop()
    return hash_chain.read_links(line.removesuffix(b"\n") for line in lines)


def format_faults(header: ReadOnlyTable) -> list[str]:
    """Return what is wrong with the format of a log, by its first line."""
    try:
        check_format("The log", header.get("format"), FORMAT)
    except StorageError as error:
        return [str(error)]
    return []


def disclosed_names(log: Path) -> ClientNames | None:
    """Return the names that were disclosed beside a log; usually none are."""
    names = run_folder.read_document(log.with_name(f"{log.name}.reveal.json")).get("names")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise StorageError(f"{log.name}.reveal.json is damaged: names must be a list of texts.")
    return names_by_id(names)


def why_no_log(run: run_folder.Run) -> str:
    """Return why a run keeps no log."""
    if run.config.get("audit") is False:
        return "it was made with audit = false"
    return "every sign of one was removed"


def final_hash(run: run_folder.Run) -> str | None:
    """Return the hash that the run's log should end with, by the run's summary."""
    audit_summary = run.summary.get("audit")
    if isinstance(audit_summary, Mapping):
        return audit_summary.get("final")
    return None

"""What the audit of one log found, and its verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sortition import __version__
from sortition.audit import hash_chain
from sortition.audit.recompute import Recomputation
from sortition.audit.schema import FORMAT
from sortition.core.errors import StorageError
from sortition.core.storage.safe_files import check_format, read_lines
from sortition.results import run_folder
from sortition.results.names import ClientNames, names_by_id


@dataclass
class Finding:
    """What the audit of one run or federation found."""

    run: Path
    entries: int = 0
    recomputed: int = 0
    replayed: bool = False  # whether the run was replayed, and all of its records compared
    faults: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)  # differences that another version's code may explain
    made_by: str = ""  # the version that began the log, where it is another one
    left: str = ""  # why some rounds could not be recomputed
    state: Literal["done", "unfinished", "in progress", "no log"] = "done"
    planned: int = 0  # rounds that the run is to have, where known
    federated: bool = False  # a federation's: what went in is known from its log alone

    @property
    def rounds(self) -> int:
        """Rounds that the log has."""
        return max(self.entries - 1, 0)

    def add(self, result: Recomputation, header: Mapping[str, Any]) -> None:
        """Take over what the recomputation found; another version of the code may choose differently."""
        self.recomputed, self.left = result.rounds, result.left or self.left
        version = str(dict(header.get("versions") or {}).get("sortition", "unknown"))[:40]
        self.made_by = version if version != __version__ else ""
        (self.doubts if self.made_by else self.faults).extend(result.differences)

    @property
    def verdict(self) -> str:
        """In a word or two; only "holds" is a pass."""
        if self.faults:
            return "DIFFERS"
        if self.state in ("unfinished", "in progress"):
            return f"{self.state}: {self.rounds}{f' of {self.planned}' if self.planned else ''} rounds"
        if self.state == "no log":
            return self.state
        if self.doubts:
            return "other version"
        return "holds" if self.recomputed == self.rounds and not self.left else "partly"

    @property
    def remarks(self) -> list[str]:
        """What keeps it from being a pass, beside its faults."""
        said = []
        if self.state in ("unfinished", "in progress") and not self.faults:
            said.append(f"{self.verdict}: how it ends cannot be checked yet.")
        if self.doubts:
            said.append(f"made by version {self.made_by}; choices may differ. {self.doubts[0]}")
        if self.recomputed < self.rounds:
            reason = self.left or "something else differs"
            said.append(f"rounds {self.recomputed} to {self.rounds - 1} were not recomputed: {reason}.")
        elif self.left:
            said.append(f"{self.left}.")
        return said


def read(path: Path, *, whole: bool = True) -> list[hash_chain.Link]:
    """The lines of an audit log; a torn last line counts, unless the log may go on."""
    try:
        raw = list(read_lines(path))
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist.") from None
    if raw and not whole and not raw[-1].endswith(b"\n"):
        raw.pop()
    return hash_chain.links(line.removesuffix(b"\n") for line in raw)


def readable(header: Mapping[str, Any]) -> list[str]:
    """What is wrong with the format of a log, by its first line."""
    try:
        check_format("The log", header.get("format"), FORMAT)
    except StorageError as error:
        return [str(error)]
    return []


def disclosed_names(log: Path) -> ClientNames | None:
    """The names that were disclosed beside a log; usually none are."""
    names = run_folder.document(log.with_name(f"{log.name}.reveal.json")).get("names")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise StorageError(f"{log.name}.reveal.json is damaged: names must be a list of texts.")
    return names_by_id(names)


def absent(run: run_folder.Run) -> str:
    """Why a run keeps no log."""
    if run.config.get("audit") is False:
        return "it was made with audit = false"
    return "it was made before there were any, or every sign of one was removed"


def final_hash(run: run_folder.Run) -> str | None:
    """The hash that the run's log should end with, by the run's summary."""
    end = run.summary.get("audit")
    return end.get("final") if isinstance(end, Mapping) else None

"""Copies of one run's folder on two machines without a shared disk: what is new on one side is written on the other.

Journals travel as their new bytes, everything else whole. A checkpoint counts on the journals and a summary on
everything, so they are read first and written last: whenever either side stops, the folder can be resumed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sortition.core.errors import StorageError
from sortition.core.storage.snapshot import write_atomically
from sortition.results import run_folder

JOURNAL = ".jsonl"  # the suffix of append-only files
LATE = (run_folder.CHECKPOINT, run_folder.SUMMARY)


@dataclass(frozen=True)
class Piece:
    """Bytes of a file from position ``at`` on; a piece at 0 replaces the file."""

    name: str
    at: int
    content: bytes


class FolderSender:
    """Remembers what of a folder has been sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sent: dict[str, tuple[int, int, int]] = {}  # name → inode, time and bytes when it was sent

    def pieces(self) -> list[Piece]:
        """What is new since the last call, in the order in which it must be written."""
        names = [one.name for one in self.folder.iterdir() if one.is_file() and not one.name.startswith(".")]
        found = [piece for name in sorted(names, key=_rank, reverse=True) if (piece := self._piece(name))]
        return found[::-1]

    def _piece(self, name: str) -> Piece | None:
        path, sent = self.folder / name, self._sent.get(name)
        status = path.stat()
        inode, changed, size = status.st_ino, status.st_mtime_ns, status.st_size
        if sent == (inode, changed, size):
            return None
        grown = name.endswith(JOURNAL) and sent is not None and sent[0] == inode and sent[2] <= size
        at = sent[2] if grown and sent is not None else 0
        with path.open("rb") as file:
            file.seek(at)
            content = file.read()
        self._sent[name] = inode, changed, at + len(content)
        return Piece(name, at, content) if content or not at else None


def _rank(name: str) -> tuple[int, str]:
    return 0 if name.endswith(JOURNAL) else 1 + (LATE.index(name) + 1 if name in LATE else 0), name


def pack(folder: Path) -> list[Piece]:
    """All that a run needs to continue elsewhere; files that record its end are removed, as when it is resumed here."""
    for name in (run_folder.SUMMARY, run_folder.FAILURE):
        (folder / name).unlink(missing_ok=True)
    return FolderSender(folder).pieces() if folder.is_dir() else []


def put(folder: Path, pieces: Iterable[Piece]) -> None:
    """Write pieces in their order; each is on the disk before the next."""
    for piece in pieces:
        path = folder / piece.name
        if piece.at == 0:
            write_atomically(path, piece.content)
            continue
        try:
            with path.open("r+b") as file:
                if file.seek(0, os.SEEK_END) < piece.at:
                    raise StorageError(f"{path} is shorter than what was received of it; somebody else wrote there.")
                file.truncate(piece.at)
                file.seek(piece.at)
                file.write(piece.content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(f"{path} could not be written: {error.strerror}. Resume when there is room.") from None

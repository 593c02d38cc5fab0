"""Copies of one run's folder on two machines without a shared disk: what is new on one side is written on the other.

Journals travel as their new bytes, everything else whole. A checkpoint counts on the journals and a summary on
everything, so they are read first and written last: whenever either side stops, the folder can be resumed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sortition.core.errors import StorageError
from sortition.core.storage.snapshot import write_atomically
from sortition.results import run_folder

JOURNAL = ".jsonl"  # the suffix of append-only files
WRITTEN_LAST = (run_folder.CHECKPOINT, run_folder.SUMMARY)  # they count on the other files


@dataclass(frozen=True)
class Piece:
    """Bytes of a file from a position on; a piece at 0 replaces the file."""

    name: str
    position: int
    content: bytes


class _SentFile(NamedTuple):
    """A file as it was when it was sent."""

    inode: int
    changed_ns: int
    size: int


class FolderSender:
    """Remembers what of a folder has been sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sent: dict[str, _SentFile] = {}

    def pieces(self) -> list[Piece]:
        """Return what is new since the last call, in the order in which it must be written."""
        names = [path.name for path in self.folder.iterdir() if path.is_file() and not path.name.startswith(".")]
        reading_order = sorted(names, key=_writing_rank, reverse=True)
        pieces = [piece for name in reading_order if (piece := self._piece(name))]
        pieces.reverse()
        return pieces

    def _piece(self, name: str) -> Piece | None:
        """Return what is new of a file; None where nothing is."""
        path = self.folder / name
        status = path.stat()
        current = _SentFile(inode=status.st_ino, changed_ns=status.st_mtime_ns, size=status.st_size)
        sent = self._sent.get(name)
        if sent == current:
            return None
        position = 0
        if name.endswith(JOURNAL) and sent is not None and sent.inode == current.inode and sent.size <= current.size:
            position = sent.size  # it has grown
        with path.open("rb") as file:
            file.seek(position)
            content = file.read()
        self._sent[name] = current._replace(size=position + len(content))
        if position and not content:
            return None
        return Piece(name=name, position=position, content=content)


def _writing_rank(name: str) -> tuple[int, str]:
    """Return the order in which files are written: journals, other files, the checkpoint, the summary."""
    if name.endswith(JOURNAL):
        return 0, name
    if name in WRITTEN_LAST:
        return 2 + WRITTEN_LAST.index(name), name
    return 1, name


def pack(folder: Path) -> list[Piece]:
    """Return all that a run needs to continue elsewhere; files that record its end are removed, as for resuming."""
    for name in (run_folder.SUMMARY, run_folder.FAILURE):
        (folder / name).unlink(missing_ok=True)
    if folder.is_dir():
        return FolderSender(folder).pieces()
    return []


def put(folder: Path, pieces: Iterable[Piece]) -> None:
    """Write pieces in their order; each is on the disk before the next."""
    for piece in pieces:
        path = folder / piece.name
        if piece.position == 0:
            write_atomically(path, piece.content)
            continue
        try:
            with path.open("r+b") as file:
                if file.seek(0, os.SEEK_END) < piece.position:
                    raise StorageError(f"{path} is shorter than what was received of it; somebody else wrote there.")
                file.truncate(piece.position)
                file.seek(piece.position)
                file.write(piece.content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(f"{path} could not be written: {error.strerror}. Resume when there is room.") from None

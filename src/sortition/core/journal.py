"""An append-only file of JSON lines that can be cut where a resumed run goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from sortition.core.errors import StorageError

NO_LINKS = getattr(os, "O_NOFOLLOW", 0)


class Journal:
    """An append-only file of JSON lines; each line has left the process when ``append`` returns."""

    def __init__(self, path: Path, keep: int) -> None:
        """Open it with only its first ``keep`` lines: what a resumed run has not yet played is cut."""
        self.path = path
        try:
            held = path.read_bytes().split(b"\n", keep) if path.exists() else [b""]
            if len(held) <= keep:
                raise StorageError(f"{path} has {len(held) - 1} whole lines, fewer than the {keep} of its checkpoint.")
            self.last = held[keep - 1] if keep else b""
            self._file = open(  # noqa: SIM115, PTH123 (kept open; a link that leads elsewhere is not followed)
                os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | NO_LINKS, 0o644), "ab", buffering=0
            )
        except OSError as error:
            raise self._failure(error) from None
        try:
            self._file.truncate(sum(len(line) + 1 for line in held[:keep]))
        except OSError as error:
            self._file.close()
            raise self._failure(error) from None

    def append(self, record: Mapping[str, Any]) -> None:
        """One more line, whole or (if the machine stops now) torn; the same record gives the same bytes."""
        self.write(json.dumps(record, separators=(",", ":"), default=plain).encode() + b"\n")

    def write(self, rest: bytes) -> None:
        """One more line, with its newline."""
        try:
            pour(self._file, rest)
        except OSError as error:
            raise self._failure(error) from None

    def sync(self) -> None:
        """Wait until everything appended is on the disk."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._failure(error) from None

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def _failure(self, error: OSError) -> StorageError:
        return StorageError(f"{self.path} could not be written: {error.strerror}. Resume when there is room.")


def pour(file: IO[bytes], rest: bytes) -> None:
    """Write all of it to a file without a buffer."""
    while rest:
        rest = rest[file.write(rest) :]


def plain(value: Any) -> Any:
    """Numpy values as JSON knows them."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return str(value)

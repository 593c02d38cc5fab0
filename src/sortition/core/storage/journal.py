"""An append-only file of JSON lines that can be cut where a resumed run goes on."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np

from sortition.core.errors import StorageError
from sortition.core.storage.safe_files import NON_BLOCKING, check_regular, read_lines_of

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


class Journal:
    """An append-only file of JSON lines; each line has left the process when ``append`` returns.

    Attributes:
        path: the file.
        last_line: the last line that was kept when the file was opened, without its newline; empty if there was none.
    """

    def __init__(self, path: Path, keep: int) -> None:
        """Open the file and cut it after its first ``keep`` lines, where a resumed run goes on."""
        self.path = path
        try:  # a link that leads elsewhere is not followed
            handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | NO_FOLLOW | NON_BLOCKING, 0o644)
        except OSError as error:
            raise self._as_storage_error(error) from None
        try:
            check_regular(handle, path)
            self.last_line, end = self._read_last_kept(handle, keep)
            os.ftruncate(handle, end)
        except StorageError:
            os.close(handle)
            raise
        except OSError as error:
            os.close(handle)
            raise self._as_storage_error(error) from None
        self._file = open(handle, "ab", buffering=0)  # noqa: SIM115, PTH123 (kept open)

    def _read_last_kept(self, handle: int, keep: int) -> tuple[bytes, int]:
        """Return the last of the first ``keep`` lines, and the position where it ends."""
        last = b""
        end = 0
        n_whole = 0
        with open(handle, "rb", closefd=False) as file:
            for line in islice(read_lines_of(file, self.path), keep):
                last = line[:-1]
                end += len(line)
                n_whole += line.endswith(b"\n")
        if n_whole < keep:
            raise StorageError(f"{self.path} has {n_whole} whole lines, fewer than the {keep} of its checkpoint.")
        return last, end

    def append(self, record: Mapping[str, object]) -> None:
        """Append one record as a line; it may be torn if the machine stops now. Equal records give equal bytes."""
        self.write(json.dumps(record, separators=(",", ":"), default=json_default).encode() + b"\n")

    def write(self, line: bytes) -> None:
        """Append one line, with its newline; if it cannot be written whole, nothing of it stays."""
        end = os.fstat(self._file.fileno()).st_size
        try:
            write_all(self._file, line)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file.fileno(), end)
            raise self._as_storage_error(error) from None

    def sync(self) -> None:
        """Wait until everything appended is on the disk."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise self._as_storage_error(error) from None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _as_storage_error(self, error: OSError) -> StorageError:
        """Make our error from the system's."""
        if error.errno == errno.ELOOP:
            return StorageError(f"{self.path} must be a file of this folder; got a link. Remove it.")
        hint = " Resume when there is room." if error.errno in FULL else ""
        return StorageError(f"{self.path} could not be written: {error.strerror}.{hint}")


def write_all(file: IO[bytes], content: bytes) -> None:
    """Write all of the content to a file without a buffer, which may take a part of it at a time."""
    while content:
        n_written = file.write(content)
        content = content[n_written:]


def json_default(value: object) -> object:
    """Turn a value that JSON does not know into one that it does: for ``json.dumps(default=…)``."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return str(value)

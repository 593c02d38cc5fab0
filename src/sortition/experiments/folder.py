"""Writing run folders: locks, append-only journals that can be cut, documents written whole or not at all."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from sortition.core.arrays import Array
from sortition.core.errors import StorageError
from sortition.core.snapshot import write_atomically

try:
    import fcntl
except ImportError:  # no advisory locks on this system
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for one process; a second one is refused at once. The lock dies with its holder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StorageError(
            f"{folder} must be a folder that can be written; got {error.strerror}. Choose another with -o."
        ) from None
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StorageError(
                    f"{folder} is in use by another runner. Wait for it, or choose another with -o."
                ) from None
        yield
    finally:
        os.close(handle)


class Journal:
    """An append-only file of JSON lines; each line has left the process when ``append`` returns."""

    def __init__(self, path: Path, keep: int) -> None:
        """Open it with only its first ``keep`` lines: what a resumed run has not yet played is cut."""
        self.path = path
        try:
            held = path.read_bytes().split(b"\n", keep) if path.exists() else [b""]
            if len(held) <= keep:
                raise StorageError(f"{path} has {len(held) - 1} whole lines, fewer than the {keep} of its checkpoint.")
            self._file = path.open("ab", buffering=0)
            self._file.truncate(sum(len(line) + 1 for line in held[:keep]))
        except OSError as error:
            raise self._failure(error) from None

    def append(self, record: Mapping[str, Any]) -> None:
        """One more line, whole or (if the machine stops now) torn; the same record gives the same bytes."""
        rest = json.dumps(record, separators=(",", ":"), default=plain).encode() + b"\n"
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
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


def plain(value: Any) -> Any:
    """Numpy values as JSON knows them."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return str(value)


def write_document(path: Path, value: Mapping[str, Any]) -> None:
    """A JSON file, atomically."""
    write_atomically(path, json.dumps(value, indent=1, default=plain, ensure_ascii=False).encode() + b"\n")


def write_config(path: Path, table: Mapping[str, Any]) -> None:
    """A TOML file, atomically."""
    write_atomically(path, tomli_w.dumps(table).encode())


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """An npz file, atomically."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **dict(arrays))  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())

"""Writing run folders: locks, and documents written whole or not at all; journals are core's."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import tomli_w

from sortition.core.arrays import Array
from sortition.core.errors import StorageError
from sortition.core.storage.journal import json_default
from sortition.core.storage.lock import acquire
from sortition.core.storage.snapshot import write_atomically
from sortition.results import run_folder
from sortition.studies.types import ReadOnlyTable

LOCK = ".lock"
_FILE_NAMES = "|".join(map(re.escape, run_folder.FILES))
HALF_WRITTEN = re.compile(rf"\.({_FILE_NAMES})\.\d+\.tmp")  # as write_atomically names them


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for one process; a second one is refused at once. The lock dies with its holder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = acquire(folder / LOCK)
    except OSError as error:
        raise StorageError(
            f"{folder} must be a folder that can be written; got {error.strerror}. Choose another with -o."
        ) from None
    if handle is None:
        raise StorageError(f"{folder} is in use by another runner. Wait for it, or choose another with -o.")
    try:
        _remove_half_written(folder)
        yield
    finally:
        os.close(handle)


def _remove_half_written(folder: Path) -> None:
    """Remove what a killed process left half written: the lock says that nobody else writes here."""
    for path in folder.glob(".*.tmp"):
        if HALF_WRITTEN.fullmatch(path.name):  # anything else is not ours
            with suppress(OSError):
                path.unlink()


def check_inside(path: Path, out: Path) -> None:
    """Refuse a folder that a link leads out of ``out``: an untrusted folder could name any place of this machine."""
    if not path.resolve().is_relative_to(out.resolve()):
        raise StorageError(f"{path} must be inside {out}; got a link to {path.resolve()}. Remove the link.")


def write_document(path: Path, value: ReadOnlyTable) -> None:
    """Write a JSON file, whole or not at all."""
    write_atomically(path, json.dumps(value, indent=1, default=json_default, ensure_ascii=False).encode() + b"\n")


def write_config(path: Path, table: ReadOnlyTable) -> None:
    """Write a TOML file, whole or not at all."""
    write_atomically(path, tomli_w.dumps(table).encode())


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an npz file, whole or not at all."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **dict(arrays))  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())

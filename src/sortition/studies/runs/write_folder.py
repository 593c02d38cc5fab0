"""Writing run folders: locks, and documents written whole or not at all; journals are core's."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from sortition.core.arrays import Array
from sortition.core.errors import StorageError
from sortition.core.storage.journal import NO_LINKS, Journal, plain
from sortition.core.storage.snapshot import write_atomically
from sortition.results import run_folder

try:
    import fcntl
except ImportError:  # no advisory locks on this system
    fcntl = None  # type: ignore[assignment]

__all__ = ["Journal", "inside", "locked", "plain", "write_arrays", "write_config", "write_document"]
LOCK = ".lock"
HALF = re.compile(rf"\.({'|'.join(map(re.escape, run_folder.FILES))})\.\d+\.tmp")  # as write_atomically names them


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for one process; a second one is refused at once. The lock dies with its holder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | NO_LINKS, 0o644)
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
        _tidy(folder)
        yield
    finally:
        os.close(handle)


def _tidy(folder: Path) -> None:
    """What a killed process left half written goes, now that nobody else is here."""
    for left in folder.glob(".*.tmp"):
        if HALF.fullmatch(left.name):  # anything else is not ours
            with suppress(OSError):
                left.unlink()


def inside(path: Path, out: Path) -> None:
    """Refuse a folder that a link leads out of ``out``: a stranger's runs could name any place of this machine."""
    if not path.resolve().is_relative_to(out.resolve()):
        raise StorageError(f"{path} must be inside {out}; got a link to {path.resolve()}. Remove the link.")


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

"""Named arrays and a JSON header in one file: npz, no pickle, written whole or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import StorageError
from sortition.core.storage.journal import write_all
from sortition.core.storage.npz import read_npz
from sortition.core.storage.safe_files import check_file_name, check_format

FORMAT = 1  # of snapshots, in their header
# what numpy and zipfile raise on bytes that are not theirs
UNREADABLE: tuple[type[Exception], ...] = (
    OSError, ValueError, KeyError, IndexError, TypeError, EOFError, AttributeError, SyntaxError, MemoryError,
    RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError,
)  # fmt: skip
_HEADER = "header"

StoredTable = Mapping[str, Any]  # a table of a JSON text as it was read, before anybody has checked it


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file as a whole: temporary name, fsync, rename, fsync of the folder."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)
        with temporary.open("xb", buffering=0) as file:  # x: never through a link that somebody put there
            write_all(file, content)
            os.fsync(file.fileno())
        temporary.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise StorageError(
            f"{path} could not be written: {error.strerror or error}. What was there is unchanged."
        ) from error


def digest(value: object) -> str:
    """Return a short hash of any JSON-able value; the same for the same value on every machine."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def save(path: str | Path, arrays: Mapping[str, Array], header: Mapping[str, object]) -> None:
    """Write arrays and header, atomically."""
    check_file_name(path)
    if _HEADER in arrays:
        raise StorageError(f"Snapshot arrays must not be named {_HEADER!r}.")
    text = json.dumps({**header, "format": FORMAT}, sort_keys=True)
    buffer = io.BytesIO()
    np.savez(buffer, **{_HEADER: np.frombuffer(text.encode(), np.uint8)}, **dict(arrays))  # type: ignore[arg-type]
    write_atomically(Path(path), buffer.getvalue())


def load(path: str | Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read the arrays and the header that :func:`save` wrote; a torn or foreign file, or another format, is refused."""
    try:
        arrays = read_npz(Path(path))
        if _HEADER not in arrays:
            raise ValueError("it has no header")
        header = json.loads(arrays.pop(_HEADER).tobytes().decode())
        if not isinstance(header, dict):
            raise ValueError("its header is not a JSON object")
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist.") from None
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.strerror:  # of the system; an error of a decompressor has no strerror
            raise StorageError(f"{path} cannot be read: {error.strerror}.") from None
        raise StorageError(f"{path} is not a Sortition snapshot: {error}.") from None
    check_format(str(path), header.get("format"), FORMAT)
    return arrays, header


def add_prefix(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays of one part of a file, under names that begin with ``prefix``."""
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def take_part(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """Return the arrays whose names begin with ``prefix``, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def check_options(path: Path, saved: Mapping[str, object], options: Mapping[str, object]) -> None:
    """Refuse a checkpoint of a run with other options; those that it does not hold are not compared."""
    current = {name: value for name, value in options.items() if name in saved}
    changes = describe_difference(saved, current)
    if changes:
        raise StorageError(f"{path} is of another federation: {changes}.")


def describe_difference(saved: Mapping[str, object], current: Mapping[str, object]) -> str:
    """Say what differs between two flat tables, such as ``alpha was 1.0, is 2.0``; empty if nothing does."""
    changes = []
    for key in sorted(saved.keys() | current.keys()):
        saved_value = repr(saved[key]) if key in saved else "absent"
        current_value = repr(current[key]) if key in current else "absent"
        if saved_value != current_value:
            changes.append(f"{key} was {saved_value}, is {current_value}")
    return "; ".join(changes)

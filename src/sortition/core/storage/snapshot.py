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
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import StorageError
from sortition.core.storage.journal import pour
from sortition.core.storage.npz import read_npz
from sortition.core.storage.safe_files import check_file_name

FORMAT = 3
# what numpy and zipfile raise on bytes that are not theirs
FOREIGN: tuple[type[Exception], ...] = (
    OSError, ValueError, KeyError, IndexError, TypeError, EOFError, AttributeError, SyntaxError, MemoryError,
    RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError,
)  # fmt: skip
_HEADER = "header"


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file as a whole: temporary name, fsync, rename, fsync of the folder."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)
        with temporary.open("xb", buffering=0) as file:  # x: never through a link that somebody put there
            pour(file, content)
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


def digest(value: Any) -> str:
    """A short hash of any JSON-able value; the same for the same value on every machine."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def save(path: str | Path, arrays: Mapping[str, Array], header: Mapping[str, Any]) -> None:
    """Write arrays and header, atomically."""
    check_file_name(path)
    if _HEADER in arrays:
        raise StorageError(f"Snapshot arrays must not be named {_HEADER!r}.")
    text = json.dumps({**header, "format": FORMAT}, sort_keys=True)
    buffer = io.BytesIO()
    np.savez(buffer, **{_HEADER: np.frombuffer(text.encode(), np.uint8)}, **dict(arrays))  # type: ignore[arg-type]
    write_atomically(Path(path), buffer.getvalue())


Parts = tuple[dict[str, Array], dict[str, Any]]


def _without_quarantine(arrays: dict[str, Array], header: dict[str, Any]) -> Parts:
    """1 → 2: registrars keep until when each client is quarantined; nobody was."""
    for name in [name for name in arrays if name.rpartition(".")[2] == "quarantined"]:
        arrays[name.removesuffix("quarantined") + "until"] = np.zeros_like(arrays[name])
    return arrays, header


def _unchanged(arrays: dict[str, Array], header: dict[str, Any]) -> Parts:
    """2 → 3: only a method's state changed (``State.migrated``)."""
    return arrays, header


STEPS: dict[int, Callable[[dict[str, Array], dict[str, Any]], Parts]] = {1: _without_quarantine, 2: _unchanged}


def load(path: str | Path) -> Parts:
    """Read what :func:`save` wrote, older formats as today's; a torn, foreign or newer file is refused."""
    try:
        arrays = read_npz(Path(path))
        header = json.loads(arrays.pop(_HEADER).tobytes().decode())
    except FileNotFoundError:
        raise StorageError(f"{path} does not exist.") from None
    except FOREIGN as error:
        raise StorageError(f"{path} is not a Sortition snapshot: {error}.") from None
    form = header.get("format") if isinstance(header, dict) else None
    if isinstance(form, bool) or not isinstance(form, int) or form < 1:
        raise StorageError(f"{path} is not a Sortition snapshot: its header has no format.")
    if form > FORMAT:
        raise StorageError(f"{path} has format {form}; this version reads up to {FORMAT}. Update Sortition.")
    for step in range(form, FORMAT):
        arrays, header = STEPS[step](arrays, header)
    return arrays, {**header, "format": FORMAT}


def check_options(path: Path, before: Mapping[str, Any], options: Mapping[str, Any] | None) -> None:
    """Refuse a checkpoint of a run with other options; those that it does not hold are not compared."""
    now = {name: value for name, value in (options or {}).items() if name in before}
    if changed := difference(before, now) if options is not None else "":
        raise StorageError(f"{path} is of another federation: {changed}.")


def difference(saved: Mapping[str, Any], current: Mapping[str, Any]) -> str:
    """What differs between two flat tables, in words: ``alpha was 1.0, is 2.0``; empty if nothing does."""

    def value(table: Mapping[str, Any], key: str) -> str:
        return repr(table[key]) if key in table else "absent"

    keys = sorted(saved.keys() | current.keys())
    return "; ".join(
        f"{k} was {value(saved, k)}, is {value(current, k)}" for k in keys if value(saved, k) != value(current, k)
    )

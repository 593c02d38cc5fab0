"""Arrays from npz and npy untrusted files: no pickle, and no more memory than the file is worth.

What a file announces is checked before anything is allocated: a kilobyte of zeros that says it is a terabyte, or a
header whose shape is larger than its data, is refused.
"""

from __future__ import annotations

import math
import stat
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from sortition.core.arrays import Array

FREE = 1 << 30  # bytes that any file may unpack to
PIECE = 1 << 18  # bytes that are read at once: an archive holds them twice on the way
RATIO = 20  # beyond that, so many times its own size: np.savez stores at 1, honest compressed tables at 2 to 10


def read_npz(path: Path) -> dict[str, Array]:
    """All arrays of an npz file; ValueError or BadZipFile where it is none that can be trusted."""
    most = max(FREE, RATIO * _size(path))
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        announced = sum(member.file_size for member in members)
        if announced > most:
            raise ValueError(f"it would unpack to {announced:,} bytes, more than the {most:,} that its size allows")
        found = {}
        for member in members:
            with archive.open(member) as file:
                found[member.filename.removesuffix(".npy")] = _array(file, member.file_size)
    return found


def read_npy(path: Path) -> Array:
    """The array of an npy file."""
    size = _size(path)
    with path.open("rb") as file:
        return _array(file, size)


def _size(path: Path) -> int:
    """How long a file is; a device or a pipe may never end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a file")
    return status.st_size


def _array(file: IO[bytes], size: int) -> Array:
    """One array of at most ``size`` bytes; its header is read first, and what it announces is checked."""
    version = npy.read_magic(file)
    read: Any = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"npy version {version} is unknown")
    shape, by_column, dtype = read(file, max_header_size=10_000)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which would have to be unpickled")
    needed = math.prod(shape) * dtype.itemsize
    least = math.prod(shape) * max(dtype.itemsize, 1)  # numpy gives a text of no letters a byte
    if least > size or any(length < 0 for length in shape):
        raise ValueError(f"it announces shape {shape}, {needed:,} bytes, and has {size:,}")
    flat: Array = np.empty(math.prod(shape), dtype)
    view, at = flat.view(np.uint8) if needed else flat, 0
    while at < needed:
        got = file.readinto(view[at : at + PIECE].data)  # type: ignore[attr-defined]
        if not got:
            raise ValueError(f"it announces shape {shape}, {needed:,} bytes, and has {at:,}")
        at += got
    return flat.reshape(shape[::-1]).T if by_column else flat.reshape(shape)

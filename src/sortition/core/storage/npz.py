"""Arrays from untrusted npz and npy files: no pickle, and no more memory than the file is worth.

What a file announces is checked before anything is allocated: a kilobyte of zeros that says it is a terabyte, or a
header whose shape is larger than its data, is refused. So is an archive that holds anything else than its arrays: a
flipped bit in a name, a length or a shape would otherwise lose an array, or part of one, without a word.
"""

from __future__ import annotations

import math
import stat
import threading
import zipfile
from pathlib import Path
from typing import IO, Protocol, cast

import numpy as np
from numpy.lib import format as npy

from sortition.core.arrays import Array

ALWAYS_ALLOWED = 1 << 30  # bytes that any file may unpack to
LARGEST_RATIO = 20  # beyond that, so many times its own size: np.savez stores at 1, compressed tables at 2 to 10
PIECE = 1 << 18  # bytes that are read at once: an archive holds them twice on the way
END_RECORD = 22  # bytes of the record at the end of an archive, before its comment
MANY = 0xFFFF  # the number of members in that record where it does not fit

# numpy parses headers with ast, in which two threads disturb each other (CPython gh-106905: SystemError)
_parsing_header = threading.Lock()


class _Reader(Protocol):
    """A file that reads into memory that is there: what ``open`` and ``ZipFile.open`` return."""

    def readinto(self, buffer: memoryview, /) -> int: ...


def read_npz(path: Path) -> dict[str, Array]:
    """Read all arrays of an npz file; raise ValueError or BadZipFile where it is none that can be trusted."""
    limit = max(ALWAYS_ALLOWED, LARGEST_RATIO * _file_size(path))
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        announced = sum(member.file_size for member in members)
        if announced > limit:
            raise ValueError(f"it would unpack to {announced:,} bytes, more than the {limit:,} that its size allows")
        _check_member_count(path, archive)
        for member in members:
            name = member.filename
            if not name.endswith(".npy"):
                raise ValueError(f"its member {name[:99]!r} is no array")
            with archive.open(member) as file:
                arrays[name.removesuffix(".npy")] = _read_array(file, member.file_size)
                if file.read(1):  # only a member that is read to its end has its checksum compared
                    raise ValueError(f"its member {name[:99]!r} has more bytes than its array")
    return arrays


def read_npy(path: Path) -> Array:
    """Read the array of an npy file."""
    size = _file_size(path)
    with path.open("rb") as file:
        return _read_array(file, size)


def _file_size(path: Path) -> int:
    """Return how many bytes a file has; refuse a device or a pipe, which may never end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a file")
    return status.st_size


def _check_member_count(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse an archive that lists fewer members than the record at its end counts, which zipfile does not compare."""
    with path.open("rb") as file:
        file.seek(-END_RECORD - len(archive.comment), 2)
        record = file.read(END_RECORD)
    counted = int.from_bytes(record[10:12], "little")
    listed = len(archive.infolist())
    if counted not in (listed, MANY):
        raise ValueError(f"it lists {listed} members and counts {counted}")


def _read_array(file: IO[bytes], size: int) -> Array:
    """Read one array of at most ``size`` bytes, after checking what its header announces."""
    shape, by_column, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which would have to be unpickled")
    n_values = math.prod(shape)
    n_bytes = n_values * dtype.itemsize
    allocated = n_values * max(dtype.itemsize, 1)  # numpy gives a text of no letters a byte
    if allocated > size or any(length < 0 for length in shape):
        raise ValueError(f"it announces shape {shape}, {n_bytes:,} bytes, and has {size:,}")
    flat: Array = np.empty(n_values, dtype)
    if n_bytes:
        _fill(flat.view(np.uint8), file, shape)
    if by_column:
        return flat.reshape(shape[::-1]).T
    return flat.reshape(shape)


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read the shape of an array, whether it is in Fortran's order (by column), and its type; safe for threads."""
    version = npy.read_magic(file)
    with _parsing_header:
        if version == (1, 0):
            return npy.read_array_header_1_0(file, max_header_size=10_000)
        if version == (2, 0):
            return npy.read_array_header_2_0(file, max_header_size=10_000)
    raise ValueError(f"npy version {version} is unknown")


def _fill(target: Array, file: IO[bytes], shape: tuple[int, ...]) -> None:
    """Fill these bytes from a file, piece by piece; refuse a file that ends before."""
    reader = cast(_Reader, file)
    position = 0
    while position < target.size:
        n_read = reader.readinto(target[position : position + PIECE].data)
        if not n_read:
            raise ValueError(f"it announces shape {shape}, {target.size:,} bytes, and has {position:,}")
        position += n_read

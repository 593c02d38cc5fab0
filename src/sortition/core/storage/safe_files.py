"""Texts from untrusted files: regular files only, and no more of them than is sensible.

A device never ends and a pipe never begins; a file with holes can be longer than any memory. FileNotFoundError is left
to the caller, who knows what an absent file means; everything else is one error message.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from sortition.core.errors import StorageError, bad, show_value

NON_BLOCKING = getattr(os, "O_NONBLOCK", 0)  # to open a pipe does not wait for its other end
LONGEST_TEXT = 256 << 20  # bytes of a document, or of a line: those of a million clients have less


def check_file_name(path: str | Path) -> None:
    """Refuse, before anything is written, a path that can name no file."""
    if not isinstance(path, str | Path):
        raise bad("path", "a text or a Path", path)
    if not Path(path).name or "\0" in str(path):
        raise bad("path", "the path of a file, without zero bytes", path)
    if Path(path).is_dir():
        raise bad("path", "the path of a file", f"the folder {path}")


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading."""
    try:
        handle = os.open(path, os.O_RDONLY | NON_BLOCKING | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise StorageError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    try:
        check_regular(handle, path)
    except StorageError:
        os.close(handle)
        raise
    return open(handle, "rb")  # noqa: PTH123 - by its handle


def check_regular(handle: int, path: Path) -> None:
    """Refuse what is open and is no file: a folder, a device, a pipe."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise StorageError(f"{path} must be a file; got a folder, a device or a pipe.")


def read_regular(path: Path, most: int = LONGEST_TEXT) -> bytes:
    """Read all bytes of a file; refuse one with more than ``most``."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size  # read() takes the memory for all that it may read
        content = _read(file.read, min(most, size) + 1, path)
    if len(content) > most:
        raise StorageError(f"{path} must have at most {most:,} bytes; got more.")
    return content


def read_lines(path: Path, most: int = LONGEST_TEXT) -> Iterator[bytes]:
    """Read the lines of a file with their newlines, one at a time; the last one may be torn."""
    with open_regular(path) as file:
        yield from read_lines_of(file, path, most)


def read_lines_of(file: BinaryIO, path: Path, most: int = LONGEST_TEXT) -> Iterator[bytes]:
    """Read the lines of an open file, as :func:`read_lines` does; ``path`` names it in messages."""
    while line := _read(file.readline, most + 1, path):
        if len(line) > most:
            raise StorageError(f"{path} must have lines of at most {most:,} bytes; got a longer one.")
        yield line


def whole_number(value: object, what: str, least: int = 0, most: int | None = None) -> int:
    """Return a value of a file if it is a whole number within these limits; else raise ValueError."""
    rule = f"{what} must be a whole number ≥ {least}"
    if most is not None:
        rule += f" and ≤ {most}"
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(rule)
    if most is not None and value > most:
        raise ValueError(rule)
    return value


def check_format(subject: str, stored: object, current: int) -> None:
    """Refuse a file that was written in another format than the one of this version; ``subject`` names the file."""
    is_number = isinstance(stored, int) and not isinstance(stored, bool)
    if is_number and stored == current:
        return
    hint = ""
    if isinstance(stored, int) and stored > current:
        hint = " Update Sortition."
    raise StorageError(f"{subject} has format {show_value(stored)}; this version reads format {current}.{hint}")


def _read(read: Callable[[int], bytes], most: int, path: Path) -> bytes:
    """Read at most so many bytes, and turn the system's errors into ours."""
    try:
        return read(most)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from None

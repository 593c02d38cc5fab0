"""Finds, fetches, verifies and stores real data sets. Nothing here runs on import."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import DataError, bad, unknown
from sortition.core.storage.npz import read_npz
from sortition.core.storage.snapshot import UNREADABLE
from sortition.data.catalogue import ENTRIES, Entry
from sortition.data.dataset import Dataset
from sortition.data.image_files import Splits, decode
from sortition.data.sources import Report, sources

ARRAY_NAMES = ("x_train", "y_train", "x_test", "y_test")


def directory() -> Path:
    """Return the folder of data sets: ``SORTITION_DATA``, else the user's cache."""
    if chosen := os.environ.get("SORTITION_DATA"):
        return Path(chosen).expanduser()
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local, "sortition", "data")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "sortition" / "data"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sortition" / "data"


def find_stored(name: str) -> Path | None:
    """Return the file or folder of a data set: in the data directory, else a system copy (Debian's share/datasets)."""
    roots = (os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(os.pathsep)
    system_places = [Path(root, "datasets", name) for root in roots if root]
    places = [directory() / f"{name}.npz", directory() / name, *system_places]
    return next((place for place in places if place.exists()), None)


def get(name: str, *, report: Report = lambda line: None, refresh: bool = False) -> Path:
    """Verify a real data set and return its file or folder; fetch it if it is missing or damaged, or on ``refresh``."""
    entry = _entry(name)
    place = find_stored(entry.name)
    if place is not None and not refresh:
        try:
            read(entry.name)
            return place
        except DataError as error:
            report(str(error))
    target = directory() / f"{entry.name}.npz"
    make_directory(target.parent)
    failures = []
    for title, fill in sources(entry, report):
        report(f"{entry.name}: trying {title}")
        try:
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{entry.name}-") as scratch:
                splits = decode(fill(Path(scratch)), entry)
                if splits is None:
                    raise DataError("holds none of the known files")
                verify(entry, splits)
        except (DataError, OSError) as error:
            _raise_if_disk_is_full(error, target)
            failures.append(f"  {title}: {error}")
            continue
        _write_npz(target, splits)
        return target
    raise DataError(
        f"{entry.name} could not be fetched:\n"
        + "\n".join(failures)
        + f"\nPut {entry.by_hand} into {directory() / entry.name}."
    )


def read(name: str) -> Dataset:
    """Read and verify a real data set that is in the data directory or installed on the system."""
    entry = _entry(name)
    place = find_stored(entry.name)
    if place is None:
        raise DataError(f"{entry.name} is not in {directory()}. Run 'sortition data get {entry.name}'.")
    splits = _read_stored(place, entry)
    if splits is None:
        raise DataError(f"{place} holds no {entry.name}. Put {entry.by_hand} there.")
    verify(entry, splits)
    x_train, y_train = splits["train"]
    x_test, y_test = splits["test"]
    return Dataset(
        name=entry.name,
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
        classes=entry.classes,
    )


def verify(entry: Entry, splits: Splits) -> None:
    """Check shapes, types and SHA-256 of the decoded arrays against the catalogue."""
    for split, (images, labels) in splits.items():
        image_shape = entry.shapes[split]
        _verify_array(entry, f"{split}/images", images, image_shape)
        _verify_array(entry, f"{split}/labels", labels, image_shape[:1])


def _verify_array(entry: Entry, key: str, array: Array, shape: tuple[int, ...]) -> None:
    array_name = f"{entry.name} {key.replace('/', ' ')}"
    if array.shape != shape or array.dtype != np.uint8:
        raise DataError(f"{array_name} must be uint8 of shape {shape}; got {array.dtype} {array.shape}.")
    if key in entry.sha256:
        verify_digest(array_name, array, entry.sha256[key], entry.name)


def verify_digest(subject: str, array: Array, expected: str, data_set: str) -> None:
    """Refuse an array whose bytes have another SHA-256."""
    digest = hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
    if digest != expected:
        raise DataError(
            f"{subject} must have SHA-256 {expected[:12]}…; got {digest[:12]}…. "
            f"The copy is damaged or another version. Run 'sortition data get {data_set}'."
        )


def _entry(name: str) -> Entry:
    if name not in ENTRIES:
        raise unknown("data set", name, ENTRIES)
    return ENTRIES[name]


def make_directory(folder: Path) -> None:
    """Make the data directory where there is none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise bad("SORTITION_DATA", "a folder that can be written", str(folder), f"{error.strerror}.") from error


def _read_stored(place: Path, entry: Entry) -> Splits | None:
    """Read our own file or the published files in a folder; None if the folder holds none of them."""
    if place.suffix == ".npz":
        return _read_npz(place)
    return decode(place, entry)


def _read_npz(path: Path) -> Splits:
    try:
        stored = read_npz(path)
        arrays: dict[str, Array] = {name: stored[name] for name in ARRAY_NAMES}
    except UNREADABLE as error:
        raise DataError(f"{path} is damaged: {error}. Run 'sortition data get {path.stem}'.") from error
    return {split: (arrays[f"x_{split}"], arrays[f"y_{split}"]) for split in ("train", "test")}


def _write_npz(target: Path, splits: Splits) -> None:
    arrays = {}
    for split, (images, labels) in splits.items():
        arrays[f"x_{split}"] = images
        arrays[f"y_{split}"] = labels
    write_arrays(target, arrays)


def write_arrays(target: Path, arrays: dict[str, Array]) -> None:
    """Write an npz file, all or nothing: under a temporary name, flushed, then renamed."""
    temporary = target.with_name(f".{target.name}-{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        _raise_if_disk_is_full(error, target)
        raise


def _raise_if_disk_is_full(error: BaseException, target: Path) -> None:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise DataError(
            f"No space left in {target.parent} for {target.stem}. Set SORTITION_DATA to another folder."
        ) from error

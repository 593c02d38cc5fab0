"""Having a real data set: find it, fetch it, verify it, keep it. Nothing here runs on import."""

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
from sortition.core.storage.snapshot import FOREIGN
from sortition.data.catalogue import ENTRIES, Entry
from sortition.data.dataset import Dataset
from sortition.data.image_files import Splits, decode
from sortition.data.sources import Report, sources

NAMES = ("x_train", "y_train", "x_test", "y_test")


def directory() -> Path:
    """Where data sets are kept: ``SORTITION_DATA``, else the user's cache."""
    if chosen := os.environ.get("SORTITION_DATA"):
        return Path(chosen).expanduser()
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local, "sortition", "data")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "sortition" / "data"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sortition" / "data"


def kept(name: str) -> Path | None:
    """The file or folder that holds ``name``: in the data directory, else a system copy (Debian's share/datasets)."""
    roots = (os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(os.pathsep)
    system = [Path(root, "datasets", name) for root in roots if root]
    return next((place for place in (directory() / f"{name}.npz", directory() / name, *system) if place.exists()), None)


def get(name: str, *, report: Report = lambda line: None, refresh: bool = False) -> Path:
    """Have a real data set, verified; returns its file or folder. Fetched where missing, damaged, or on demand."""
    entry = _entry(name)
    place = kept(entry.name)
    if place is not None and not refresh:
        try:
            read(entry.name)
            return place
        except DataError as error:
            report(str(error))
    target = directory() / f"{entry.name}.npz"
    make_directory(target.parent)
    tried = []
    for title, fill in sources(entry, report):
        report(f"{entry.name}: trying {title}")
        try:
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{entry.name}-") as scratch:
                splits = decode(fill(Path(scratch)), entry)
                if splits is None:
                    raise DataError("holds none of the known files")
                verify(entry, splits)
        except (DataError, OSError) as error:
            _no_space(error, target)
            tried.append(f"  {title}: {error}")
            continue
        _write(target, splits)
        return target
    raise DataError(
        f"{entry.name} could not be had:\n"
        + "\n".join(tried)
        + f"\nPut {entry.by_hand} into {directory() / entry.name}."
    )


def read(name: str) -> Dataset:
    """A real data set that is in the data directory or installed on the system, verified."""
    entry = _entry(name)
    place = kept(entry.name)
    if place is None:
        raise DataError(f"{entry.name} is not in {directory()}. Run 'sortition data get {entry.name}'.")
    splits = _read_npz(place) if place.suffix == ".npz" else decode(place, entry)
    if splits is None:
        raise DataError(f"{place} holds no {entry.name}. Put {entry.by_hand} there.")
    verify(entry, splits)
    (x_train, y_train), (x_test, y_test) = splits["train"], splits["test"]
    return Dataset(entry.name, x_train, y_train, x_test, y_test, entry.classes)


def verify(entry: Entry, splits: Splits) -> None:
    """Shapes, types and SHA-256 of the decoded arrays against the catalogue."""
    for split, (images, labels) in splits.items():
        for what, array, shape in (
            ("images", images, entry.shapes[split]),
            ("labels", labels, entry.shapes[split][:1]),
        ):
            if array.shape != shape or array.dtype != np.uint8:
                raise DataError(
                    f"{entry.name} {split} {what} must be uint8 of shape {shape}; got {array.dtype} {array.shape}."
                )
            wanted = entry.sha256.get(f"{split}/{what}")
            found = hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
            if wanted is not None and found != wanted:
                raise DataError(
                    f"{entry.name} {split} {what} must have SHA-256 {wanted[:12]}…; got {found[:12]}…. "
                    f"The copy is damaged or another version. Run 'sortition data get {entry.name}'."
                )


def _entry(name: str) -> Entry:
    if name not in ENTRIES:
        raise unknown("data set", name, ENTRIES)
    return ENTRIES[name]


def make_directory(folder: Path) -> None:
    """The data directory, made where there is none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise bad("SORTITION_DATA", "a folder that can be written", str(folder), f"{error.strerror}.") from error


def _read_npz(path: Path) -> Splits:
    try:
        stored = read_npz(path)
        arrays: dict[str, Array] = {name: stored[name] for name in NAMES}
    except FOREIGN as error:
        raise DataError(f"{path} is damaged: {error}. Run 'sortition data get {path.stem}'.") from error
    return {split: (arrays[f"x_{split}"], arrays[f"y_{split}"]) for split in ("train", "test")}


def _write(target: Path, splits: Splits) -> None:
    write_arrays(target, {f"{axis}_{split}": pair[i] for split, pair in splits.items() for i, axis in enumerate("xy")})


def write_arrays(target: Path, arrays: dict[str, Array]) -> None:
    """All or nothing: a temporary name, flushed, then renamed."""
    temporary = target.with_name(f".{target.name}-{os.getpid()}")
    try:
        with temporary.open("wb") as out:
            np.savez(out, **arrays)  # type: ignore[arg-type]
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        _no_space(error, target)
        raise


def _no_space(error: BaseException, target: Path) -> None:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise DataError(
            f"No space left in {target.parent} for {target.stem}. Set SORTITION_DATA to another folder."
        ) from error

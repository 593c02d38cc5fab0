"""Reading the published forms of image data: IDX files, CIFAR's Python batches, and sprites with JSON labels."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import pickle
import struct
import tarfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import DataError
from sortition.core.storage.snapshot import FOREIGN
from sortition.data.catalogue import Entry

MOST = 1 << 28  # bytes of one file when decompressed: five times the largest there is
UNREADABLE: tuple[type[Exception], ...] = (*FOREIGN, pickle.UnpicklingError, tarfile.TarError, struct.error)
Splits = dict[str, tuple[Array, Array]]  # "train" and "test" → images, labels, both uint8


def decode(folder: Path, entry: Entry) -> Splits | None:
    """The data set in whichever form ``folder`` holds it, at any depth; None if it holds none."""
    files = _files(folder)
    for read in (_idx, _batches, _sprites):
        try:
            splits = read(files, entry)
        except UNREADABLE as error:
            raise DataError(
                f"{entry.name}: a file in {folder} cannot be read: {error}. It may be truncated."
            ) from error
        if splits is not None:
            return splits
    return None


def _files(folder: Path) -> dict[str, Path]:
    """File name → path, at any depth."""
    return {path.name: path for path in sorted(folder.rglob("*")) if path.is_file()}


def _idx(files: dict[str, Path], entry: Entry) -> Splits | None:
    splits = {}
    for split, prefix in (("train", "train"), ("test", "t10k")):
        paths = [
            next((files[form] for form in (name, f"{name}.gz", name.replace("-idx", ".idx")) if form in files), None)
            for name in (f"{prefix}-images-idx3-ubyte", f"{prefix}-labels-idx1-ubyte")
        ]
        if None in paths:
            return None
        splits[split] = (read_idx(paths[0]), read_idx(paths[1]))  # type: ignore[arg-type]
    return splits


def read_idx(path: Path) -> Array:
    """One IDX file of unsigned bytes, gzipped or not: magic 0x0000 08 ndim, sizes as big-endian int32, values."""
    with path.open("rb") as start:
        packed = start.read(2) == b"\x1f\x8b"
    with gzip.open(path) if packed else path.open("rb") as file:
        head = file.read(4)
        if len(head) < 4 or head[:3] != b"\0\0\x08":
            raise ValueError(f"{path.name} is no IDX file of unsigned bytes")
        shape = tuple(np.frombuffer(file.read(4 * head[3]), ">i4").tolist())
        count = math.prod(shape)
        if len(shape) != head[3] or min(shape, default=0) < 0 or count > MOST:
            raise ValueError(f"{path.name} announces shape {shape}, which no data set here has")
        data = file.read(count + 1)  # however much a packed file would give
    if len(data) != count:
        held = len(data) if len(data) < count else "more"
        raise ValueError(f"{path.name} announces shape {shape} and holds {held} values")
    return np.frombuffer(data, np.uint8).reshape(shape)


def _bytes(path: Path) -> bytes:
    if path.stat().st_size > MOST:
        raise ValueError(f"{path.name} has more than {MOST:,} bytes")
    return path.read_bytes()


def _batches(files: dict[str, Path], entry: Entry) -> Splits | None:
    """CIFAR's Python form, from its folder or from the published archive."""
    if entry.name not in _CIFAR:
        return None
    names, key = _CIFAR[entry.name]
    found = _found(files, {name for group in names.values() for name in group})
    if found is None:
        return None
    for name in found if entry.md5 else ():
        if hashlib.md5(found[name], usedforsecurity=False).hexdigest() != entry.md5[name]:
            raise ValueError(f"{name} has not the published MD5")
    return {split: _joined([_batch(found[name], name, key) for name in group]) for split, group in names.items()}


_CIFAR = {  # files of each split, and the key of the labels
    "cifar10": ({"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}, b"labels"),
    "cifar100": ({"train": ["train"], "test": ["test"]}, b"fine_labels"),
}


def _found(files: dict[str, Path], wanted: set[str]) -> dict[str, bytes] | None:
    """The wanted files, those that are missing from the archive; None if any is not there."""
    found = {name: _bytes(files[name]) for name in sorted(wanted) if name in files}
    if archive := next((path for name, path in files.items() if name.endswith("-python.tar.gz")), None):
        found |= _members(archive, wanted - found.keys())
    return found if found.keys() == wanted else None


def _joined(batches: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Images (n, 32, 32, 3) and labels of several batches."""
    images = np.concatenate([images for images, _ in batches])
    labels = np.concatenate([labels for _, labels in batches])
    return np.ascontiguousarray(images.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels


def _members(archive: Path, wanted: set[str]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.rsplit("/", 1)[-1]
            if name in wanted and member.size <= MOST and (content := tar.extractfile(member)):
                yield name, content.read()


def _batch(raw: bytes, name: str, key: bytes) -> tuple[Array, Array]:
    """Images (n, 3072) and labels of one batch; a pickle of anything else is refused."""
    batch = _Plain(io.BytesIO(raw), encoding="bytes").load()
    images, labels = (batch.get(b"data"), batch.get(key)) if isinstance(batch, dict) else (None, None)
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (3072,):
        raise ValueError(f"{name} holds no table of 3072 bytes an image")
    if not isinstance(labels, list) or len(labels) != len(images) or not all(type(label) is int for label in labels):
        raise ValueError(f"{name} holds no list of labels, one an image")
    return images, np.asarray(labels, np.uint8)


class _Plain(pickle._Unpickler):  # the one in C makes room for whatever a memo announces
    """Reads what CIFAR's pickles are made of (dicts, lists, bytes, one array each) and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = {"_reconstruct": "numpy.core.multiarray", "ndarray": "numpy", "dtype": "numpy"}
        if allowed.get(name) != module.replace("numpy._core", "numpy.core"):
            raise pickle.UnpicklingError(f"refused to load {module}.{name}")
        return {"_reconstruct": _blank, "ndarray": "ndarray", "dtype": np.dtype}[name]


def _blank(kind: Any, *_: Any) -> Array:
    """An empty array, into which a pickle puts the bytes that it has."""
    if kind != "ndarray":
        raise pickle.UnpicklingError("refused to make anything but an array")
    return np.empty(0, np.uint8)


def _sprites(files: dict[str, Path], entry: Entry) -> Splits | None:
    """PNG sprites, one image of 32×32 row-major RGB pixels a row, and a JSON list of labels per split."""
    names = {"train": [f"data_batch_{i}.png" for i in range(1, 6)], "test": ["test_batch.png"]}
    if entry.name != "cifar10" or not all(name in files for group in names.values() for name in group):
        return None
    splits = {}
    for split, group in names.items():
        rows = np.concatenate([_sprite(files[name]) for name in group])
        labels = json.loads(_bytes(files[f"{split}_lables.json"]))  # the package's own spelling
        if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 256 for label in labels):
            raise ValueError(f"{split}_lables.json is no list of labels")
        splits[split] = (rows, np.asarray(labels, np.uint8))
    return splits


def _sprite(path: Path) -> Array:
    """(n, 32, 32, 3) of a picture with n rows; its size is read before its pixels are."""
    from PIL import Image  # only this form needs it

    try:
        with warnings.catch_warnings(action="error", category=Image.DecompressionBombWarning):
            sprite = Image.open(path, formats=["PNG"])
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(f"{path.name} is too large: {error}") from None
    with sprite:
        if sprite.width != 1024 or sprite.height > 60_000:
            raise ValueError(f"{path.name} is {sprite.width} × {sprite.height} pixels, not 1024 wide, an image a row")
        return np.asarray(sprite.convert("RGB")).reshape(-1, 32, 32, 3)

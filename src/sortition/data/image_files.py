"""Reads the published forms of image data: IDX files, CIFAR's Python batches, and sprites with JSON labels."""

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

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import DataError
from sortition.core.storage.snapshot import UNREADABLE
from sortition.data.catalogue import Entry

MOST_BYTES = 1 << 28  # of one file when decompressed: five times the largest there is
UNREADABLE_ARCHIVE: tuple[type[Exception], ...] = (*UNREADABLE, pickle.UnpicklingError, tarfile.TarError, struct.error)
Splits = dict[str, tuple[Array, Array]]  # "train" and "test" → images, labels, both uint8


def decode(folder: Path, entry: Entry) -> Splits | None:
    """Read the data set in whichever form ``folder`` holds it, at any depth; None if it holds none."""
    files = _list_files(folder)
    for read_form in (_read_idx_files, _read_batches, _read_sprites):
        try:
            splits = read_form(files, entry)
        except UNREADABLE_ARCHIVE as error:
            raise DataError(
                f"{entry.name}: a file in {folder} cannot be read: {error}. It may be truncated."
            ) from error
        if splits is not None:
            return splits
    return None


def _list_files(folder: Path) -> dict[str, Path]:
    """Return the paths of all files by name, at any depth."""
    return {path.name: path for path in sorted(folder.rglob("*")) if path.is_file()}


def _read_idx_files(files: dict[str, Path], entry: Entry) -> Splits | None:
    splits = {}
    for split, prefix in (("train", "train"), ("test", "t10k")):
        images_file = _idx_file(files, f"{prefix}-images-idx3-ubyte")
        labels_file = _idx_file(files, f"{prefix}-labels-idx1-ubyte")
        if images_file is None or labels_file is None:
            return None
        splits[split] = (read_idx(images_file), read_idx(labels_file))
    return splits


def _idx_file(files: dict[str, Path], name: str) -> Path | None:
    """Return the file of a name in one of the spellings in which it is published."""
    spellings = (name, f"{name}.gz", name.replace("-idx", ".idx"))
    return next((files[spelling] for spelling in spellings if spelling in files), None)


def read_idx(path: Path) -> Array:
    """Read an IDX file of unsigned bytes, gzipped or not: magic 0x0000 08 ndim, sizes as big-endian int32, values."""
    with path.open("rb") as file:
        is_gzipped = file.read(2) == b"\x1f\x8b"
    with gzip.open(path) if is_gzipped else path.open("rb") as file:
        head = file.read(4)
        if len(head) < 4 or head[:3] != b"\0\0\x08":
            raise ValueError(f"{path.name} is no IDX file of unsigned bytes")
        shape = tuple(np.frombuffer(file.read(4 * head[3]), ">i4").tolist())
        count = math.prod(shape)
        if len(shape) != head[3] or min(shape, default=0) < 0 or count > MOST_BYTES:
            raise ValueError(f"{path.name} announces shape {shape}, which no data set here has")
        data = file.read(count + 1)  # however much a gzipped file would give
    if len(data) != count:
        n_values = "more" if len(data) > count else len(data)
        raise ValueError(f"{path.name} announces shape {shape} and holds {n_values} values")
    return np.frombuffer(data, np.uint8).reshape(shape)


def _read_bytes(path: Path) -> bytes:
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path.name} has more than {MOST_BYTES:,} bytes")
    return path.read_bytes()


_CIFAR = {  # files of each split, and the key of the labels
    "cifar10": ({"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}, b"labels"),
    "cifar100": ({"train": ["train"], "test": ["test"]}, b"fine_labels"),
}


def _read_batches(files: dict[str, Path], entry: Entry) -> Splits | None:
    """Read CIFAR's Python form, from its folder or from the published archive."""
    if entry.name not in _CIFAR:
        return None
    names_by_split, label_key = _CIFAR[entry.name]
    contents = _read_contents(files, {name for names in names_by_split.values() for name in names})
    if contents is None:
        return None
    if entry.md5:
        for name, content in contents.items():
            if hashlib.md5(content, usedforsecurity=False).hexdigest() != entry.md5[name]:
                raise ValueError(f"{name} has not the published MD5")
    return {
        split: _join_batches([_read_batch(contents[name], name, label_key) for name in names])
        for split, names in names_by_split.items()
    }


def _read_contents(files: dict[str, Path], names: set[str]) -> dict[str, bytes] | None:
    """Return the bytes of files by name, from the archive where a file is not there; None if one is in neither."""
    contents = {name: _read_bytes(files[name]) for name in sorted(names) if name in files}
    archive = next((path for name, path in files.items() if name.endswith("-python.tar.gz")), None)
    if archive is not None:
        contents |= _read_members(archive, names - contents.keys())
    if contents.keys() != names:
        return None
    return contents


def _join_batches(batches: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return images (n, 32, 32, 3) and labels of several batches."""
    images = np.concatenate([images for images, _ in batches])
    labels = np.concatenate([labels for _, labels in batches])
    return np.ascontiguousarray(images.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels


def _read_members(archive: Path, names: set[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of some members of an archive."""
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.rsplit("/", 1)[-1]
            if name not in names or member.size > MOST_BYTES:
                continue
            content = tar.extractfile(member)
            if content is not None:
                yield name, content.read()


def _read_batch(content: bytes, name: str, label_key: bytes) -> tuple[Array, Array]:
    """Return images (n, 3072) and labels of one batch; a pickle of anything else is refused."""
    batch = _PlainUnpickler(io.BytesIO(content), encoding="bytes").load()
    if not isinstance(batch, dict):
        raise ValueError(f"{name} holds no table of images and labels")
    images = batch.get(b"data")
    labels = batch.get(label_key)
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (3072,):
        raise ValueError(f"{name} holds no table of 3072 bytes an image")
    if not isinstance(labels, list) or len(labels) != len(images) or not all(type(label) is int for label in labels):
        raise ValueError(f"{name} holds no list of labels, one an image")
    return images, np.asarray(labels, np.uint8)


class _PlainUnpickler(pickle._Unpickler):  # the one in C makes room for whatever a memo announces
    """Reads what CIFAR's pickles are made of (dicts, lists, bytes, one array each) and refuses everything else."""

    def find_class(self, module: str, name: str) -> object:
        allowed = {"_reconstruct": "numpy.core.multiarray", "ndarray": "numpy", "dtype": "numpy"}
        if allowed.get(name) != module.replace("numpy._core", "numpy.core"):
            raise pickle.UnpicklingError(f"refused to load {module}.{name}")
        return {"_reconstruct": _empty_array, "ndarray": "ndarray", "dtype": np.dtype}[name]


def _empty_array(kind: object, *_: object) -> Array:
    """Return an empty array, into which a pickle puts the bytes that it has."""
    if kind != "ndarray":
        raise pickle.UnpicklingError("refused to make anything but an array")
    return np.empty(0, np.uint8)


def _read_sprites(files: dict[str, Path], entry: Entry) -> Splits | None:
    """Read PNG sprites, one image of 32×32 row-major RGB pixels a row, and a JSON list of labels per split."""
    names_by_split = {"train": [f"data_batch_{i}.png" for i in range(1, 6)], "test": ["test_batch.png"]}
    if entry.name != "cifar10" or not all(name in files for names in names_by_split.values() for name in names):
        return None
    splits = {}
    for split, names in names_by_split.items():
        images = np.concatenate([_read_sprite(files[name]) for name in names])
        labels = json.loads(_read_bytes(files[f"{split}_lables.json"]))  # the package's own spelling
        if not isinstance(labels, list) or not all(type(label) is int and 0 <= label < 256 for label in labels):
            raise ValueError(f"{split}_lables.json is no list of labels")
        splits[split] = (images, np.asarray(labels, np.uint8))
    return splits


def _read_sprite(path: Path) -> Array:
    """Read the images (n, 32, 32, 3) of a picture with n rows; its size is read before its pixels are."""
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

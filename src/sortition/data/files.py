"""Reading the published forms of image data: IDX files, CIFAR's Python batches, and sprites with JSON labels."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import pickle
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import DataError
from sortition.data.catalogue import Entry

Splits = dict[str, tuple[Array, Array]]  # "train" and "test" → images, labels, both uint8


def decode(folder: Path, entry: Entry) -> Splits | None:
    """The data set in whichever form ``folder`` holds it, at any depth; None if it holds none."""
    files = _files(folder)
    for read in (_idx, _batches, _sprites):
        try:
            splits = read(files, entry)
        except (OSError, EOFError, ValueError, KeyError, zlib.error, pickle.UnpicklingError, tarfile.TarError) as error:
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
    raw = path.read_bytes()
    data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"{path.name} is no IDX file of unsigned bytes")
    start = 4 + 4 * data[3]
    shape = tuple(np.frombuffer(data[4:start], ">i4").tolist())
    if len(data) - start != np.prod(shape, dtype=np.int64):
        raise ValueError(f"{path.name} announces shape {shape} and holds {len(data) - start} values")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def _batches(files: dict[str, Path], entry: Entry) -> Splits | None:
    """CIFAR's Python form, from its folder or from the published archive."""
    if entry.name == "cifar10":
        names, key = {"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]}, b"labels"
    elif entry.name == "cifar100":
        names, key = {"train": ["train"], "test": ["test"]}, b"fine_labels"
    else:
        return None
    wanted = {name for group in names.values() for name in group}
    found = {name: files[name].read_bytes() for name in wanted if name in files}
    if archive := next((path for name, path in files.items() if name.endswith("-python.tar.gz")), None):
        found |= _members(archive, wanted - found.keys())
    if found.keys() != wanted:
        return None
    splits = {}
    for split, group in names.items():
        for name in group:
            if entry.md5 and hashlib.md5(found[name], usedforsecurity=False).hexdigest() != entry.md5[name]:
                raise ValueError(f"{name} has not the published MD5")
        batches = [_Plain(io.BytesIO(found[name]), encoding="bytes").load() for name in group]
        images = np.concatenate([np.asarray(batch[b"data"], np.uint8) for batch in batches])
        labels = np.concatenate([np.asarray(batch[key], np.uint8) for batch in batches])
        splits[split] = (np.ascontiguousarray(images.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels)
    return splits


def _members(archive: Path, wanted: set[str]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.rsplit("/", 1)[-1]
            if name in wanted and (content := tar.extractfile(member)):
                yield name, content.read()


class _Plain(pickle.Unpickler):
    """Reads what CIFAR's pickles are made of (dicts, lists, bytes, one array each) and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = {"_reconstruct": "numpy.core.multiarray", "ndarray": "numpy", "dtype": "numpy"}
        if allowed.get(name) != module.replace("numpy._core", "numpy.core"):
            raise pickle.UnpicklingError(f"refused to load {module}.{name}")
        return np.empty(0).__reduce__()[0] if name == "_reconstruct" else getattr(np, name)


def _sprites(files: dict[str, Path], entry: Entry) -> Splits | None:
    """PNG sprites, one image of 32×32 row-major RGB pixels a row, and a JSON list of labels per split."""
    names = {"train": [f"data_batch_{i}.png" for i in range(1, 6)], "test": ["test_batch.png"]}
    if entry.name != "cifar10" or not all(name in files for group in names.values() for name in group):
        return None
    from PIL import Image  # only this form needs it

    splits = {}
    for split, group in names.items():
        rows = []
        for name in group:
            with Image.open(files[name]) as sprite:
                rows.append(np.asarray(sprite.convert("RGB")).reshape(-1, 32, 32, 3))
        labels = json.loads(files[f"{split}_lables.json"].read_text())  # the package's own spelling
        splits[split] = (np.concatenate(rows), np.asarray(labels, np.uint8))
    return splits

"""The published forms, written by hand here, are read as they are."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sortition.core.errors import DataError
from sortition.data.catalogue import CIFAR10, CIFAR100, MNIST, Entry
from sortition.data.image_files import decode


def idx(array: np.ndarray) -> bytes:
    return b"\0\0\x08" + bytes([array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape) + array.tobytes()


def put_idx(folder: Path, *, gz: bool = False) -> None:
    for split in ("train", "t10k"):
        images = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
        for name, array in (("images-idx3", images), ("labels-idx1", np.array([2, 0, 1], np.uint8))):
            raw = idx(array)
            (folder / f"{split}-{name}-ubyte{'.gz' if gz else ''}").write_bytes(gzip.compress(raw) if gz else raw)


def python_2_pickle(images: np.ndarray, labels: list[int], key: bytes = b"labels") -> bytes:
    """What CIFAR's files are: protocol 2 of Python 2, byte strings, numpy.core's _reconstruct."""
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    array += b"(K\x01K" + bytes([len(images)]) + b"M\x00\x0c\x86" + dtype + b"\x89"  # shape (n, 3072)
    array += b"T" + struct.pack("<i", images.size) + images.tobytes() + b"tb"
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(U\x04data" + array + b"U" + bytes([len(key)]) + key + listed + b"u."


def pixels(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 3072), dtype=np.uint8)


def put_batches(folder: Path) -> None:
    for i, name in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        (folder / name).write_bytes(python_2_pickle(pixels(2, i), [i, 9]))


@pytest.mark.parametrize("gz", [False, True])
def test_idx_files(tmp_path: Path, gz: bool) -> None:
    put_idx(tmp_path, gz=gz)
    splits = decode(tmp_path, MNIST)
    assert splits is not None
    assert splits["train"][0].tolist() == np.arange(12).reshape(3, 2, 2).tolist()
    assert splits["test"][1].tolist() == [2, 0, 1]


def test_cifar_batches_from_folder_and_from_archive(tmp_path: Path) -> None:
    folder, packed = tmp_path / "folder" / "cifar-10-batches-py", tmp_path / "packed"
    folder.mkdir(parents=True)
    packed.mkdir()
    put_batches(folder)
    with tarfile.open(packed / "cifar-10-python.tar.gz", "w:gz") as tar:
        tar.add(folder, "cifar-10-batches-py")
    for place in (folder.parent, packed):
        splits = decode(place, CIFAR10)
        assert splits is not None
        images, labels = splits["train"]
        assert images.shape == (10, 32, 32, 3)
        assert labels.tolist() == [0, 9, 1, 9, 2, 9, 3, 9, 4, 9]
        assert images[0, 0, 1, 2] == pixels(2)[0, 2 * 1024 + 1]  # planes of red, green, blue: row 0, column 1, blue


def test_cifar100_needs_the_published_files(tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / name).write_bytes(python_2_pickle(pixels(2), [99, 0], b"fine_labels"))
    with pytest.raises(DataError, match="published MD5"):
        decode(tmp_path, CIFAR100)
    unchecked = Entry(**{**vars(CIFAR100), "md5": {}})
    splits = decode(tmp_path, unchecked)
    assert splits is not None
    assert splits["train"][1].tolist() == [99, 0]


class _Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("exit 1",)


def test_a_pickle_that_wants_more_than_arrays_is_refused(tmp_path: Path) -> None:
    put_batches(tmp_path)
    (tmp_path / "test_batch").write_bytes(pickle.dumps({b"data": _Bomb()}))
    with pytest.raises(DataError, match="refused to load"):
        decode(tmp_path, CIFAR10)


def test_sprites(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (2, 1024, 3), dtype=np.uint8)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        Image.fromarray(rows).save(tmp_path / f"{name}.png")
    (tmp_path / "train_lables.json").write_text(json.dumps([3] * 10))
    (tmp_path / "test_lables.json").write_text(json.dumps([1, 2]))
    splits = decode(tmp_path, CIFAR10)
    assert splits is not None
    assert splits["train"][0].shape == (10, 32, 32, 3)
    assert splits["test"][0][1, 2, 5].tolist() == rows[1, 2 * 32 + 5].tolist()  # row 2, column 5 of a row-major image


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-3], lambda raw: b"\x1f\x8b" + raw, lambda raw: b"", lambda raw: raw + b"1"]
)
def test_damaged_idx_is_told(tmp_path: Path, damage: object) -> None:
    put_idx(tmp_path)
    file = tmp_path / "train-images-idx3-ubyte"
    file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
    with pytest.raises(DataError, match="cannot be read"):
        decode(tmp_path, MNIST)


def test_truncated_archive_is_told(tmp_path: Path) -> None:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        info = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
        content = os.urandom(100_000)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(raw.getvalue()[:50_000])
    with pytest.raises(DataError, match="cannot be read"):
        decode(tmp_path, CIFAR10)


def test_other_files_are_no_data_set(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("nothing here")
    assert decode(tmp_path, MNIST) is None
    assert decode(tmp_path, CIFAR10) is None

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortition.core.errors import InputError, StorageError
from sortition.core.streams import stream
from sortition.data.partitions import Partition, split

LABELS = np.arange(200) % 5


def dirichlet_partition(seed: int = 0) -> Partition:
    return split("dirichlet-sizes", LABELS, 12, stream(seed, "split"), alpha=0.3)


def test_digest_is_stable_and_tells_partitions_apart() -> None:
    # little-endian int64: sizes 2, 1, then indices 3, 1, 0
    assert Partition(([3, 1], [0])).digest == hashlib.sha256(struct.pack("<5q", 2, 1, 3, 1, 0)).hexdigest()
    assert Partition(([3, 1], [0])).digest != Partition(([3], [1, 0])).digest
    assert dirichlet_partition().digest == dirichlet_partition().digest != dirichlet_partition(1).digest


def test_label_counts_by_hand() -> None:
    assert Partition(([0, 1, 2], [4])).label_counts(np.array([1, 1, 0, 2, 2]), 3).tolist() == [[1, 2, 0], [0, 0, 1]]
    with pytest.raises(InputError, match="at least 5 long"):
        Partition(([4],)).label_counts(np.array([0]), 1)


def test_an_example_has_one_owner() -> None:
    with pytest.raises(InputError, match="each held by one client"):
        Partition(([0, 1], [1]))
    with pytest.raises(InputError, match="≥ 0"):
        Partition(([-1], [1]))


def test_saved_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "partition.npz"
    saved = Partition(dirichlet_partition().indices, ("a note",))
    saved.save(path)
    back = Partition.load(path)
    assert back.digest == saved.digest
    assert back.notes == ("a note",)
    assert [p.name for p in tmp_path.iterdir()] == ["partition.npz"]


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "partition.npz"
    dirichlet_partition().save(path)
    with np.load(path) as stored:
        arrays = dict(stored)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(StorageError, match="cannot be read"):
        Partition.load(path)
    np.savez(path, **(arrays | {"indices": arrays["indices"][::-1]}))
    with pytest.raises(StorageError, match="must have digest"):
        Partition.load(path)
    np.savez(path, **(arrays | {"format": np.array("other")}))
    with pytest.raises(StorageError, match="must be a 'sortition partition 1' file; got other"):
        Partition.load(path)
    with pytest.raises(StorageError, match="cannot be read"):
        Partition.load(tmp_path / "none.npz")
    with pytest.raises(StorageError, match="cannot be written"):
        dirichlet_partition().save(tmp_path / "no" / "folder.npz")


@given(st.floats(0, 0.99), st.integers(0, 20))
def test_holdout_splits_every_client(share: float, seed: int) -> None:
    whole = dirichlet_partition(seed % 3)
    train, validation = whole.holdout(share, seed)
    for all_rows, train_rows, validation_rows in zip(whole.indices, train.indices, validation.indices, strict=True):
        assert sorted([*train_rows, *validation_rows]) == sorted(all_rows)
        assert len(train_rows) >= 1
        wanted = int(np.floor(share * len(all_rows)))
        assert len(validation_rows) == (max(wanted, 1) if share > 0 and len(all_rows) >= 2 else 0)
    assert train.digest == whole.holdout(share, seed)[0].digest


def test_holdout_is_random_and_bounded() -> None:
    whole = Partition((np.arange(100),))
    assert whole.holdout(0.2, 0)[1].digest != whole.holdout(0.2, 1)[1].digest
    assert whole.holdout(0.2, stream(3, "x"))[1].sizes.tolist() == [20]
    with pytest.raises(InputError, match=r"holdout.share must be in \[0, 1\)"):
        whole.holdout(1.0, 0)


def test_a_given_partition_notes_once_what_no_client_holds(tmp_path: Path) -> None:
    file = str(tmp_path / "parts.npz")
    for size, notes in ((200, ()), (150, ("50 of 200 training examples are held by no client, and are not used.",))):
        Partition(tuple(np.array_split(np.arange(size), 4))).save(file)
        for _ in range(2):
            partition = split(file, LABELS, 4, stream(0, "split"))
            assert partition.notes == notes
            partition.save(file)


@pytest.mark.parametrize("given", [[0.5, 1.5], [True, False], [[0, 1]]], ids=str)
def test_indices_are_never_cut_to_whole_numbers(given):
    with pytest.raises(InputError, match=r"partition.indices must be whole numbers in one dimension; got"):
        Partition((given,))

from __future__ import annotations

import zipfile

import numpy as np
import pytest

from sortition.core import StorageError
from sortition.core.storage import snapshot


def test_round_trip(tmp_path):
    snapshot.save(tmp_path / "a.npz", {"x": np.arange(3)}, {"seed": 4})
    arrays, header = snapshot.load(tmp_path / "a.npz")
    assert arrays["x"].tolist() == [0, 1, 2]
    assert header == {"seed": 4, "format": snapshot.FORMAT}
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]  # no temporary file stays


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    snapshot.save(path, {"x": np.arange(3)}, {})
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshot.os, "fsync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        snapshot.save(path, {"x": np.arange(99)}, {})
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 torn"])
def test_foreign_and_torn_files(tmp_path, content):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(StorageError, match="is not a Sortition snapshot"):
        snapshot.load(tmp_path / "a.npz")


def test_pickles_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", header=np.array([{"format": 1}], dtype=object))
    with pytest.raises(StorageError, match="is not a Sortition snapshot"):
        snapshot.load(tmp_path / "a.npz")


def test_truncated_snapshot(tmp_path):
    path = tmp_path / "a.npz"
    snapshot.save(path, {"x": np.arange(1000)}, {})
    whole = path.read_bytes()
    for cut in range(0, len(whole) - 1, 97):
        path.write_bytes(whole[:cut])
        with pytest.raises(StorageError):
            snapshot.load(path)


def test_newer_formats_are_refused(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "FORMAT", 99)
        snapshot.save(tmp_path / "a.npz", {}, {})
    with pytest.raises(StorageError, match=r"has format 99; .* Update Sortition"):
        snapshot.load(tmp_path / "a.npz")


def test_missing_file(tmp_path):
    with pytest.raises(StorageError, match="does not exist"):
        snapshot.load(tmp_path / "none.npz")


def test_a_file_that_the_system_does_not_give_is_not_called_foreign(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    path = tmp_path / "file" / "a.npz"
    with pytest.raises(StorageError) as refusal:
        snapshot.load(path)
    assert str(refusal.value) == f"{path} cannot be read: Not a directory."


def test_a_header_that_is_absent_or_no_object_is_named(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(3))
    with pytest.raises(StorageError, match=r"is not a Sortition snapshot: it has no header\.$"):
        snapshot.load(path)
    np.savez(path, header=np.frombuffer(b"[1]", np.uint8))
    with pytest.raises(StorageError, match=r"is not a Sortition snapshot: its header is not a JSON object\.$"):
        snapshot.load(path)


def test_difference_in_words():
    assert (
        snapshot.describe_difference({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}) == "b was 2, is 3; c was absent, is 4"
    )


@pytest.mark.parametrize("flaw", ["version", "flags", "header", "shape"])
def test_what_zip_and_numpy_say_of_foreign_bytes_is_a_sentence(flaw, tmp_path):
    path = tmp_path / "snapshot.npz"
    snapshot.save(path, {"a": np.arange(3)}, {})
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02")
    if flaw == "version":
        data[entry + 6] = 255  # version needed to extract: NotImplementedError
    elif flaw == "flags":
        data[entry + 8] |= 32  # compressed patched data: NotImplementedError
    else:
        with zipfile.ZipFile(path, "w") as archive:
            shape = b"(1, ) " if flaw == "header" else b"(999999999999999,) "
            head = b"{'descr': '<i8', 'fortran_order': False, 'shape': " + shape
            head += b"(" if flaw == "header" else b"}"
            archive.writestr("header.npy", b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
        data = bytearray(path.read_bytes())
    path.write_bytes(data)
    with pytest.raises(StorageError, match="not a Sortition snapshot"):
        snapshot.load(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_flipped_bytes_of_any_compression(tmp_path, method):
    """A file with one flipped bit is read as it was, or refused with one message."""
    path = tmp_path / "a.npz"
    rng = np.random.default_rng(3)
    snapshot.save(path, {"x": np.arange(30)}, {"seed": 4})
    refused = 0
    with zipfile.ZipFile(path) as stored, zipfile.ZipFile(tmp_path / "b.npz", "w", method) as archive:
        for member in stored.namelist():
            archive.writestr(member, stored.read(member))
    whole = (tmp_path / "b.npz").read_bytes()
    for position in range(len(whole)):
        torn = bytearray(whole)
        torn[position] ^= 1 << rng.integers(8)
        path.write_bytes(torn)
        try:
            arrays, header = snapshot.load(path)
        except StorageError:
            refused += 1
            continue
        assert header == {"seed": 4, "format": snapshot.FORMAT}
        assert list(arrays) == ["x"]
        np.testing.assert_array_equal(arrays["x"], np.arange(30))
    assert refused > 50


@pytest.mark.parametrize("form", [-1, 0, True, 1.5, "1", None])
def test_formats_that_there_cannot_be(tmp_path, form, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "FORMAT", form)
        snapshot.save(tmp_path / "a.npz", {}, {})
    with pytest.raises(StorageError, match="has format"):
        snapshot.load(tmp_path / "a.npz")

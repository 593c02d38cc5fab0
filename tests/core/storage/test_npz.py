"""Honest files are read as numpy reads them; bombs and lies are refused before anything is allocated."""

import io
import threading
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sortition.core.storage.npz import ALWAYS_ALLOWED, read_npy, read_npz

KINDS = st.sampled_from(["<f8", ">f4", "<i8", "|u1", "|b1", "<U3"])


@given(KINDS.flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, min_side=0))), st.booleans())
def test_arrays_come_back(tmp_path_factory, array, turned):
    array = np.asfortranarray(array) if turned else array
    path = tmp_path_factory.mktemp("npz") / "a.npz"
    np.savez(path, a=array)
    np.save(path.with_suffix(".npy"), array)
    for back in (read_npz(path)["a"], read_npy(path.with_suffix(".npy"))):
        assert back.dtype == array.dtype
        np.testing.assert_array_equal(back, array)


def header(shape, kind="|u1"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
    return file.getvalue()


def peak(call, match):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=match):
            call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shape", [(10**12,), (10**9, 10**9), (-1,), (2**63, 2)])
def test_headers_that_lie(tmp_path, shape):
    path = tmp_path / "lie.npy"
    path.write_bytes(header(shape) + b"abc")
    assert peak(lambda: read_npy(path), "announces shape") < 1e7
    with zipfile.ZipFile(tmp_path / "lie.npz", "w") as archive:
        archive.write(path, "a.npy")
    assert peak(lambda: read_npz(tmp_path / "lie.npz"), "announces shape") < 1e7


def test_a_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("a.npy", "w", force_zip64=True) as file:
            file.write(header((ALWAYS_ALLOWED,)))
            for _ in range(9):
                file.write(bytes(1 << 20))
        member = archive.infolist()[0]
        member.file_size = 2 * ALWAYS_ALLOWED  # what a whole bomb would announce
    assert path.stat().st_size < 100_000
    assert peak(lambda: read_npz(path), "would unpack to") < 1e7


def test_python_objects_are_refused(tmp_path):
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="unpickled"):
        read_npy(tmp_path / "o.npy")


@pytest.mark.parametrize("kind", ["|S0", "<U0", "|V0"])
def test_texts_of_no_letters_have_a_length_too(tmp_path, kind):
    """Numpy gives each of them a byte or more, so a shape of 10¹² is not free."""
    path = tmp_path / "lie.npy"
    path.write_bytes(header((10**12,), kind) + b"abc")
    assert peak(lambda: read_npy(path), "announces shape") < 1e7


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_arrays_longer_than_a_piece_come_back(tmp_path, monkeypatch, write):
    monkeypatch.setattr("sortition.core.storage.npz.PIECE", 7)
    array = np.arange(100, dtype=np.int32).reshape(4, 25)
    write(tmp_path / "a.npz", x=array)
    np.testing.assert_array_equal(read_npz(tmp_path / "a.npz")["x"], array)


def test_a_member_that_is_no_array_is_refused(tmp_path):
    """One flipped bit of a name, such as x.npx for x.npy, would otherwise lose an array without a word."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npx", header((3,)) + b"abc")
    with pytest.raises(ValueError, match=r"x\.npx"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_member_with_more_bytes_than_its_array_is_refused(tmp_path, method):
    """One flipped bit of a header, such as shape (1,) for (3,), would otherwise cut an array off, checksum unread."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w", method) as archive:
        archive.writestr("x.npy", header((1,)) + b"abc")
    with pytest.raises(ValueError, match=r"x\.npy.*more bytes"):
        read_npz(tmp_path / "a.npz")


def test_an_archive_that_lists_fewer_members_than_it_counts_is_refused(tmp_path):
    """The length of the first member's comment, one bit too large, makes zipfile skip the second member."""
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(3), y=np.arange(3))
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 32] ^= 64
    path.write_bytes(content)
    with pytest.raises(ValueError, match="lists 1 members and counts 2"):
        read_npz(path)


def test_two_threads_do_not_parse_headers_at_once(tmp_path, monkeypatch):
    """CPython raises SystemError where two threads parse at once (gh-106905), which numpy does for each header."""
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(3))
    second_parses = threading.Event()
    parse = np.lib.format.read_array_header_1_0
    results = []
    second = threading.Thread(target=lambda: results.append(read_npz(path)))

    def parse_slowly(file, **options):
        if threading.current_thread() is second:
            second_parses.set()
        else:
            second.start()
            assert not second_parses.wait(timeout=0.2)
        return parse(file, **options)

    monkeypatch.setattr(np.lib.format, "read_array_header_1_0", parse_slowly)
    results.append(read_npz(path))
    second.join()
    assert second_parses.is_set()
    assert [arrays["x"].tolist() for arrays in results] == [[0, 1, 2], [0, 1, 2]]

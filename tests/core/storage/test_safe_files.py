"""Only regular files are read, at once, and no more of them than is sensible."""

import os
import tracemalloc

import pytest

from sortition.core.errors import StorageError
from sortition.core.storage.safe_files import read_lines, read_regular


def made(path, kind):
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path)
    return path


@pytest.mark.parametrize("kind", ["device", "pipe", "folder", "circle"])
def test_what_is_no_file_is_refused_at_once(tmp_path, kind):
    path = made(tmp_path / "a", kind)
    for read in (read_regular, lambda path: list(read_lines(path))):
        with pytest.raises(StorageError, match="cannot be read" if kind == "circle" else "must be a file; got a"):
            read(path)


def test_files_are_read_whole_and_by_lines(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"one\n\nthree\r\ntorn")
    assert read_regular(path) == path.read_bytes()
    assert list(read_lines(path)) == [b"one\n", b"\n", b"three\r\n", b"torn"]
    (tmp_path / "link").symlink_to(path)
    assert read_regular(tmp_path / "link") == path.read_bytes()


def test_a_file_of_holes_does_not_fill_the_memory(tmp_path):
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # no byte of it is on the disk
    with pytest.raises(StorageError, match="at most 1,000 bytes"):
        read_regular(path, 1000)
    with pytest.raises(StorageError, match="lines of at most 1,000 bytes"):
        list(read_lines(path, 1000))


def test_an_absent_file_is_the_callers(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        list(read_lines(tmp_path / "a"))
    (tmp_path / "b").write_text("")
    with pytest.raises(StorageError, match="cannot be read: Not a directory"):
        read_regular(tmp_path / "b" / "c")
    with pytest.raises(StorageError, match="cannot be read"):
        read_regular(tmp_path / "a\0b")


def test_a_small_file_takes_no_more_memory_than_it_needs(tmp_path):
    (tmp_path / "small.json").write_bytes(b"{}")
    tracemalloc.start()
    try:
        assert read_regular(tmp_path / "small.json", 1 << 32) == b"{}"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()

"""A journal is a file of its own folder; what is said of one that cannot be opened helps."""

import errno
import os

import pytest

from sortition.core.errors import StorageError
from sortition.core.storage.journal import Journal


def test_a_link_is_told_as_what_it_is(tmp_path):
    (tmp_path / "victim").write_text("a\n" * 9)
    (tmp_path / "a.jsonl").symlink_to(tmp_path / "victim")
    with pytest.raises(StorageError, match=r"a\.jsonl must be a file of this folder; got a link\. Remove it\.$"):
        Journal(tmp_path / "a.jsonl", 3)
    assert (tmp_path / "victim").read_text() == "a\n" * 9


def test_a_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "a.jsonl")
    with pytest.raises(StorageError, match="must be a file; got a folder, a device or a pipe"):
        Journal(tmp_path / "a.jsonl", 0)


def test_room_is_asked_for_only_where_it_is_missing(tmp_path, monkeypatch):
    for code, hint in ((errno.ENOSPC, "Resume when there is room."), (errno.EACCES, "denied.")):

        def refused(*_, code=code):
            raise OSError(code, os.strerror(code))

        with monkeypatch.context() as patch:
            patch.setattr(os, "ftruncate", refused)
            with pytest.raises(StorageError) as told:
                Journal(tmp_path / "a.jsonl", 0)
        assert str(told.value).endswith(hint)


def test_a_long_line_that_is_cut_is_not_read(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"one\ntwo\n")
    with path.open("r+b") as file:
        file.truncate(1 << 40)  # a hole
    journal = Journal(path, 2)
    assert journal.last_line == b"two"
    journal.close()
    assert path.read_bytes() == b"one\ntwo\n"


def test_of_a_line_that_was_written_in_part_nothing_stays(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    journal = Journal(path, 0)
    journal.append({"round": 0})

    def half(file, rest):
        file.write(rest[: len(rest) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("sortition.core.storage.journal.write_all", half)
        with pytest.raises(StorageError, match="Resume when there is room"):
            journal.append({"round": 1})
    journal.append({"round": 1})  # there is room again
    journal.close()
    assert path.read_text() == '{"round":0}\n{"round":1}\n'

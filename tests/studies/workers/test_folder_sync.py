import os

import pytest

from sortition.core.errors import StorageError
from sortition.core.storage.snapshot import write_atomically
from sortition.results import run_folder
from sortition.studies.workers import folder_sync
from sortition.studies.workers.folder_sync import FolderSender, Piece


def append(path, text):
    with path.open("ab") as file:
        file.write(text)


def test_journals_travel_as_their_new_bytes_and_the_rest_whole(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    sender = FolderSender(here)
    append(here / run_folder.ROUNDS, b"one\n")
    write_atomically(here / run_folder.CHECKPOINT, b"first")
    (here / ".lock").touch()
    folder_sync.put(there, sender.pieces())
    assert sender.pieces() == []
    append(here / run_folder.ROUNDS, b"two\n")
    write_atomically(here / run_folder.CHECKPOINT, b"other")  # as long as before
    new = sender.pieces()
    assert new == [Piece(run_folder.ROUNDS, 4, b"two\n"), Piece(run_folder.CHECKPOINT, 0, b"other")]
    folder_sync.put(there, new)
    assert {path.name: path.read_bytes() for path in there.iterdir()} == {
        run_folder.ROUNDS: b"one\ntwo\n",
        run_folder.CHECKPOINT: b"other",
    }


def test_what_counts_on_others_is_put_down_after_them(tmp_path):
    for name in (
        run_folder.SUMMARY,
        run_folder.CHECKPOINT,
        run_folder.CLIENTS,
        run_folder.CONFIG,
        run_folder.TIMINGS,
        run_folder.ROUNDS,
    ):
        (tmp_path / name).write_bytes(b"x")
    names = [piece.name for piece in FolderSender(tmp_path).pieces()]
    assert names[:2] == [run_folder.ROUNDS, run_folder.TIMINGS]
    assert names[-2:] == [run_folder.CHECKPOINT, run_folder.SUMMARY]


def test_a_journal_that_was_cut_is_sent_anew(tmp_path):
    sender, journal = FolderSender(tmp_path), tmp_path / run_folder.TIMINGS
    append(journal, b"one\ntwo\n")
    sender.pieces()
    os.truncate(journal, 4)
    assert sender.pieces() == [Piece(run_folder.TIMINGS, 0, b"one\n")]


def test_a_packed_run_is_no_longer_finished_or_failed(tmp_path):
    for name in (run_folder.ROUNDS, run_folder.SUMMARY, run_folder.FAILURE):
        (tmp_path / name).write_bytes(b"x")
    assert [piece.name for piece in folder_sync.pack(tmp_path)] == [run_folder.ROUNDS]
    assert not (tmp_path / run_folder.SUMMARY).exists()
    assert folder_sync.pack(tmp_path / "nothing") == []


def test_a_later_piece_replaces_what_the_caller_has_beyond_it(tmp_path):
    (tmp_path / run_folder.ROUNDS).write_bytes(b"one\ntorn")
    folder_sync.put(tmp_path, [Piece(run_folder.ROUNDS, 4, b"two\n")])
    assert (tmp_path / run_folder.ROUNDS).read_bytes() == b"one\ntwo\n"
    with pytest.raises(StorageError, match="shorter than what was received"):
        folder_sync.put(tmp_path, [Piece(run_folder.ROUNDS, 99, b"x")])

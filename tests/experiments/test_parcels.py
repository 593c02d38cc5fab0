import os

import pytest

from sortition.core.errors import StorageError
from sortition.core.snapshot import write_atomically
from sortition.experiments import parcels, records
from sortition.experiments.parcels import Piece, Sender


def append(path, text):
    with path.open("ab") as file:
        file.write(text)


def test_journals_travel_as_their_new_bytes_and_the_rest_whole(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    sender = Sender(here)
    append(here / records.ROUNDS, b"one\n")
    write_atomically(here / records.CHECKPOINT, b"first")
    (here / ".lock").touch()
    parcels.put(there, sender.pieces())
    assert sender.pieces() == []
    append(here / records.ROUNDS, b"two\n")
    write_atomically(here / records.CHECKPOINT, b"other")  # as long as before
    new = sender.pieces()
    assert new == [Piece(records.ROUNDS, 4, b"two\n"), Piece(records.CHECKPOINT, 0, b"other")]
    parcels.put(there, new)
    assert {path.name: path.read_bytes() for path in there.iterdir()} == {
        records.ROUNDS: b"one\ntwo\n",
        records.CHECKPOINT: b"other",
    }


def test_what_counts_on_others_is_put_down_after_them(tmp_path):
    for name in (records.SUMMARY, records.CHECKPOINT, records.CLIENTS, records.CONFIG, records.TIMINGS, records.ROUNDS):
        (tmp_path / name).write_bytes(b"x")
    names = [piece.name for piece in Sender(tmp_path).pieces()]
    assert names[:2] == [records.ROUNDS, records.TIMINGS]
    assert names[-2:] == [records.CHECKPOINT, records.SUMMARY]


def test_a_journal_that_was_cut_is_sent_anew(tmp_path):
    sender, journal = Sender(tmp_path), tmp_path / records.TIMINGS
    append(journal, b"one\ntwo\n")
    sender.pieces()
    os.truncate(journal, 4)
    assert sender.pieces() == [Piece(records.TIMINGS, 0, b"one\n")]


def test_a_packed_run_is_no_longer_finished_or_failed(tmp_path):
    for name in (records.ROUNDS, records.SUMMARY, records.FAILURE):
        (tmp_path / name).write_bytes(b"x")
    assert [piece.name for piece in parcels.pack(tmp_path)] == [records.ROUNDS]
    assert not (tmp_path / records.SUMMARY).exists()
    assert parcels.pack(tmp_path / "nothing") == []


def test_a_later_piece_replaces_what_the_caller_has_beyond_it(tmp_path):
    (tmp_path / records.ROUNDS).write_bytes(b"one\ntorn")
    parcels.put(tmp_path, [Piece(records.ROUNDS, 4, b"two\n")])
    assert (tmp_path / records.ROUNDS).read_bytes() == b"one\ntwo\n"
    with pytest.raises(StorageError, match="shorter than what was received"):
        parcels.put(tmp_path, [Piece(records.ROUNDS, 99, b"x")])

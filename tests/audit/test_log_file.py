"""A federation's log: cut where it goes on, revealed at its end, audited by what was revealed."""

import json
import subprocess
import sys

import numpy as np
import pytest
from tests.helpers.playing import play_rounds
from tests.test_cli import call

from sortition import __version__
from sortition.audit import hash_chain
from sortition.audit.entry_writer import commit_to_seed
from sortition.audit.log_file import LogFile
from sortition.core import InputError, Population, Reading, Registrar, StorageError
from sortition.core.storage.lock import is_locked
from sortition.selectors import load
from sortition.studies.audit.audit_run import examine_log


def losses(turn):
    ids = turn.question.ids
    return Reading(ids, (ids * 7.0 + turn.index) % 5)


def federation(path, name="power-of-choice", rounds=4):
    registrar, book = Registrar(load(name), Population(np.arange(1, 21)), seed=11), LogFile(path)
    book.watch(registrar)
    play_rounds(registrar, rounds, budget=4, answer=losses)
    return registrar, book


def test_it_is_revealed_at_the_end_and_holds(tmp_path):
    path = tmp_path / "audit.jsonl"
    _, book = federation(path)
    assert "seed" not in path.read_text()
    revealed = json.loads(book.reveal().read_text())
    header = json.loads(path.read_text().splitlines()[0])
    assert commit_to_seed(bytes.fromhex(revealed["salt"]), 11) == header["commitment"]
    assert revealed["entries"] == 5
    assert "1 log holds" in call("audit", path)


def test_before_that_it_is_partly_checked(tmp_path):
    path = tmp_path / "audit.jsonl"
    _, book = federation(path, "uniform")
    book.sync()
    said = call("audit", path, code=3)
    assert "in progress: 4 rounds" in said
    assert "seed and salt are not disclosed yet" in said
    book.close()
    with path.open("ab") as file:
        file.write(b'{"entry":5,"prev')  # as a crash leaves it
    found = examine_log(path)
    assert (found.faults, found.verdict, found.rounds) == ([], "partly", 4)


def test_another_seed_and_another_cohort_are_found(tmp_path):
    path = tmp_path / "audit.jsonl"
    _, book = federation(path, "uniform")
    beside = book.reveal()
    told = json.loads(beside.read_text())
    beside.write_text(json.dumps({**told, "seed": 12}))
    assert "not the one that the log committed to" in call("audit", path, code=1)
    beside.write_text(json.dumps({**told, "facts": {"sizes": [1] * 20}}))
    assert "do not have the digest" in call("audit", path, code=1)
    beside.write_text(json.dumps({key: told[key] for key in ("seed", "salt", "final", "entries")}))
    assert "reads facts of clients, which were not disclosed" in call("audit", path, code=3)
    for types in ({}, {"sizes": "S1000000000"}, {"sizes": "O"}):
        beside.write_text(json.dumps({**told, "types": types}))
        assert "cannot be used" in call("audit", path, code=1)
    beside.write_text("[]")
    assert "is damaged" in call("audit", path, code=1)
    beside.write_text(json.dumps(told))
    path.write_bytes(path.read_bytes().replace(b'"budget":4', b'"budget":3', 1))
    assert "Line 2 was altered" in call("audit", path, code=1)


def test_it_goes_on_after_a_crash(tmp_path):
    whole, path = tmp_path / "whole.jsonl", tmp_path / "audit.jsonl"
    registrar, book = Registrar(load("uniform"), Population(np.arange(1, 21)), seed=11), LogFile(whole, salt=bytes(32))
    book.watch(registrar)
    play_rounds(registrar, 4, budget=4, answer=losses)
    book.reveal()
    registrar, book = Registrar(load("uniform"), Population(np.arange(1, 21)), seed=11), LogFile(path, salt=bytes(32))
    book.watch(registrar)
    play_rounds(registrar, 2, budget=4, answer=losses)
    book.sync()
    registrar.save(tmp_path / "saved.npz")
    play_rounds(registrar, 1, budget=4, answer=losses)  # lost with the server
    book.reveal()
    registrar, book = (
        Registrar.load(tmp_path / "saved.npz", load("uniform"), Population(np.arange(1, 21))),
        LogFile(path, salt=bytes(32)),
    )
    book.watch(registrar)
    play_rounds(registrar, 2, budget=4, answer=losses)
    book.reveal()
    assert path.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("joined", ["before the stop", "after it"])
def test_clients_that_joined_around_a_restart_are_in_the_log(tmp_path, joined):
    path, twice = tmp_path / "audit.jsonl", Population(np.arange(1, 41))
    registrar, book = federation(path, "by-size", rounds=2)
    if joined == "before the stop":
        registrar.join(twice)
    book.sync()
    registrar.save(tmp_path / "saved.npz")
    book.close()
    for _ in range(2):  # restarted a second time, the population is the one of the log
        book = LogFile(path, salt=book.salt)
        registrar = Registrar.load(tmp_path / "saved.npz", load("by-size"), twice)
        book.watch(registrar)
        registrar.finish(registrar.begin(np.arange(40), 4))
        book.sync()
        registrar.save(tmp_path / "saved.npz")
        book.close()
    book.watch(registrar)
    book.reveal()
    assert ["joined" in json.loads(line) for line in path.read_text().splitlines()] == [False] * 3 + [True, False]
    assert "1 log holds" in call("audit", path)


def test_clients_that_join_while_a_round_is_in_flight_count_from_the_next_line(tmp_path):
    path = tmp_path / "audit.jsonl"
    registrar, book = federation(path, "by-size", rounds=1)
    turn = registrar.begin(np.arange(10), 4)
    registrar.dispatch(turn)
    registrar.join(Population(np.arange(1, 41)))
    registrar.finish(turn)
    registrar.finish(registrar.begin(np.arange(40), 4))
    book.reveal()
    assert ["joined" in json.loads(line) for line in path.read_text().splitlines()] == [False] * 3 + [True]
    assert "1 log holds" in call("audit", path)


def test_a_run_that_died_in_its_first_round_goes_on(tmp_path):
    path = tmp_path / "audit.jsonl"
    registrar, book = federation(path, "by-size", rounds=0)
    registrar.save(tmp_path / "saved.npz")
    play_rounds(registrar, 1, budget=4, answer=losses)  # lost with the server
    book.sync()
    book.close()
    again = Registrar.load(tmp_path / "saved.npz", load("by-size"), Population(np.arange(1, 21)))
    with pytest.raises(StorageError, match="must be new for a run that begins"):
        LogFile(path).watch(again)  # without its salt it is the log of another run
    book = LogFile(path, salt=book.salt)
    book.watch(again)
    play_rounds(again, 2, budget=4, answer=losses)
    book.reveal()
    assert len(path.read_text().splitlines()) == 3
    assert "1 log holds" in call("audit", path)
    with pytest.raises(StorageError, match="must be new for a run that begins"):  # it is over
        book.watch(Registrar(load("by-size"), Population(np.arange(1, 21)), seed=11))


def test_its_folder_is_made(tmp_path):
    path = tmp_path / "new" / "folder" / "audit.jsonl"
    federation(path)[1].reveal()
    assert "1 log holds" in call("audit", path)
    with pytest.raises(StorageError, match=r"audit.jsonl/x.jsonl could not be written: "):
        federation(path / "x.jsonl")


def test_a_lost_log_is_a_sentence(tmp_path):
    registrar, book = federation(tmp_path / "audit.jsonl", "uniform")
    book.reveal()
    (tmp_path / "audit.jsonl").unlink()
    with pytest.raises(StorageError, match="has 0 whole lines, fewer than the 5 of its checkpoint"):
        LogFile(tmp_path / "audit.jsonl").watch(registrar)
    with pytest.raises(InputError):
        call("audit", tmp_path / "nothing")


def test_a_run_that_begins_does_not_wipe_a_log(tmp_path):
    path = tmp_path / "audit.jsonl"
    _, book = federation(path, "uniform")
    book.reveal()
    before = path.read_bytes()
    with pytest.raises(StorageError, match=r"must be new for a run that begins; got a log of .* Give another path"):
        federation(path, "uniform")
    assert path.read_bytes() == before
    assert not is_locked(path)


HOLD = """
import sys, numpy
from sortition.core import Population, Registrar
from sortition.audit.log_file import LogFile
from sortition.selectors import load
book = LogFile(sys.argv[1])
book.watch(Registrar(load("uniform"), Population(numpy.ones(4))))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_server_is_refused_until_the_first_is_gone(tmp_path):
    path = tmp_path / "audit.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout.readline() == "held\n"
        with pytest.raises(StorageError, match="is in use by another server"):
            federation(path, "uniform")
        first.kill()
    assert len(path.read_bytes().splitlines()) == 1  # its header
    assert not is_locked(path)  # the lock died with it
    with pytest.raises(StorageError, match="must be new"):
        federation(path, "uniform")


def test_a_logbook_that_is_closed_or_forgotten_gives_its_file_back(tmp_path):
    _, book = federation(tmp_path / "audit.jsonl", "uniform")
    assert is_locked(tmp_path / "audit.jsonl")
    book.close()
    assert not is_locked(tmp_path / "audit.jsonl")
    book = LogFile(tmp_path / "other.jsonl")
    book._lock(0)
    del book
    assert not is_locked(tmp_path / "other.jsonl")
    assert not is_locked(tmp_path / "nothing")


def rehashed(path, change):
    """The log with its header changed, and the right hashes; the last one of them."""
    last, made = hash_chain.START, []
    for number, line in enumerate(path.read_bytes().splitlines()):
        entry = {key: value for key, value in json.loads(line).items() if key not in ("entry", "previous", "hash")}
        made_line, last = hash_chain.seal(number, last, entry if number else {**entry, **change})
        made.append(made_line)
    path.write_bytes(b"".join(made))
    return last


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "The log has format 99; this version reads format 1. Update Sortition."),
        ({"format": None}, "The log has format None"),
        ({"format": True}, "The log has format True"),
        ({"clients": 10**15}, "cannot be used: 1000000000000000 clients"),
    ],
)
def test_a_header_of_another_make_is_found(tmp_path, change, message):
    path = tmp_path / "audit.jsonl"
    beside = federation(path, "uniform")[1].reveal()
    final = rehashed(path, change)
    beside.write_text(json.dumps({**json.loads(beside.read_text()), "final": final}))
    assert message in examine_log(path).faults[0]


def test_a_log_that_was_cut_short_is_found_without_its_last_hash(tmp_path):
    path = tmp_path / "audit.jsonl"
    beside = federation(path, "uniform")[1].reveal()
    told = json.loads(beside.read_text())
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    beside.write_text(json.dumps({**told, "final": None}))
    assert examine_log(path).faults == [
        "What was disclosed lacks 'final'.",
        "5 entries were announced at the end; the log has 4.",
    ]
    beside.write_text(json.dumps({key: value for key, value in told.items() if key not in ("final", "entries")}))
    assert len(examine_log(path).faults) == 2


@pytest.mark.parametrize(("version", "verdict"), [("0.0.9", "other version"), (__version__, "DIFFERS")])
def test_choices_of_another_version_may_differ(tmp_path, version, verdict):
    """A log of before, whose code chose differently: said so, and neither a pass nor a fault."""
    path = tmp_path / "audit.jsonl"
    beside = federation(path, "uniform")[1].reveal()
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    lines[0]["versions"]["sortition"] = version
    lines[3]["cohort"] = lines[3]["cohort"][::-1]
    last, made = hash_chain.START, []
    for number, entry in enumerate(lines):
        rest = {key: value for key, value in entry.items() if key not in ("entry", "previous", "hash")}
        line, last = hash_chain.seal(number, last, rest)
        made.append(line)
    path.write_bytes(b"".join(made))
    beside.write_text(json.dumps({**json.loads(beside.read_text()), "final": last}))
    found = examine_log(path)
    assert (found.verdict, found.n_recomputed) == (verdict, 2)
    said = "made by version 0.0.9; choices may differ. Round 2: the cohort should be"
    assert any(remark.startswith(said) for remark in found.remarks) == (version == "0.0.9")

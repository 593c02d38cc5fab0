"""A federation's log: cut where it goes on, revealed at its end, audited by what was revealed."""

import json

import numpy as np
import pytest
from tests.test_cli import call

from sortition.core import InputError, Population, Reading, Registrar, StorageError
from sortition.core.audit import commitment
from sortition.core.logbook import Logbook
from sortition.selectors import load


def played(registrar, rounds):
    for _ in range(rounds):
        turn = registrar.begin(np.arange(20), 4)
        while turn.question is not None:
            ids = turn.question.ids
            turn.answer(Reading(ids, (ids * 7.0 + turn.index) % 5))
        registrar.finish(turn)


def federation(path, name="power-of-choice", rounds=4):
    registrar, book = Registrar(load(name), Population(np.arange(1, 21)), seed=11), Logbook(path)
    book.watch(registrar)
    played(registrar, rounds)
    return registrar, book


def test_it_is_revealed_at_the_end_and_holds(tmp_path):
    path = tmp_path / "audit.jsonl"
    _, book = federation(path)
    assert "seed" not in path.read_text()
    revealed = json.loads(book.reveal().read_text())
    header = json.loads(path.read_text().splitlines()[0])
    assert commitment(bytes.fromhex(revealed["salt"]), 11) == header["commitment"]
    assert revealed["entries"] == 5
    assert "1 log holds" in call("audit", path)


def test_before_that_it_is_partly_checked(tmp_path):
    path = tmp_path / "audit.jsonl"
    _, book = federation(path, "uniform")
    book.sync()
    assert "seed and salt are not revealed yet" in call("audit", path, code=1)
    book.reveal()


def test_another_seed_and_another_cohort_are_found(tmp_path):
    path = tmp_path / "audit.jsonl"
    _, book = federation(path, "uniform")
    beside = book.reveal()
    told = json.loads(beside.read_text())
    beside.write_text(json.dumps({**told, "seed": 12}))
    assert "not the one that the log committed to" in call("audit", path, code=1)
    beside.write_text(json.dumps({**told, "facts": {"sizes": [1] * 20}}))
    assert "have not the digest" in call("audit", path, code=1)
    beside.write_text(json.dumps({key: told[key] for key in ("seed", "salt", "final")}))
    assert "reads facts of clients, which were not revealed" in call("audit", path, code=1)
    beside.write_text(json.dumps(told))
    path.write_bytes(path.read_bytes().replace(b'"budget":4', b'"budget":3', 1))
    assert "Line 2 was altered" in call("audit", path, code=1)


def test_it_goes_on_after_a_crash(tmp_path):
    whole, path = tmp_path / "whole.jsonl", tmp_path / "audit.jsonl"
    registrar, book = Registrar(load("uniform"), Population(np.arange(1, 21)), seed=11), Logbook(whole, salt=bytes(32))
    book.watch(registrar)
    played(registrar, 4)
    book.reveal()
    registrar, book = Registrar(load("uniform"), Population(np.arange(1, 21)), seed=11), Logbook(path, salt=bytes(32))
    book.watch(registrar)
    played(registrar, 2)
    book.sync()
    registrar.save(tmp_path / "saved.npz")
    played(registrar, 1)  # lost with the server
    book.reveal()
    registrar, book = (
        Registrar.load(tmp_path / "saved.npz", load("uniform"), Population(np.arange(1, 21))),
        Logbook(path, salt=bytes(32)),
    )
    book.watch(registrar)
    played(registrar, 2)
    book.reveal()
    assert path.read_bytes() == whole.read_bytes()


def test_a_lost_log_is_a_sentence(tmp_path):
    registrar, book = federation(tmp_path / "audit.jsonl", "uniform")
    book.reveal()
    (tmp_path / "audit.jsonl").unlink()
    with pytest.raises(StorageError, match="has 0 whole lines, fewer than the 5 of its checkpoint"):
        Logbook(tmp_path / "audit.jsonl").watch(registrar)
    with pytest.raises(InputError):
        call("audit", tmp_path / "nothing")

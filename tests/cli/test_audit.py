import json
import shutil

import numpy as np
import pytest
import tomli_w
from tests.studies.tables import small
from tests.test_cli import call

from sortition.audit import hash_chain
from sortition.audit.log_file import LogFile
from sortition.core import Guards, Population, Registrar
from sortition.core.errors import InputError, StorageError
from sortition.results import run_folder
from sortition.selectors import load
from sortition.studies.audit import explain


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audited")
    file = folder / "study.toml"
    file.write_text(tomli_w.dumps(small(seeds=1, devices={"dropout": 0.3})))
    call("run", file, "-o", folder / "runs", "-j", 1, "-q")
    return folder / "runs"


def test_audit_says_that_all_is_well(out):
    output = call("audit", out)
    assert output.count("holds") == 2
    assert "2 logs hold: chains, seeds, records and choices agree." in output
    assert "Believed where answers are as logged: what clients answered and reported, who completed" in output
    assert "Believed" not in call("audit", out, "--replay")


def test_audit_leaves_with_code_1_and_says_where(out, tmp_path):
    shutil.copytree(out, tmp_path / "runs")
    path = run_folder.find(tmp_path / "runs")[0].path / run_folder.AUDIT
    path.write_bytes(path.read_bytes().replace(b'"budget":3', b'"budget":2', 1))
    output = call("audit", tmp_path / "runs", code=1)
    assert "main/uniform/seed-0: Line 2 was altered" in output
    assert "rounds 0 to 5 were not recomputed: the log is broken." in output


def test_one_run_that_fails_leaves_the_table_of_the_others(out, tmp_path):
    shutil.copytree(out, tmp_path / "runs")
    gone, damaged = (run.path for run in run_folder.find(tmp_path / "runs"))
    (gone / run_folder.AUDIT).unlink()
    output = call("audit", tmp_path / "runs", code=1)
    assert output.count("holds") == 1
    assert "main/uniform/seed-0: The audit log is missing, though the run was made with one." in output
    (damaged / run_folder.MANIFEST).write_text('{"format": 99}')
    output = call("audit", tmp_path / "runs", code=1)
    assert output.count("DIFFERS") == 2
    assert "manifest.json has format 99" in output


def test_an_unfinished_run_leaves_with_code_3(out, tmp_path):
    shutil.copytree(out, tmp_path / "runs")
    (run_folder.find(tmp_path / "runs")[0].path / run_folder.SUMMARY).unlink()
    output = call("audit", tmp_path / "runs", code=3)
    assert "unfinished: 6 of 6 rounds: how it ends cannot be checked yet." in output
    assert output.count("holds") == 1


def test_a_reason_is_always_given(out, tmp_path):
    shutil.copytree(out, tmp_path / "runs")
    path = run_folder.find(tmp_path / "runs")[0].path / run_folder.CONFIG
    path.write_text(path.read_text().replace('name = "digits"', 'name = "nowhere"'))
    output = call("audit", tmp_path / "runs", code=1)
    assert "rounds 0 to 5 were not recomputed: the run cannot be replayed." in output


def test_why_one_client(out):
    run = run_folder.find(out)[1]
    entry = next(one for one in run.records if one["answered"] is not None)
    chosen, lost = entry["cohort"], set(entry["cohort"]) - set(entry["answered"])
    for client in chosen:
        said = call("why", run.path, "--round", entry["round"], "--client", client)
        assert f"Client {client} was one of {entry['available']} clients available" in said
        assert "It was asked for loss and answered" in said
        assert "It was chosen, as one of" in said
        assert ("It did not complete" in said) == (client in lost)
        assert "Before, it was available in" in said


def test_why_those_who_were_not_chosen(out):
    run = run_folder.find(out)[1]
    there = run.federation()["availability"][2]
    absent = next(k for k in range(12) if not there[k])
    assert f"Client {absent} was not available in round 2" in call("why", run.path, "--round", 2, "--client", absent)
    left = next(k for k in range(12) if there[k] and k not in run.records[2]["cohort"])
    assert "It was not chosen; PowerOfChoice chose" in call("why", run.path, "--round", 2, "--client", left)


def test_why_says_what_speed_and_payments_did(tmp_path):
    file = tmp_path / "study.toml"
    devices = {"speed": 40.0, "speed_spread": 1.5, "jitter": 0.1}
    study = small(seeds=1, rounds=24, availability="always", devices=devices, method=[{"name": "auto"}])
    file.write_text(tomli_w.dumps(study))
    call("run", file, "-o", tmp_path / "runs", "-j", 1, "-q")
    run = run_folder.find(tmp_path / "runs")[0]
    kinds = set()
    for record in run.records:
        notes = record["notes"]
        lines = call("why", run.path, "--round", record["round"]).splitlines()
        speed = next(line for line in lines if line.startswith("Speed: "))
        payments = [line for line in lines if line.startswith("Payments: ")]
        kinds.add((min(notes["too_slow"], 2), min(notes["due"], 2)))
        if notes["too_slow"]:
            clients = "client was" if notes["too_slow"] == 1 else "clients were"
            assert speed.startswith(f"Speed: {notes['too_slow']} available {clients} passed over, expected to take")
        else:
            assert speed.startswith("Speed: nobody was passed over as too slow; the slowest is expected to take ")
        assert speed.endswith(f" {notes['seconds']:.4g} s.")
        assert len(payments) == bool(notes["due"])
        if notes["due"]:
            members = "member" if notes["due"] == 1 else "members"
            assert payments == [
                f"Payments: {notes['due']} {members} had waited so long that the method had to choose them now."
            ]
        method_notes = next(line for line in lines if line.startswith("The method noted: "))
        assert "too slow" not in method_notes
        assert "by = labels" in method_notes
    assert {slower for slower, _ in kinds} >= {0, 2}
    assert explain.note_sentences({"seconds": 2.5, "too_slow": 1, "due": 0}) == [
        "Speed: 1 available client was passed over, expected to take longer than 2.5 s."
    ]
    assert explain.note_sentences({"seconds": 2.5}) == ["The method noted: seconds = 2.5."]  # of another method


def test_why_a_whole_round(out):
    run = run_folder.find(out)[0]
    said = call("why", run.path, "--round", 0)
    assert said.startswith(
        f"Round 0: {run.records[0]['available']} of 12 clients were available; Uniform could take 3."
    )
    assert said.count("was chosen with weight") == len(run.records[0]["cohort"])


def test_unknown_rounds_clients_and_runs_are_sentences(out, tmp_path):
    run = run_folder.find(out)[0]
    with pytest.raises(InputError, match="--round must be 0 to 5, as this log has them; got 99"):
        call("why", run.path, "--round", 99)
    with pytest.raises(InputError, match="--client must be 0 to 11"):
        call("why", run.path, "--round", 1, "--client", 12)
    with pytest.raises(StorageError, match="has no audit log, and is no run's folder"):
        call("why", tmp_path, "--round", 1)


@pytest.fixture
def copied(out, tmp_path):
    """The run of power-of-choice, to tamper with."""
    shutil.copytree(run_folder.find(out)[1].path, tmp_path / "run")
    return tmp_path / "run"


def test_why_says_when_a_log_is_missing_empty_newer_or_broken(copied):
    path = copied / run_folder.AUDIT
    kept = path.read_bytes()
    path.write_bytes(kept.replace(b'"budget":3', b'"budget":9', 1))
    said = call("why", copied, "--round", 0)
    assert said.startswith("The log is broken, so what follows may be made up: Line 2 was altered")
    path.write_bytes(hash_chain.seal(0, hash_chain.START, {"format": 99, "selector": "a:B", "clients": 12})[0])
    with pytest.raises(StorageError, match="The log has format 99"):
        call("why", copied, "--round", 0)
    path.write_bytes(b"")
    with pytest.raises(StorageError, match="has no round yet"):
        call("why", copied, "--round", 0)
    path.unlink()
    with pytest.raises(StorageError, match="it is missing, though the run was made with one"):
        call("why", copied, "--round", 0)
    path.write_bytes(kept)
    (copied / run_folder.MANIFEST).write_text('{"format": 99}')
    with pytest.raises(StorageError, match=r"manifest\.json has format 99"):
        call("why", copied, "--round", 0)


@pytest.mark.parametrize(
    "change",
    [
        {"asked": 5},
        {"asked": [{}]},
        {"asked": [{"signal": "loss", "answers": {"values": "x", "dtype": "f4"}}]},
        {"asked": [{"signal": "loss", "answers": {"values": [1.0], "ids": [3], "dtype": None}}]},
        {"notes": [1]},
        {"notes": "abc"},
        {"notes": {"guards": 5}},
        {"joined": 5},
        {"rejected": [1]},
        {"blamed": 7},
        {"kept_out": {"quarantined": 3}},
        {"kept_out": 3},
        {"weights": "many"},
        {"cohort": {"n": 3}},
        {"available": None},
    ],
)
def test_why_of_a_log_of_another_make_is_a_sentence(copied, change):
    path = copied / run_folder.AUDIT
    last, made = hash_chain.START, []
    for number, line in enumerate(path.read_bytes().splitlines()):
        entry = {key: value for key, value in json.loads(line).items() if key not in ("entry", "previous", "hash")}
        text, last = hash_chain.seal(number, last, {**entry, **change} if number == 1 else entry)
        made.append(text)
    path.write_bytes(b"".join(made))
    log, told = explain.Log(path), []
    for ask in (
        lambda: explain.explain_cohort(log, 0),
        lambda: explain.explain_client(log, 0, 3),
        lambda: explain.explain_client(log, 1, 3),
    ):
        try:
            ask()
        except StorageError as error:  # and nothing else
            told.append(str(error))
    assert told
    assert all("audit log cannot be read" in text for text in told)


def test_why_names_the_guards_of_a_federation(tmp_path):
    guards = Guards(quarantine=2, strikes=1, quota=2, minimum=2)
    people = Population(np.ones(8), groups=np.array([0, 0, 0, 0, 1, 2, 3, 4]))
    registrar, book = Registrar(load("uniform"), people, seed=3, guards=guards), LogFile(tmp_path / "audit.jsonl")
    book.watch(registrar)
    turn = registrar.begin(np.arange(8), 3)
    bad = int(turn.cohort.ids[0])
    turn.blame({bad: "not finite"})
    registrar.finish(turn)
    turn = registrar.begin(np.arange(8), 3)
    thinned = next(k for k in range(4) if k != bad and k not in turn.round.available)
    registrar.finish(turn)
    registrar.finish(registrar.begin(sorted([bad, 7 if bad != 7 else 6]), 3))  # one is left: too few
    book.reveal()

    def said(t, *client):
        return call("why", tmp_path / "audit.jsonl", "--round", t, *(("--client", client[0]) if client else ()))

    held = "The guards held it in quarantine for unsound numbers in round 0, so Uniform could not choose it."
    assert f"Client {bad} was one of 8 clients available in round 1.\n{held}" in said(1, bad)
    assert "It was not chosen" not in said(1, bad)
    assert "The guards left it out by a random draw: its owner had more clients there than places, so Uniform" in said(
        1, thinned
    )
    few = "It was not chosen; nobody was, since the guards skip a round with so few clients (too few eligible: 1)"
    assert few in said(2, 7 if bad != 7 else 6)
    assert f"The guards kept out 1 in quarantine for unsound numbers of earlier rounds: {bad}." in said(1)
    assert "The guards noted: quarantined = 1; thinned = " in said(1)
    assert "The method noted: guards" not in said(1)
    assert "Before, it was available in 2 of 2 rounds, kept out by the guards in 1," in said(2, bad)


@pytest.mark.parametrize("command", ["audit", "why"])
def test_help_has_an_example(command):
    assert f"Example: sortition {command}" in call(command, "--help")

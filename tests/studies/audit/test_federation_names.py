"""Names of clients in ``why`` and ``audit``: from the history that names the log, a file, or what was disclosed."""

import json
import shutil

import pytest
from tests.results.histories import ROUNDS, record, written
from tests.studies.audit.federations import NAMES, SILENT, played
from tests.test_cli import call

from sortition.audit import hash_chain
from sortition.core.errors import InputError, StorageError
from sortition.studies.audit.audit_run import examine_log
from sortition.studies.audit.why import why


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("federation")
    played(folder)
    return folder


@pytest.fixture
def federation(made, tmp_path):
    """A copy to tamper with."""
    return shutil.copytree(made, tmp_path / "federation")


def round_with_silence(folder):
    lines = (folder / "run.npz.history.jsonl").read_text().splitlines()
    return next(record for record in map(json.loads, lines) if record["silent"])


def test_the_log_itself_holds_no_name(federation):
    for file in ("audit.jsonl", "audit.jsonl.reveal.json"):
        assert "hospital" not in (federation / file).read_text()


@pytest.mark.parametrize("source", ["audit.jsonl", "run.npz.history.jsonl", ""])
def test_a_client_is_asked_for_by_name_and_named(source, federation):
    t = round_with_silence(federation)["round"]
    said = call("why", federation / source, "--round", t, "--client", NAMES[SILENT])
    assert said.startswith(f"hospital-4 (id {SILENT}) was one of 5 clients available in round {t}.")
    assert "It was asked for loss and answered 3" in said  # what only the log knows
    assert "It did not answer before the round closed" in said  # what only the history knows
    assert said == call("why", federation / source, "--round", t, "--client", SILENT)


def test_a_whole_round_names_everybody(federation):
    record = round_with_silence(federation)
    said = call("why", federation / "audit.jsonl", "--round", record["round"])
    for client in record["cohort"]:
        assert f"{NAMES[client]} (id {client}) was chosen with weight" in said
    assert f"hospital-4 (id {SILENT}) was chosen with weight 0.3333; loss 3; silent." in said
    left = next(k for k in range(6) if k not in (*record["cohort"], record["round"]))
    said = call("why", federation, "--round", record["round"], "--client", left)
    assert "It was not chosen; PowerOfChoice chose hospital-" in said


def test_names_come_from_a_file_or_the_disclosure(tmp_path):
    log = played(tmp_path, names=[f"site-{k}" for k in range(6)])
    (tmp_path / "run.npz.about.json").unlink()
    assert why(log, 0, "site-2")[0].startswith("site-2 (id 2)")
    names = tmp_path / "names.json"
    names.write_text(json.dumps([f"clinic {k}" for k in range(6)]))
    assert why(log, 0, "clinic 2", names)[0].startswith("clinic 2 (id 2)")
    (tmp_path / "audit.jsonl.reveal.json").unlink()
    assert why(log, 0, "2")[0].startswith("Client 2")
    with pytest.raises(InputError, match="No names of clients are known here: --names gives a file of them"):
        why(log, 0, "site-2")


def test_damaged_files_beside_a_log_do_not_hide_it(federation):
    path = federation / "run.npz.history.jsonl"
    path.write_text(path.read_text().replace('"members":6', '"members":2').replace('"members": 6', '"members": 2'))
    said = why(federation / "audit.jsonl", 1, "2")
    assert said[0].startswith("What lies beside the log is not used: ")
    assert said[1].startswith("Client 2")


def test_damaged_names_of_a_disclosure_are_a_sentence(federation):
    (federation / "audit.jsonl.reveal.json").write_text('{"names": 3}')
    with pytest.raises(StorageError, match=r"audit.jsonl.reveal.json is damaged: names must be a list of texts"):
        why(federation / "run.npz.history.jsonl", 1, "2")


def test_a_history_answers_without_a_log_and_says_what_is_missing(tmp_path):
    written(tmp_path)

    def said(t, *client):
        return call("why", tmp_path / "run.npz", "--round", t, *client)

    whole = said(1)
    assert whole.startswith("Round 1: 4 of 4 clients were available; a round of PowerOfChoice is to use 2.")
    assert "hospital-2 (id 1) was chosen with weight 0.3333; not needed." in whole
    assert "hospital-11 (id 3) was chosen with weight 0.3333; silent." in whole
    assert "hospital-1 (id 0) was chosen with weight 0.3333." in whole
    assert "1 places stayed empty" in whole
    assert "Only an audit log could tell" in whole
    assert "4 clients were asked for loss; 3 answered." in said(0)
    assert "hospital-12 (id 4) was chosen with weight 0.5; failed: CUDA out of memory." in said(2)
    assert "came from hospital-11 (id 3): too late" in said(2)
    assert "Nobody was chosen." in said(3)

    assert "Its update was used." in said(1, "--client", "hospital-1")
    assert "It was not needed: the round closed" in said(1, "--client", "hospital-2")
    assert "It did not answer before the round closed" in said(1, "--client", "hospital-11")
    assert "It was not chosen; PowerOfChoice chose hospital-1 (id 0), " in said(1, "--client", "hospital-10")
    assert "Its program failed: CUDA out of memory." in said(2, "--client", "hospital-12")
    assert "The model that it sent could not be used: w is not finite." in said(2, "--client", "hospital-10")
    away = said(2, "--client", "hospital-11")
    assert away.startswith("hospital-11 (id 3) was not available in round 2, so PowerOfChoice could not choose it.")
    assert "offline, not eligible" in away
    assert "Its answer to an earlier round came in this one" in away
    assert (
        "Before, it was available in 2 of 2 rounds, chosen in 1, last in round 1, and its update was used in 0." in away
    )
    assert "Only an audit log could tell" in away


def test_where_rounds_overlap_a_history_says_in_which_round_work_ended(tmp_path):
    late = {"3": "no answer before the deadline"}
    records = [
        record(0, [0, 1, 2, 3, 4], [0, 1, 2, 3], [0], used=[1.0], in_flight=3),
        record(1, [0, 4], [4], [2], used=[1.0], in_flight=2, given_up=late),
    ]
    path = written(tmp_path, records)
    assert "Its update was used in round 1." in why(path, 0, "id:2")
    assert "Its work was given up in round 1: no answer before the deadline." in why(path, 0, "id:3")
    assert "Its work was not over when the last round was written." in why(path, 0, "id:1")
    assert why(path, 0)[1:5] == [
        "hospital-1 (id 0) was chosen with weight 0.25.",
        "hospital-2 (id 1) was chosen with weight 0.25; still at work.",
        "hospital-10 (id 2) was chosen with weight 0.25; used in round 1.",
        "hospital-11 (id 3) was chosen with weight 0.25; given up: no answer before the deadline.",
    ]
    assert "chosen in 1, last in round 0, and its update was used in 0." in why(path, 1, "id:2")[-2]


def test_a_history_refuses_unknown_rounds_and_clients_in_words(tmp_path):
    path = written(tmp_path)
    with pytest.raises(InputError, match="--round must be 0 to 3, as this history has them; got 9"):
        why(path, 9)
    with pytest.raises(
        InputError, match="the name of a client, or 0 to 3, the clients known in round 0; got 'hospital-12'"
    ):
        why(path, 0, "hospital-12")  # it joined later
    with pytest.raises(StorageError, match="has no round yet"):
        why(written(tmp_path, []), 0)


def test_a_log_that_is_gone_is_said_first(federation):
    (federation / "audit.jsonl").unlink()
    said = call("why", federation, "--round", 1)
    assert said.startswith("The audit log of this federation, audit.jsonl, is not beside its history.")


def test_a_reason_cannot_write_to_the_terminal(tmp_path):
    path = written(tmp_path, [record(0, [0], [0], [], failed={"0": "\x1b[2Jgone\nTraceback " + "x" * 900})])
    said = why(path, 0)[1]
    hostile = {"method": "\x1b[2J", "notes": {"\x1b]0;": 1}}
    assert "\x1b" not in "".join(why(written(tmp_path / "other", [{**ROUNDS[0], **hostile}], about=hostile), 0))
    assert "\\x1b[2Jgone\\nTraceback" in said
    assert len(said) < 300


# -- audits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["audit.jsonl", "run.npz.history.jsonl", ""])
def test_a_federation_holds_by_its_log_and_history(source, federation):
    assert "1 log holds" in call("audit", federation / source)


def test_a_history_that_differs_from_its_log_is_found_with_names(federation):
    path = federation / "run.npz.history.jsonl"
    lines = path.read_text().splitlines()
    record = json.loads(lines[1])
    old, new = record["cohort"][0], next(k for k in range(6) if k not in record["cohort"] and k != 1)
    record["cohort"][0] = new
    record["answered"] = [k for k in record["cohort"] if k != SILENT]
    lines[1] = json.dumps(record)
    path.write_text("\n".join(lines) + "\n")
    output = call("audit", federation / "audit.jsonl", code=1)
    assert "Round 1: cohort: the log has" in output
    assert (
        f"Only the log has {NAMES[old]} (id {old}). Only run.npz.history.jsonl has {NAMES[new]} (id {new})." in output
    )
    path.write_text("\n".join(lines[:2]) + "\n")
    assert "The log has 4 rounds; run.npz.history.jsonl 2." in call("audit", federation, code=1)


def test_a_choice_that_differs_is_named(federation):
    names = federation / "names.json"
    names.write_text(json.dumps([f"clinic {k}" for k in range(6)]))
    log = federation / "audit.jsonl"
    (federation / "run.npz.about.json").unlink()
    forged = forge_first_cohort(log)
    output = call("audit", log, "--names", names, code=1)
    assert "Round 0: the cohort should be clinic " in output
    assert f"the log has clinic {forged[0]} (id {forged[0]}), " in output
    assert "Round 0: the cohort should be [" in examine_log(log).faults[0]


def forge_first_cohort(log):
    """Write another cohort into the first round, and all hashes anew."""
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    entries[1]["cohort"] = [k for k in range(1, 6) if k not in entries[1]["cohort"][:1]][:3]
    entries[1].pop("done", None)
    last, lines = hash_chain.START, []
    for number, entry in enumerate(entries):
        bare = {key: value for key, value in entry.items() if key not in ("entry", "previous", "hash")}
        line, last = hash_chain.seal(number, last, bare)
        lines.append(line)
    log.write_bytes(b"".join(lines))
    disclosure = log.with_name(f"{log.name}.reveal.json")
    disclosure.write_text(json.dumps({**json.loads(disclosure.read_text()), "final": last}))
    return entries[1]["cohort"]


def test_a_federation_without_a_log_is_not_a_pass(tmp_path):
    written(tmp_path)
    output = call("audit", tmp_path, code=3)
    assert "no log" in output
    assert 'a federation that is given audit="audit.jsonl" keeps one' in output
    written(tmp_path, about={"audit": "../elsewhere/audit.jsonl"})
    assert "is in another folder: audit it by its own path" in call("audit", tmp_path, code=3)
    written(tmp_path, about={"audit": "audit.jsonl"})
    assert "The audit log audit.jsonl is missing" in call("audit", tmp_path, code=1)


def test_a_federation_that_goes_on_is_compared_as_far_as_both_files_go(tmp_path):
    played(tmp_path, disclosed=False)
    path = tmp_path / "run.npz.history.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    output = call("audit", tmp_path, code=3)
    assert "seed and salt are not disclosed yet" in output

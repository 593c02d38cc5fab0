"""The history of a federation, read as a run's folder is: strict, and in words where a file is damaged."""

import json
import os

import numpy as np
import pytest
from tests.results.histories import ABOUT, COUNTS, NAMES, ROUNDS, record, written

from sortition.core.errors import InputError, StorageError
from sortition.core.storage import snapshot
from sortition.results.history import History, find_history, history_of_log, is_history
from sortition.results.outcomes import ClientOutcome, resolve_outcomes


def test_what_the_files_say(tmp_path):
    history = History(written(tmp_path))
    assert (history.title, history.method, history.backend) == ("run", "PowerOfChoice", "its own server")
    assert (history.cohort, history.clients, len(history.records)) == (2, 5, 4)
    assert [history.names.short_name(client) for client in range(5)] == NAMES
    assert history.facts()["label_counts"].tolist() == COUNTS.tolist()
    assert [ids.tolist() for ids in history.present()] == [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 4], []]
    assert history.record(2) == ROUNDS[2]
    assert history.record(9) is None


def fates(record):
    (outcomes,) = resolve_outcomes([record])
    return {client: outcome.fate for client, outcome in outcomes.items()}


def test_what_became_of_everybody(tmp_path):
    records = History(written(tmp_path)).records
    assert fates(records[0]) == {2: "used", 0: "used"}
    assert fates(records[1]) == {0: "used", 1: "standby", 3: "silent"}
    assert fates(records[2]) == {4: "failed", 2: "left out"}
    assert fates({"round": 0, "cohort": [1, 2], "answered": [2]}) == {1: "lost", 2: "used"}
    assert fates({"round": 0, "cohort": [1, 2], "answered": [2], "withdrawn": [1]}) == {1: "withdrawn", 2: "used"}
    assert fates({"round": 0, "cohort": [1, 2], "answered": None}) == {1: "used", 2: "used"}


def test_where_rounds_overlap_later_records_say_what_became_of_everybody(tmp_path):
    too_old = "more than 1 versions old"
    records = [
        record(0, [0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0], used=[1.0], in_flight=4),
        record(1, [0], [0], [2], used=[1.0], in_flight=3, given_up={"3": "no answer before the deadline"}),
        record(2, [1, 2], [2], [], used=[], in_flight=2, too_stale={"4": too_old}),
    ]
    assert History(written(tmp_path, records)).outcomes == {
        0: {
            0: ClientOutcome("used", 0),
            1: ClientOutcome("lost"),  # it could be chosen again in round 2, and no record says how its work ended
            2: ClientOutcome("used", 1),
            3: ClientOutcome("given up", 1, "no answer before the deadline"),
            4: ClientOutcome("too stale", 2, too_old),
        },
        1: {0: ClientOutcome("still at work")},
        2: {2: ClientOutcome("still at work")},
    }


@pytest.mark.parametrize("key", ["failed", "left_out", "given_up", "too_stale"])
def test_reasons_are_of_known_clients(tmp_path, key):
    history = History(written(tmp_path, [record(0, [0], [0], [], **{key: {"nobody": "why"}})]))
    with pytest.raises(StorageError, match=f"line 1: {key} must be a table from ids to reasons"):
        _ = history.records
    history = History(written(tmp_path, [record(0, [0], [0], [], **{key: {"5": "why"}})]))
    with pytest.raises(StorageError, match="line 1: ids must be below 5, the number of members"):
        _ = history.records


def test_the_clock_begins_anew_where_a_server_went_on(tmp_path):
    clocks = [2.0, 5.0, 1.5, None, 4.0]
    records = [record(t, [0], [0], [0], clock=clock) for t, clock in enumerate(clocks)]
    assert History(written(tmp_path, records)).seconds() == [2.0, 3.0, 1.5, None, 2.5]


def test_every_way_to_name_a_history(tmp_path):
    path = written(tmp_path / "fed")
    for source in (path, tmp_path / "fed" / "run.npz", tmp_path / "fed"):
        assert find_history(source) == History(path)
    own = tmp_path / "own.jsonl"
    own.write_text(json.dumps(ROUNDS[0]) + "\n")
    assert find_history(own) == History(own)
    assert History(own).names.name_with_id(2) == "hospital-10 (id 2)"  # of those who were chosen
    assert (History(own).method, History(own).facts()) == ("the method", {})
    assert find_history(tmp_path) is None
    (tmp_path / "fed" / "config.toml").touch()  # a run's folder
    assert find_history(tmp_path / "fed") is None


def test_two_histories_in_a_folder_are_not_guessed_between(tmp_path):
    written(tmp_path)
    written(tmp_path, name="other.npz")
    with pytest.raises(InputError, match=r"one federation; got 2: other.npz.history.jsonl, run.npz.history.jsonl"):
        find_history(tmp_path)


def test_an_audit_log_is_no_history(tmp_path):
    log = tmp_path / "audit.jsonl"
    log.write_text('{"entry":0,"previous":"0","format":1,"hash":"x"}\n')
    assert not is_history(log)
    log.write_text('{"entry":1,"round":0,"cohort":[1],"hash":"x"}\n')
    assert not is_history(log)
    assert not is_history(tmp_path / "absent.jsonl")


def test_log_and_history_name_each_other(tmp_path):
    log = tmp_path / "audit.jsonl"
    path = written(tmp_path, about={"audit": "audit.jsonl"})
    assert History(path).audit_log() == log
    assert history_of_log(log) == History(path)
    assert history_of_log(tmp_path / "other.jsonl") is None
    written(tmp_path, name="second.npz", about={"audit": "audit.jsonl"})
    assert history_of_log(log) is None  # two claim it


@pytest.mark.parametrize("elsewhere", ["../audit.jsonl", "/etc/passwd", "logs/audit.jsonl", "", ".", ".."])
def test_a_file_from_somebody_else_leads_to_no_other_folder(elsewhere, tmp_path):
    assert History(written(tmp_path, about={"audit": elsewhere})).audit_log() is None


def test_a_line_that_was_being_written_is_not_read(tmp_path):
    path = written(tmp_path)
    path.write_text(path.read_text()[:-9])
    assert len(History(path).records) == 3
    path.write_text(path.read_text().replace('"round"', "", 1))
    with pytest.raises(StorageError, match="is damaged in line 1"):
        _ = History(path).records


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cohort": [2, 9], "answered": None}, "ids must be below 4, the number of members"),
        ({"weights": [1.0]}, "one weight each"),
        ({"cohort": [2, 2]}, "distinct clients"),
        ({"weights": [0.5, float("nan")]}, "weights must be finite"),
        ({"weights": [0.5, -1.0]}, "weights must be finite and ≥ 0"),
        ({"cohort": [-1, 2]}, "greater than or equal to 0"),
        ({"cohort": "everybody"}, "valid list"),
        ({"members": 2.5}, "valid integer"),
        ({"members": 10**15}, "members must be at most 10,000,000"),
        ({"answered": [3]}, "answered must be clients of the cohort"),
        ({"answered": [3], "used": [0.5, 0.5]}, "used must be finite and ≥ 0, one for each of answered"),
        ({"answered": [3], "used": [-1.0]}, "used must be finite and ≥ 0, one for each of answered"),
        ({"failed": {"hospital": "no"}}, "from ids to reasons"),
        ({"failed": {"²": "no"}}, "from ids to reasons"),
        ({"left_out": {"7": "no"}}, "ids must be below 4"),
        ({"names": ["one"]}, "names must be of the cohort"),
        ({"present": [0, 1]}, "present has 2 clients, and available says 4"),
        ({"present": [0, 1, 2, 2]}, "present must be distinct ids"),
        ({"present": "0-3,x"}, "present must be ids as an audit log writes them"),
        ({"present": "0-3,"}, "present must be ids"),
        ({"present": {"bits": "AAAA", "n": 10**15}}, "present must be ids"),
        ({"present": [0, 1, 2, 8]}, "below 4, the number of members"),
        ({"clock": -1.0}, "clock must be seconds"),
        ({"notes": {"deep": json.loads("[" * 40 + "]" * 40)}}, "more than 32 tables within each other"),
    ],
)
def test_a_damaged_record_is_refused_in_words(change, said, tmp_path):
    path = written(tmp_path, [ROUNDS[0] | change])
    with pytest.raises(StorageError, match=rf"run.npz.history.jsonl is damaged in line 1: .*{said}"):
        _ = History(path).records


def test_a_step_may_use_work_of_an_earlier_selection(tmp_path):
    path = written(tmp_path, [ROUNDS[0] | {"answered": [3], "used": [1.0], "staleness": [2]}])
    assert History(path).records[0]["answered"] == [3]


def test_records_must_follow_each_other(tmp_path):
    with pytest.raises(StorageError, match="line 2: rounds must follow each other"):
        _ = History(written(tmp_path, [ROUNDS[1], ROUNDS[0]])).records
    with pytest.raises(StorageError, match="line 2: members must not get fewer"):
        _ = History(written(tmp_path, [ROUNDS[0], record(1, [0], [0], [0], members=3)])).records
    with pytest.raises(StorageError, match="has no round yet"):
        History(written(tmp_path, [])).played_records()


def test_what_lies_beside_is_checked_too(tmp_path):
    path = written(tmp_path, about={"names": ["a", 3]})
    with pytest.raises(StorageError, match=r"run.npz.about.json is damaged: names.1: input should be a valid string"):
        _ = History(path).names
    (tmp_path / "run.npz.about.json").unlink()
    assert History(path).about == {}
    snapshot.save(tmp_path / "run.npz", {}, {"federation": 3})
    with pytest.raises(StorageError, match=r"run.npz is not the checkpoint of a federation"):
        History(path).facts()
    written(tmp_path, facts={"label_counts": COUNTS - 3.0})
    with pytest.raises(StorageError, match=r"run.npz is damaged: run.npz.label_counts must be"):
        History(path).facts()
    (tmp_path / "run.npz").write_bytes(b"PK nonsense")
    with pytest.raises(StorageError, match="is not a Sortition snapshot"):
        History(path).facts()


def test_facts_of_fewer_clients_than_the_history_knows_are_not_used(tmp_path):
    assert History(written(tmp_path, facts={"sizes": np.array([5, 6, 7])})).facts() == {}
    assert History(written(tmp_path, facts={"sizes": np.arange(9.0)})).facts()["sizes"].tolist() == [0, 1, 2, 3, 4]


def test_pipes_and_folders_are_no_histories(tmp_path):
    os.mkfifo(tmp_path / "run.npz.history.jsonl")
    with pytest.raises(StorageError, match="must be a file; got a folder, a device or a pipe"):
        _ = History(tmp_path / "run.npz.history.jsonl").records


def test_without_members_the_ids_say_how_many_there_are(tmp_path):
    record = {key: value for key, value in ROUNDS[0].items() if key not in ("members", "present")}
    history = History(written(tmp_path, [record]))
    assert history.clients == 3
    assert not history.says_who_was_there
    assert list(history.present()) == []
    assert ABOUT["cohort"] == history.cohort

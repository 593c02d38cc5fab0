import json
from pathlib import Path

import numpy as np
import pytest
from tests.studies.folders import make

from sortition.core.errors import InputError, StorageError
from sortition.core.storage.journal import Journal
from sortition.results import run_folder
from sortition.studies.runs import write_folder


def test_runs_are_found_with_their_names(tmp_path):
    make(tmp_path, [0.1], method="fedgs", seed=3)
    make(tmp_path, [0.1], setting="other", done=False)
    found = run_folder.find(tmp_path)
    assert [(run.setting, run.method, run.seed, run.done) for run in found] == [
        ("main", "fedgs", 3, True),
        ("other", "uniform", 0, False),
    ]


def test_a_torn_last_line_is_left_out_and_no_other(tmp_path):
    file = tmp_path / "rounds.jsonl"
    file.write_bytes(b'{"round":0}\n{"round":1}\n{"rou')
    assert run_folder.read_records(file) == [{"round": 0}, {"round": 1}]
    file.write_bytes(b'{"round":0}\n{"rou\n')  # torn, then a newline: still the last one
    assert run_folder.read_records(file) == [{"round": 0}]
    file.write_bytes(b'{"round":0}\n{"rou\n{"round":2}\n')
    with pytest.raises(StorageError, match="line 2"):
        run_folder.read_records(file)


def test_curves_are_one_row_a_round_with_running_bytes(tmp_path):
    make(tmp_path, [0.1, 0.4, 0.3])
    frame = run_folder.curves(tmp_path)
    assert frame["round"].to_list() == [1, 2, 3]
    assert frame["bytes"].to_list() == [30.0, 60.0, 90.0]
    assert frame["accuracy"].to_list() == [0.1, 0.4, 0.3]
    assert run_folder.curves([]).height == 0


def test_no_folder_is_a_sentence(tmp_path):
    with pytest.raises(InputError, match="folder of runs"):
        run_folder.find(tmp_path / "none")


def test_a_journal_keeps_what_the_checkpoint_knows(tmp_path):
    path = tmp_path / "rounds.jsonl"
    journal = Journal(path, 0)
    for t in range(4):
        journal.append({"round": np.int64(t), "x": np.array([1.5])})
    journal.close()
    path.write_bytes(path.read_bytes() + b'{"torn')
    journal = Journal(path, 2)
    journal.append({"round": 2})
    journal.close()
    assert [json.loads(line)["round"] for line in path.read_text().splitlines()] == [0, 1, 2]
    with pytest.raises(StorageError, match="3 whole lines"):
        Journal(path, 5)


def test_a_full_disk_is_a_sentence(tmp_path):
    journal = Journal(tmp_path / "rounds.jsonl", 0)
    journal.append({"round": 0})
    journal._file.close()
    journal._file = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115
    with pytest.raises(StorageError, match="No space left"):
        journal.append({"round": 1})
    journal.close()
    assert run_folder.read_records(tmp_path / "rounds.jsonl") == [{"round": 0}]


def test_a_folder_has_one_holder(tmp_path):
    with (
        write_folder.locked(tmp_path),
        pytest.raises(StorageError, match="another runner"),
        write_folder.locked(tmp_path),
    ):
        pass
    with write_folder.locked(tmp_path):
        pass


def test_an_unwritable_folder_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="can be written"), write_folder.locked(tmp_path / "file" / "runs"):
        pass


def test_only_our_own_half_written_files_are_tidied(tmp_path):
    ours, theirs = [".config.toml.123.tmp", ".checkpoint.npz.7.tmp"], [".mine.tmp", ".mine.123.tmp", ".config.toml.tmp"]
    for name in (*ours, *theirs):
        (tmp_path / name).write_text("precious")
    with write_folder.locked(tmp_path):
        left = {path.name for path in tmp_path.iterdir()} - {write_folder.LOCK}
    assert left == set(theirs)


def test_a_torn_line_in_the_middle_is_damage(tmp_path):
    path = tmp_path / "rounds.jsonl"
    path.write_bytes(b'{"round":0}\n{"rou\n\n')
    assert run_folder.read_records(path) == [{"round": 0}]
    for later in (b'{"round":2}\n', b"x"):
        path.write_bytes(b'{"round":0}\n{"rou\n' + later)
        with pytest.raises(StorageError, match="damaged in line 2; only the last line may be torn"):
            run_folder.read_records(path)


def settings_of(*folders):
    return list(dict.fromkeys(run.setting for run in run_folder.find(*folders)))


def test_settings_of_one_name_and_two_federations_get_their_names(tmp_path):
    make(tmp_path / "a", [0.1, 0.2])
    make(tmp_path / "b", [0.1, 0.2, 0.3], method="fedgs")  # other rounds
    assert settings_of(tmp_path / "a", tmp_path / "b") == ["a: main", "b: main"]
    assert settings_of(tmp_path / "a") == ["main"]


def test_more_seeds_or_methods_of_one_federation_join_it(tmp_path):
    make(tmp_path / "a", [0.1, 0.2])
    make(tmp_path / "b", [0.1, 0.2], seed=1)
    make(tmp_path / "c", [0.1, 0.2], method="fedgs")
    assert settings_of(tmp_path / "a", tmp_path / "b", tmp_path / "c") == ["main"]


def test_a_run_that_two_studies_have_is_not_overwritten(tmp_path):
    make(tmp_path / "a" / "x", [0.1, 0.2])
    make(tmp_path / "b" / "x", [0.1, 0.3])
    places = tmp_path / "a" / "x", tmp_path / "b" / "x"
    assert settings_of(*places) == [f"{places[0]}: main", f"{places[1]}: main"]


def test_a_folder_inside_another_is_read_once(tmp_path):
    make(tmp_path / "a", [0.1, 0.2])
    assert len(run_folder.find(tmp_path, tmp_path / "a")) == 1
    assert len(run_folder.find(tmp_path, tmp_path)) == 1


def test_a_third_study_does_not_part_two_that_belong_together(tmp_path):
    make(tmp_path / "a", [0.1, 0.2])
    make(tmp_path / "b", [0.1, 0.2], seed=1)
    make(tmp_path / "c", [0.1, 0.2, 0.3])
    assert settings_of(*(tmp_path / name for name in "abc")) == ["a: main", "c: main"]


def test_studies_below_one_folder_are_studies(tmp_path):
    for name, curve in (("x", [0.1, 0.2]), ("y", [0.1, 0.2, 0.3])):
        make(tmp_path / name, curve)
        write_folder.write_document(tmp_path / name / run_folder.INDEX, {"title": name})
    assert settings_of(tmp_path) == ["x: main", "y: main"]


def test_runs_of_other_code_are_no_seeds_of_one_method(tmp_path):
    for seed, code in enumerate("ab"):
        run = make(tmp_path / code, [0.1, 0.2], method="mine", seed=seed)
        write_folder.write_document(run.path / run_folder.MANIFEST, {**run.manifest, "python": {"method.name": code}})
    assert settings_of(tmp_path / "a", tmp_path / "b") == ["a: main", "b: main"]


@pytest.mark.parametrize("other", [2, 99, 0, "1", True, None])
def test_a_manifest_of_another_format_is_refused(tmp_path, other):
    run = make(tmp_path, [0.5])
    (run.path / "manifest.json").write_text(json.dumps({"format": other}))
    with pytest.raises(StorageError, match=r"manifest\.json has format .*; this version reads format 1"):
        _ = run_folder.Run(run.path).records

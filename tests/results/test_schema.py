"""Damaged and foreign run folders are refused with a sentence, never read half."""

import json

import numpy as np
import pytest
from tests.studies import folders

from sortition.core.errors import StorageError
from sortition.results import run_folder, summary
from sortition.studies.runs import write_folder


@pytest.fixture
def run(tmp_path):
    return folders.make(tmp_path, [0.1, 0.2])


def fresh(run):
    return run_folder.Run(run.path)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"round": "0"}, "round"),
        ({"round": -1}, "round"),
        ({"test": [1]}, "test"),
        ({"test": {"accuracy": "high"}}, "test.accuracy"),
        ({"cohort": ["a"]}, "cohort.0"),
        ({"cohort": [2**70]}, "cohort.0"),
        ({"bytes": 3}, "bytes"),
        ({"bytes": {"model_up": {"a": 1}}}, "bytes.model_up"),
        ({"passes": {"training": {}}}, "passes.training"),
        ({"questions": [{"signal": 1, "asked": 2}]}, "questions.0"),
        ({"notes": "none"}, "notes"),
    ],
)
def test_a_record_of_wrong_kind_names_line_and_key(run, change, where):
    path = run.path / run_folder.ROUNDS
    lines = path.read_text().splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), **change})
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(StorageError, match=f"is damaged in line 2: {where}"):
        _ = fresh(run).records


@pytest.mark.parametrize("text", ["[]", "3", '"x"', "null", "[" * 10_000])
@pytest.mark.parametrize("name", [run_folder.MANIFEST, run_folder.SUMMARY])
def test_documents_that_are_no_tables(run, name, text):
    (run.path / name).write_text(text)
    with pytest.raises(StorageError, match=name):
        _ = fresh(run).manifest, fresh(run).summary


@pytest.mark.parametrize(
    "text", ["seed = {}", "seed = inf", 'method = "x"', "target = 1.5", "target = {x = 1.0}", "seed = " + "1" * 5000]
)
def test_configurations_of_wrong_kind(run, text):
    (run.path / run_folder.CONFIG).write_text(text)
    with pytest.raises(StorageError, match=run_folder.CONFIG):
        _ = fresh(run).config
    with pytest.raises(StorageError, match=run_folder.CONFIG):
        summary.tables(run_folder.find(run.path))


@pytest.mark.parametrize(
    "arrays",
    [
        {"selected": np.array(["a", "b"])},
        {"selected": np.array([[1, 2]])},
        {"selected": np.array([-1, 2])},
        {"selected": np.arange(3), "available": np.arange(4)},
    ],
)
def test_counts_that_count_nothing(run, arrays):
    write_folder.write_arrays(run.path / run_folder.CLIENTS, arrays)
    with pytest.raises(StorageError, match=r"clients\.npz is damaged"):
        fresh(run).clients()


def test_availability_of_another_federation(run):
    arrays = {"sizes": np.arange(20), "availability": np.zeros((2, 2), np.uint8)}
    write_folder.write_arrays(run.path / run_folder.FEDERATION, arrays)
    with pytest.raises(StorageError, match="availability of 20 clients has shape"):
        fresh(run).federation()


def test_a_torn_archive(run):
    path = run.path / run_folder.CLIENTS
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(StorageError, match="cannot be read"):
        fresh(run).clients()


def test_tables_within_each_other_without_end(run):
    path = run.path / run_folder.SUMMARY
    path.write_text('{"status": "done", "a": ' + '{"b":' * 40 + "1" + "}" * 41)
    with pytest.raises(StorageError, match="more than 32 tables within each other"):
        _ = fresh(run).summary

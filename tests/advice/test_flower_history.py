"""A Flower federation's history as a source; the adapter's own files are read in tests/flower/test_history.py."""

import json

import numpy as np
import pytest

from sortition.advice.replay import replay, replay_table
from sortition.advice.sources import known
from sortition.core.errors import StorageError
from sortition.core.storage import snapshot

RECORD = {"round": 0, "available": [0, 1, 2], "cohort": [2, 0], "weights": [0.75, 0.25], "answered": [2], "clients": 3}
COUNTS = np.array([[4, 0], [0, 4], [2, 2], [1, 3]])


def written(folder, *records, name="run.npz.history.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def checkpoint(folder, facts):
    about = {"flower": {"options": {"cohort": 2}}, "registrar": {"selector": "FedGS"}}
    snapshot.save(folder / "run.npz", {f"facts.{name}": rows for name, rows in facts.items()}, about)


def test_rounds_facts_and_the_method_are_read(tmp_path):
    checkpoint(tmp_path, {"label_counts": COUNTS})
    later = {**RECORD, "round": 1, "available": [1, 3], "cohort": [3, 1], "answered": [3, 1], "clients": 4}
    source = known(written(tmp_path, RECORD, later))
    assert (source.cohort, source.rounds, source.played_by) == (2, 2, "FedGS")
    assert source.masks.tolist() == [[True, True, True, False], [False, True, False, True]]
    assert source.dropout == pytest.approx(0.25)
    assert source.counts.tolist() == COUNTS.tolist()
    found, _ = replay(source)
    played = found["as played: FedGS"]
    assert played.coverage == 1.0
    assert played.mixture is not None
    assert {"uniform", "fedgs"} <= found.keys()


def test_a_history_alone_says_nothing_of_mixtures(tmp_path):
    source = known(written(tmp_path, RECORD, name="own.jsonl"))
    assert (source.cohort, source.played_by) == (2, "Flower")
    assert source.counts.shape == (3, 1)
    assert "nothing is said of mixtures" in replay_table(replay(source)[0], source).notes[0]
    assert known(tmp_path / "own.jsonl", cohort=3).cohort == 3
    checkpoint(tmp_path, {"sizes": np.array([5, 6, 7])})
    assert known(written(tmp_path, RECORD)).counts.tolist() == [[5], [6], [7]]


def test_a_line_that_was_being_written_is_not_read(tmp_path):
    path = written(tmp_path, RECORD, RECORD)
    path.write_text(path.read_text()[:-9])
    assert known(path).rounds == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cohort": [2, 9]}, "ids must be below 3"),
        ({"weights": [1.0]}, "one weight each"),
        ({"cohort": [2, 2]}, "distinct clients"),
        ({"weights": [0.5, float("nan")]}, "finite"),
        ({"available": [-1]}, "greater than or equal to 0"),
        ({"clients": 2.5}, "valid integer"),
    ],
)
def test_a_history_that_is_none_is_refused_in_words(change, said, tmp_path):
    with pytest.raises(StorageError, match=f"is not a Flower history: line 1: .*{said}"):
        known(written(tmp_path, RECORD | change))


def test_clients_do_not_get_fewer_and_the_file_beside_is_a_checkpoint(tmp_path):
    with pytest.raises(StorageError, match="clients must not get fewer"):
        known(written(tmp_path, {**RECORD, "clients": 4}, RECORD))
    snapshot.save(tmp_path / "run.npz", {}, {"flower": 3})
    with pytest.raises(StorageError, match=r"run.npz is not a Flower checkpoint"):
        known(written(tmp_path, RECORD))

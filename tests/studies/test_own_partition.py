"""A partition of the user's own speaks of the rows that the user gave, whatever is held out for testing."""

import numpy as np
import pytest

import sortition as so
from sortition.core.errors import InputError
from sortition.core.streams import stream
from sortition.data import by_client, load, partitions
from sortition.studies import arguments, python_objects
from sortition.studies.build_federation import split_data
from sortition.studies.config import Data, validated

ROWS = np.repeat(np.arange(60.0)[:, None], 2, axis=1)  # an example is the number of its row
LABELS = np.arange(60) % 3
HOSPITALS = np.arange(60) % 4
SMALL = {"rounds": 1, "cohort": 2, "seeds": 1, "model": "softmax", "progress": False}


def by_hospital(labels, clients, rng):
    assert np.array_equal(labels, LABELS)
    return [np.flatnonzero(hospital == HOSPITALS) for hospital in range(clients)]


def parts_of(data, rule, clients=4):
    """The rows that each client trains on, and the notes."""
    with python_objects.forgotten_afterwards():
        table = arguments.data_table(data, clients) | {"partition": arguments.partition_table(rule)}
        made = split_data(validated(Data, table, "data"), seed=0)
    return [made.dataset.x_train.reshape(-1, 2)[rows][:, 0].astype(int) for rows in made.train.indices], made


@pytest.mark.parametrize("form", ["function", "list", "matrix"])
@pytest.mark.parametrize("data", [(ROWS, LABELS), by_client(ROWS, LABELS, np.arange(60) % 5)])
def test_rows_are_those_that_were_given(form, data):
    rows = [np.flatnonzero(hospital == HOSPITALS) for hospital in range(4)]
    rule = {"function": by_hospital, "list": rows, "matrix": np.stack(rows)}[form]
    parts, made = parts_of(data, rule)
    for hospital, part in enumerate(parts):
        assert set(HOSPITALS[part]) == {hospital}
    tested = made.dataset.x_test.reshape(-1, 2)[:, 0].astype(int)
    assert sorted(np.concatenate([*parts, tested])) == list(range(60))
    assert made.train.notes == (f"{len(tested)} of the 60 examples in the partition are held out for testing.",)


def test_with_a_test_set_of_their_own_no_row_is_held_out():
    parts, made = parts_of((ROWS, LABELS, ROWS, LABELS), by_hospital)
    assert [len(part) for part in parts] == [15, 15, 15, 15]
    assert made.train.notes == ()
    assert made.dataset.held_out == ""


def test_rules_and_saved_partitions_speak_of_the_training_examples(tmp_path):
    dataset = load((ROWS, LABELS))
    made = partitions.split("shards", dataset.y_train, 4, stream(0, "partition"), per_client=2)
    made.save(tmp_path / "parts.npz")
    for rule in ({"name": "shards", "per_client": 2}, made, tmp_path / "parts.npz"):
        assert parts_of((ROWS, LABELS), rule)[1].train.digest == made.digest


def test_index_arrays_say_how_many_clients_there_are_and_the_result_what_was_held_out():
    rows = [np.flatnonzero(hospital == HOSPITALS) for hospital in range(4)]
    result = so.compare(["uniform"], data=(ROWS, LABELS), partition=rows, **SMALL)
    assert result.runs[0].manifest["clients"] == 4
    assert result.inputs[0].endswith("Held out for testing: 12 of the 60 examples given, drawn at random.")
    assert "12 of the 60 examples in the partition are held out for testing." in result.notes


@pytest.mark.parametrize(
    ("rule", "clients", "message"),
    [
        ([[0, 1], [2, 60]], 2, "partition.indices must be below 60, the number of examples; got 60"),
        ([[0, 1], [1, 2]], 2, "each held by one client; got example 1 twice"),
        ([[0, 1], [2, 3]], 3, "partition.clients must be 2, as the partition has; got 3"),
        ([[0, 1], []], 2, "such that every client has a training example; got 1 empty clients"),
    ],
)
def test_index_arrays_that_do_not_fit_are_refused(rule, clients, message):
    with pytest.raises(InputError, match=message):
        parts_of((ROWS, LABELS, ROWS, LABELS), rule, clients)

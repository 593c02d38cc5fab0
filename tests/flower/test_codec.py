import io

import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from sortition.clients.named_arrays import as_vector, from_vector
from sortition.core import GRADIENT
from sortition.core.errors import InputError
from sortition.core.signals import find_signal
from sortition.federation.model_screening import ModelCheck, move_model
from sortition.flower import codec

MODEL = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "seen": np.array(4), "b": np.ones(2, np.float32)}


def judged(model):
    return ModelCheck(names=frozenset(MODEL)).screen({0: model}, MODEL)[1].get(0, "")


def test_a_task_travels():
    task = codec.Assignment(t=3, client=2, purpose="rehearsal", signals=("loss", "update"), model="weights")
    assert codec.Assignment.of(RecordDict({codec.ASSIGNMENT: task.record()})) == task
    assert codec.Assignment.of(RecordDict()) is None


def test_models_as_vectors_leave_counters_out():
    vector = as_vector(MODEL)
    assert vector.tolist() == [0, 1, 2, 3, 4, 5, 1, 1]
    back = from_vector(vector + 1, MODEL)
    assert back["w"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert back["seen"] == 4
    with pytest.raises(InputError, match="update must be of the model's 8 numbers"):
        from_vector(vector[1:], MODEL)


def test_arrays_keep_shape_and_type_on_the_way():
    back = codec.to_arrays(codec.to_record(MODEL))
    for name, value in MODEL.items():
        assert back[name].shape == value.shape
        assert back[name].dtype == value.dtype


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, ""),
        ({"b": np.array([1, np.nan], np.float32)}, "b is not finite"),
        ({"b": np.ones(3, np.float32)}, "b of shape (3,) in place of (2,)"),
        ({"b": np.array(["x", "y"])}, "b holds no numbers"),
        ({"c": np.ones(1)}, "arrays ['c'] missing or unknown"),
    ],
)
def test_what_is_wrong_with_a_model_is_said(change, fault):
    assert judged({**MODEL, **change}) == fault
    assert judged({}) == "no model"


def test_sketches_are_asked_of_the_vector_that_they_fold():
    sketch = GRADIENT.sketch(16, seed=3)
    assert codec.query(sketch.name) == "query.gradient"
    found = find_signal(sketch.name, {"gradient": GRADIENT})
    assert found == sketch

    class Client:
        def gradient(self):
            return np.arange(40.0)

    np.testing.assert_array_equal(found.row(Client()), sketch.row(Client()))
    assert find_signal("loss", {"gradient": GRADIENT}) is None
    assert find_signal("loss-sketch4", {"gradient": GRADIENT}) is None
    assert codec.query("loss") == "query.loss"


@pytest.mark.parametrize(
    "told",
    [{"t": "3"}, {"client": True}, {"signals": [1]}, {"signals": 1}, {"signals": "loss"}, {"unknown": 1}, {"t": [3]}],
)
def test_a_task_of_another_make_is_refused_with_a_sentence(told):
    with pytest.raises(InputError, match="task must be made of t, client, purpose"):
        codec.Assignment.of(RecordDict({codec.ASSIGNMENT: ConfigRecord(told)}))


def test_bytes_that_are_no_array_are_no_answer():
    def sent(data):
        return RecordDict({codec.ROWS: ArrayRecord({"loss": Array("float64", (1,), "numpy.ndarray", data)})})

    torn = b"\x93NUMPY\x01\x00" + (8).to_bytes(2, "little") + b"{'descr'"
    archive = io.BytesIO()
    np.savez(archive, a=np.ones(2))
    for data in (b"", torn, archive.getvalue(), b"PK\x03\x04"):
        assert codec.received_arrays(sent(data), codec.ROWS) == {}


def test_numbers_that_do_not_fit_the_models_type_are_a_fault():
    assert judged({**MODEL, "b": np.array([1.0, 1e300])}) == "b is not finite"  # infinite as float32
    assert judged({**MODEL, "seen": np.array(1e300)}) == "seen of type float64 in place of int64"


def test_a_model_with_switches_is_averaged():
    model = {"on": np.array([True, False]), "w": np.ones(1, np.float32)}
    mean = move_model(model, {0: model, 1: model}, np.array([0, 1]), np.array([0.5, 0.5]))
    assert mean["on"].tolist() == [True, False]

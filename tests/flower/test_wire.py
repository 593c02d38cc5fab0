import numpy as np
import pytest

pytest.importorskip("flwr", reason="flwr is not installed: make test-flower")

from flwr.app import RecordDict

from sortition.core import GRADIENT, LOSS
from sortition.core.errors import InputError
from sortition.flower import wire

MODEL = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "seen": np.array(4), "b": np.ones(2, np.float32)}


def test_a_task_travels():
    task = wire.Task(t=3, client=2, purpose="rehearsal", reports=("loss", "update"), model="weights")
    assert wire.Task.of(RecordDict({wire.TASK: task.record()})) == task
    assert wire.Task.of(RecordDict()) is None


def test_models_as_vectors_leave_counters_out():
    vector = wire.flatten(MODEL)
    assert vector.tolist() == [0, 1, 2, 3, 4, 5, 1, 1]
    back = wire.unflatten(vector + 1, MODEL)
    assert back["w"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert back["seen"] == 4
    with pytest.raises(InputError, match="update must be of the model's 8 numbers"):
        wire.unflatten(vector[1:], MODEL)


def test_arrays_keep_shape_and_type_on_the_way():
    back = wire.tables(wire.record(MODEL))
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
    assert wire.fault({**MODEL, **change}, MODEL) == fault
    assert wire.fault({}, MODEL) == "no model"


def test_sketches_are_asked_of_the_vector_that_they_fold():
    sketch = GRADIENT.sketch(16, seed=3)
    assert wire.query(sketch) == "query.gradient"
    found = wire.found(sketch.name, {"gradient": GRADIENT})
    assert found == sketch

    class Client:
        def gradient(self):
            return np.arange(40.0)

    np.testing.assert_array_equal(found.row(Client()), sketch.row(Client()))
    assert wire.found("loss", {"gradient": GRADIENT}) is None
    assert wire.found("loss-sketch4", {"gradient": GRADIENT}) is None
    assert wire.query(LOSS) == "query.loss"

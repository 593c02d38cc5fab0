"""Models as arrays and as vectors, and how long those vectors are."""

import numpy as np

from sortition.clients.named_arrays import as_vector, from_vector, model_size, output_layer, shared_update
from sortition.core.signals import ModelSize

MODEL = {
    "conv": np.zeros((4, 3, 2, 2), np.float32),
    "seen": np.array(7),
    "out": np.ones((5, 4), np.float32),
    "bias": np.zeros(5, np.float32),
}


def test_a_vector_and_back():
    vector = as_vector(MODEL)
    assert vector.shape == (48 + 20 + 5,)
    back = from_vector(vector + 1, MODEL)
    assert back["seen"] == 7
    assert (back["out"] == 2).all()


def test_an_update_has_the_length_of_what_was_received():
    after = {"out": MODEL["out"] + 1, "seen": np.array(9)}
    np.testing.assert_array_equal(shared_update(after, MODEL), [0] * 48 + [1] * 20 + [0] * 5)


def test_the_size_of_a_model():
    assert output_layer(MODEL) == ("out", "bias")
    assert model_size(MODEL) == ModelSize(73, 5, 25)
    assert model_size({**MODEL, "scale": np.ones(3)}) == ModelSize(76, 5, 25)  # without a bias, row means stand for it
    assert model_size({"w": np.zeros(3)}) == ModelSize(3)
    assert model_size({"trees": np.zeros(3, np.uint8)}) == ModelSize()


def test_a_transposed_convolution_is_no_output_layer():
    convolution = {"up.weight": np.zeros((6, 3, 4, 4), np.float32), "up.bias": np.zeros(3, np.float32)}
    assert output_layer(convolution) == ("", "")
    assert model_size(convolution).classes is None
    plain = {"last.weight": np.zeros((10, 3, 1, 1), np.float32), "last.bias": np.zeros(10, np.float32)}
    assert output_layer(plain) == ("last.weight", "last.bias")
    assert model_size(plain).classes == 10

"""Models as named arrays, which frameworks exchange, and as the vectors that signals are made of."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import bad
from sortition.core.signals import ModelSize

Model = dict[str, Array]


def as_vector(model: Mapping[str, Array]) -> Array:
    """Join the floating arrays of a model to one vector (P,); counters (``num_batches_tracked``) are left out."""
    parts = [value.reshape(-1) for value in model.values() if value.dtype.kind == "f"]
    if not parts:
        return np.empty(0, np.float32)
    return np.concatenate(parts)


def from_vector(vector: Array, like: Mapping[str, Array]) -> Model:
    """Cut a vector (P,) into the arrays that :func:`as_vector` joined; the other arrays are those of ``like``."""
    size = sum(value.size for value in like.values() if value.dtype.kind == "f")
    if vector.shape != (size,):
        raise bad("update", f"of the model's {size} numbers", f"shape {vector.shape}")
    model = {}
    start = 0
    for name, value in like.items():
        if value.dtype.kind == "f":
            model[name] = vector[start : start + value.size].reshape(value.shape).astype(value.dtype)
            start += value.size
        else:
            model[name] = value
    return model


def shared_update(after: Mapping[str, Array], before: Mapping[str, Array]) -> Array:
    """Return w_k − w (P,) in the order of ``before``; 0 for arrays that did not come back, as those kept at home."""
    complete = {name: after.get(name, value) for name, value in before.items()}
    return as_vector(complete) - as_vector(before)


def output_layer(model: Mapping[str, Array]) -> tuple[str, str]:
    """Return the names of the output layer's weight and bias; empty where there is none.

    The weight is the last floating array with two axes or more, and the bias the last floating array if it has a
    number per output. An array with more than two axes has a row per output only if such a bias says so: the first axis
    of a transposed convolution is that of its inputs.
    """
    floating = {name: value for name, value in model.items() if value.dtype.kind == "f"}
    matrices = [name for name, value in floating.items() if value.ndim > 1]
    if not matrices:
        return "", ""
    weight = matrices[-1]
    last_name = list(floating)[-1]
    if floating[last_name].shape == floating[weight].shape[:1]:
        return weight, last_name
    if floating[weight].ndim > 2:
        return "", ""
    return weight, ""


def model_size(model: Mapping[str, Array]) -> ModelSize:
    """Return how long the vectors are that clients make of a model; its arrays do not say how many outputs it has."""
    parameters = sum(value.size for value in model.values() if value.dtype.kind == "f") or None  # trees have none
    weight, _ = output_layer(model)
    if not weight:
        return ModelSize(parameters)
    classes = len(model[weight])
    return ModelSize(parameters=parameters, classes=classes, head=model[weight].size + classes)

"""Models as named arrays, which frameworks exchange, and as the vectors that signals are made of."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import bad
from sortition.core.signals import ModelSize

Model = dict[str, Array]


def as_vector(model: Mapping[str, Array]) -> Array:
    """The floating arrays of a model, one after the other (P,); counters (``num_batches_tracked``) are left out."""
    parts = [value.reshape(-1) for value in model.values() if value.dtype.kind == "f"]
    return np.concatenate(parts) if parts else np.empty(0, np.float32)


def from_vector(vector: Array, like: Mapping[str, Array]) -> Model:
    """A vector (P,) as the arrays that :func:`as_vector` took it from."""
    size = sum(value.size for value in like.values() if value.dtype.kind == "f")
    if vector.shape != (size,):
        raise bad("update", f"of the model's {size} numbers", f"shape {vector.shape}")
    out, start = {}, 0
    for name, value in like.items():
        if value.dtype.kind == "f":
            out[name] = vector[start : start + value.size].reshape(value.shape).astype(value.dtype)
            start += value.size
        else:
            out[name] = value
    return out


def shared_update(after: Mapping[str, Array], before: Mapping[str, Array]) -> Array:
    """w_k − w (P,) in the order of ``before``; 0 for arrays that did not come back, as those that stay at home."""
    complete = {name: after.get(name, value) for name, value in before.items()}
    return as_vector(complete) - as_vector(before)


def output_layer(model: Mapping[str, Array]) -> tuple[str, str]:
    """The last floating array with two axes or more, and the last array where it is its bias; empty where it is not.

    An array with more than two axes has a row per output only if a bias of as many numbers says so: the first axis of a
    transposed convolution is that of its inputs.
    """
    floating = {name: value for name, value in model.items() if value.dtype.kind == "f"}
    wide = [name for name, value in floating.items() if value.ndim > 1]
    if not wide:
        return "", ""
    weight = wide[-1]
    last = list(floating)[-1]
    bias = last if floating[last].shape == floating[weight].shape[:1] else ""
    if floating[weight].ndim > 2 and not bias:
        return "", ""
    return weight, bias


def model_size(model: Mapping[str, Array]) -> ModelSize:
    """How long the vectors are that clients make of a model; how many outputs it has, its arrays do not say."""
    parameters = sum(value.size for value in model.values() if value.dtype.kind == "f") or None  # trees have none
    weight, _ = output_layer(model)
    if not weight:
        return ModelSize(parameters)
    classes = len(model[weight])
    return ModelSize(parameters, classes, model[weight].size + classes)

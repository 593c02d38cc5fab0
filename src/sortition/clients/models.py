"""Models as named arrays, which frameworks exchange, and as one vector, which signals are made of."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import bad

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
    """w_k − w (P,) over the arrays that both have, in the order of ``before``: partial models have an update too."""
    shared = [name for name in before if name in after]
    return as_vector({name: after[name] for name in shared}) - as_vector({name: before[name] for name in shared})

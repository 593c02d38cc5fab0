"""What travels between server and clients: message types, the task beside a model, models as vectors, rows of signals.

Every message of ours carries the records of an ordinary train message (model, config) and a task: the round, the
client's dense id and the purpose, which together with a client's own seed fix everything random there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from sortition.core import arrays
from sortition.core.errors import bad
from sortition.core.signals import Signal
from sortition.core.storage.snapshot import FOREIGN

PROFILE, REHEARSE = "query.profile", "query.rehearse"
TASK, PAYLOAD, ROWS, FACTS, SELF = (
    f"sortition.{name}" for name in ("task", "payload", "rows", "facts", "self")
)  # records of ours
SKETCH = re.compile(r"(?P<base>.+)-sketch(?P<dim>\d+)(-(?P<seed>\d+))?")


@dataclass(frozen=True)
class Task:
    """Which round, which client, what for, and what is to be reported; ``model`` and ``config`` name the records."""

    t: int = 0
    client: int = 0
    purpose: str = "train"
    reports: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    signal: str = ""
    model: str = "arrays"
    config: str = "config"

    def record(self) -> ConfigRecord:
        """As a record of a message."""
        return ConfigRecord({k: list(v) if isinstance(v, tuple) else v for k, v in vars(self).items()})

    @classmethod
    def of(cls, content: RecordDict) -> Task | None:
        """The task in a message; None in a message that a strategy of somebody else's sent."""
        if TASK not in content:
            return None
        told: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in content[TASK].items()}
        plain = vars(cls())
        strange = [key for key, value in told.items() if key not in plain or type(value) is not type(plain[key])]
        if strange or not all(isinstance(name, str) for name in (*told.get("reports", ()), *told.get("facts", ()))):
            raise bad("task", f"made of {', '.join(plain)}", ", ".join(strange) or "names that are no texts")
        return cls(**told)


def query(signal: Signal) -> str:
    """The message type that asks for a signal; a sketch is asked of the vector that it folds."""
    return f"query.{action(base(signal.name)[0])}"


def action(name: str) -> str:
    """A signal's name as Flower wants it: a Python identifier."""
    return name.replace("-", "_")


def base(name: str) -> tuple[str, int | None, int]:
    """(signal, dim, seed) of a sketch's name; dim is None for any other signal."""
    found = SKETCH.fullmatch(name)
    if found is None:
        return name, None, 0
    return found["base"], int(found["dim"]), int(found["seed"] or 0)


def found(name: str, known: Mapping[str, Signal]) -> Signal | None:
    """The signal of this name among ``known``, folded where a sketch is meant; None if there is none."""
    if name in known:
        return known[name]
    plain, dim, seed = base(name)
    return known[plain].sketch(dim, seed) if dim is not None and plain in known else None


# -- arrays ------------------------------------------------------------------------------------------------------------


def tables(record: ArrayRecord) -> dict[str, arrays.Array]:
    """The record's arrays by name."""
    return {name: item.numpy() for name, item in record.items()}


def received(content: RecordDict, key: str) -> dict[str, arrays.Array]:
    """The arrays of a record that a client sent; empty if there is none that can be read."""
    try:
        found = content.get(key)
        told = tables(found) if isinstance(found, ArrayRecord) else {}
    except FOREIGN:
        return {}
    return told if all(isinstance(value, np.ndarray) for value in told.values()) else {}  # an archive is no array


def record(values: Mapping[str, Any]) -> ArrayRecord:
    """Named arrays as a record."""
    return ArrayRecord({name: Array(np.asarray(value, order="C")) for name, value in values.items()})


def flatten(model: Mapping[str, arrays.Array]) -> arrays.Array:
    """The floating arrays of a model, one after the other (P,); counters (``num_batches_tracked``) are left out."""
    parts = [value.reshape(-1) for value in model.values() if value.dtype.kind == "f"]
    return np.concatenate(parts) if parts else np.empty(0, np.float32)


def unflatten(vector: arrays.Array, like: Mapping[str, arrays.Array]) -> dict[str, arrays.Array]:
    """A vector (P,) as the arrays that :func:`flatten` took it from."""
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


def fault(model: Mapping[str, arrays.Array], like: Mapping[str, arrays.Array]) -> str:
    """What is wrong with a model that a client sent, in words; empty if nothing is."""
    if model.keys() != like.keys():
        strange = sorted(model.keys() ^ like.keys())
        return f"arrays {strange[:3]} missing or unknown" if model else "no model"
    for name, value in model.items():
        if value.shape != like[name].shape:
            return f"{name} of shape {value.shape} in place of {like[name].shape}"
        if value.dtype.kind not in "fiub":
            return f"{name} holds no numbers"
        if like[name].dtype.kind != "f" and value.dtype.kind != like[name].dtype.kind:
            return f"{name} of type {value.dtype} in place of {like[name].dtype}"
        with np.errstate(over="ignore"):  # finite as it was sent may be infinite as it is kept
            if value.dtype.kind == "f" and not np.isfinite(value.astype(like[name].dtype)).all():
                return f"{name} is not finite"
    return ""

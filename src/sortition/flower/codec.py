"""What travels between server and clients: message types, the assignment beside a model, rows of signals.

Every message of ours carries the records of an ordinary train message (model, config) and an assignment: the round, the
client's dense id and the purpose, which together with a client's own seed fix everything random there.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from sortition.core import arrays
from sortition.core.errors import bad
from sortition.core.signals import parse_sketch_name
from sortition.core.storage.npz import read_header
from sortition.core.storage.snapshot import UNREADABLE

RECORD_PREFIX = "sortition."  # how the names of our records begin
ASSIGNMENT = RECORD_PREFIX + "task"
PAYLOAD = RECORD_PREFIX + "payload"
ROWS = RECORD_PREFIX + "rows"
FACTS = RECORD_PREFIX + "facts"
SELF = RECORD_PREFIX + "self"
PROFILE = "query.profile"  # the message type that asks who a node is
REHEARSE = "query.rehearse"  # the message type that asks for a training that leaves no trace


@dataclass(frozen=True)
class Assignment:
    """Which round, which client, what for, and which signals are wanted; ``model`` and ``config`` name the records.

    ``kind`` is the type of the strategy's train messages, for a client that trains to answer a question.
    A client without one of the ``facts`` cannot take part; one of the ``optional`` facts it may leave out.
    """

    t: int = 0
    client: int = 0
    purpose: str = "train"
    signals: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    model: str = "arrays"
    config: str = "config"
    kind: str = "train"

    def record(self) -> ConfigRecord:
        """Return it as a record of a message; values that are as usual are left out."""
        record = ConfigRecord()
        for name, value in vars(self).items():
            if value == DEFAULTS[name]:
                continue
            if isinstance(value, tuple):
                record[name] = list(value)
            else:
                record[name] = value
        return record

    @classmethod
    def of(cls, content: RecordDict) -> Assignment | None:
        """Read the assignment in a message; None in a message that another strategy sent."""
        if ASSIGNMENT not in content:
            return None
        fields: dict[str, Any] = {}
        for key, value in content[ASSIGNMENT].items():
            if isinstance(value, list):
                fields[key] = tuple(value)
            else:
                fields[key] = value
        unknown_keys = [
            key for key, value in fields.items() if key not in DEFAULTS or type(value) is not type(DEFAULTS[key])
        ]
        if unknown_keys:
            raise bad("task", f"made of {', '.join(DEFAULTS)}", ", ".join(unknown_keys))
        names = [name for key in ("signals", "facts", "optional") for name in fields.get(key, ())]
        if not all(isinstance(name, str) for name in names):
            raise bad("task", f"made of {', '.join(DEFAULTS)}", "names that are no texts")
        return cls(**fields)


DEFAULTS: dict[str, object] = vars(Assignment())


def without_ours(content: RecordDict) -> RecordDict:
    """Return the records of an ordinary message: what Flower's mods and an app's own functions expect, and no more."""
    return RecordDict({name: record for name, record in content.items() if not name.startswith(RECORD_PREFIX)})


def query(name: str) -> str:
    """Return the message type that asks for a signal; a sketch is asked of the vector that it folds."""
    return query_of(parse_sketch_name(name)[0])


def query_of(name: str) -> str:
    """Return the message type for a signal's name, which Flower wants to be a Python identifier."""
    return f"query.{name.replace('-', '_')}"


# -- arrays ------------------------------------------------------------------------------------------------------------


def to_arrays(record: ArrayRecord) -> dict[str, arrays.Array]:
    """Return the record's arrays by name."""
    return {name: item.numpy() for name, item in record.items()}


def view_arrays(record: ArrayRecord) -> dict[str, arrays.Array]:
    """Return the record's arrays by name without copying them; they are read only."""
    return {name: _view(item) for name, item in record.items()}


def to_record(values: Mapping[str, npt.ArrayLike]) -> ArrayRecord:
    """Make a record of named arrays."""
    return ArrayRecord({name: Array(np.asarray(value, order="C")) for name, value in values.items()})


def received_arrays(content: RecordDict, key: str) -> dict[str, arrays.Array]:
    """Return the arrays of a record that a client sent; none if it cannot be read."""
    try:
        record = content.get(key)
        if isinstance(record, ArrayRecord):
            return view_arrays(record)
    except UNREADABLE:
        return {}
    return {}


def _view(item: Array) -> arrays.Array:
    """Return the array in an item's bytes, without a copy of them; it is read only."""
    file = io.BytesIO(item.data)
    shape, by_column, dtype = read_header(file)
    if dtype.hasobject or any(length < 0 for length in shape):
        raise ValueError("it holds no numbers")
    size = math.prod(shape)
    flat = np.empty(0, dtype)
    if size:
        flat = np.frombuffer(item.data, dtype, size, file.tell())
    if by_column:
        return flat.reshape(shape[::-1]).T
    return flat.reshape(shape)

"""A selector's memory: a dataclass whose fields say which axis runs over clients and what fills it when clients join.

So growth, copies, snapshots and the check that memory is linear in N are written once, here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import StorageError, UndeclaredError, bad, closest

_AXES = "sortition_axes"
_NUMBERS = "fiub"  # kinds of dtype that a snapshot holds


def per_client(fill: float = 0.0, *, dtype: type = float, width: int | None = None) -> Any:
    """One entry a client; with ``width``, one row (0: a width that the first readings fix)."""
    shape = () if width is None else (width,)
    return field(default=None, metadata={_AXES: 1, "fill": fill, "dtype": dtype, "shape": shape})


def per_pair(fill: float = 0.0, *, dtype: type = float) -> Any:
    """One entry per pair of clients: N × N, for methods that stop scaling at a few thousand clients."""
    return field(default=None, metadata={_AXES: 2, "fill": fill, "dtype": dtype, "shape": ()})


def shared(value: Any = None) -> Any:
    """A value of no client axis: a number, or an array of any shape (given here empty, as ``None``)."""
    _check_kept("shared(value)", value)
    return field(default=value, metadata={_AXES: 0})


@dataclass
class State:
    """What the next round needs to know of the earlier ones; without fields, nothing.

    Only declared fields can be set, and only to numbers and arrays: anything else would not survive the round.
    """

    n_clients: int

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse what would be lost with the round (no field), or with a restart (neither number nor array)."""
        who, declared = f"{type(self).__name__}.{name}", type(self).__dataclass_fields__
        if name not in declared:
            raise UndeclaredError(
                f"{who} cannot be set: {type(self).__name__} declares {', '.join(declared)}.{closest(name, declared)} "
                f"A round keeps declared fields alone. Declare it in the memory, a @dataclass: {name}: np.ndarray = "
                f"per_client() for one value a client, {name}: float = shared(0.0) for one in all."
            )
        _check_kept(who, value)
        object.__setattr__(self, name, value)

    def __post_init__(self) -> None:
        for item in fields(self):
            if item.metadata.get(_AXES) and getattr(self, item.name) is None:
                shape = (self.n_clients,) * item.metadata[_AXES] + item.metadata["shape"]
                setattr(self, item.name, np.full(shape, item.metadata["fill"], item.metadata["dtype"]))

    def axes(self) -> dict[str, int]:
        """How many axes of each field run over clients."""
        return {item.name: item.metadata[_AXES] for item in fields(self) if _AXES in item.metadata}

    def copy(self) -> Self:
        """An independent copy."""
        twin = object.__new__(type(self))
        for item in fields(self):
            value = getattr(self, item.name)
            setattr(twin, item.name, value.copy() if isinstance(value, np.ndarray) else value)
        return twin

    def grow(self, n_clients: int) -> None:
        """Make room for clients that joined; those who were there keep their ids and values."""
        extra = n_clients - self.n_clients
        if extra <= 0:
            return
        larger: dict[str, Any] = {"n_clients": n_clients}
        for item in fields(self):
            axes = item.metadata.get(_AXES, 0)
            if axes:
                value = getattr(self, item.name)
                padding = [(0, extra)] * axes + [(0, 0)] * (value.ndim - axes)
                larger[item.name] = np.pad(value, padding, constant_values=item.metadata["fill"])
        for name, value in larger.items():
            setattr(self, name, value)

    def arrays(self) -> dict[str, Array]:
        """Every field as a named array; an absent (None) one is left out."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: np.asarray(value) for name, value in values.items() if value is not None}

    @classmethod
    def restored(cls, arrays: Mapping[str, Array]) -> Self:
        """The state that :meth:`arrays` described; other kinds of numbers and other shapes are refused."""
        state = cls(1)  # the kinds of its fields; what the file says of N may be anything
        state.n_clients = cls._stored_clients(arrays)
        for item in fields(cls):
            axes, start = item.metadata.get(_AXES, 0), getattr(state, item.name)
            value = arrays.get(item.name)
            if value is None and start is None:
                continue
            fault = "is missing" if value is None else _misfit(value, start, axes, state.n_clients)
            if value is None or fault:
                raise StorageError(f"Snapshot does not fit {cls.__qualname__}: field {item.name!r} {fault}.")
            single = value.ndim == 0 and not isinstance(start, np.ndarray)
            setattr(state, item.name, value.item() if single else value.copy())
        return state

    @classmethod
    def _stored_clients(cls, arrays: Mapping[str, Array]) -> int:
        """N of a snapshot that has no field that is unknown here."""
        unknown = sorted(set(arrays) - {item.name for item in fields(cls)})
        if unknown or "n_clients" not in arrays:
            missing = "" if unknown else " n_clients is missing."
            raise StorageError(f"Snapshot does not fit {cls.__qualname__}: unknown fields {unknown}.{missing}")
        n = arrays["n_clients"]
        if n.shape != () or n.dtype.kind not in "iu" or n < 1:
            raise StorageError(f"Snapshot does not fit {cls.__qualname__}: n_clients must be a number ≥ 1.")
        return int(n)


def _check_kept(who: str, value: Any) -> None:
    """Refuse values that a snapshot cannot hold, and that two rounds would share."""
    if value is None or isinstance(value, bool | int | float):
        return
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in _NUMBERS:
        return
    kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    hint = "Lists become arrays; what is kept by client belongs in per_client(), by pair in per_pair()."
    raise bad(who, "a number, an array of numbers or None", kind, hint)


def _misfit(value: Array, start: Any, axes: int, n: int) -> str:
    """How a stored value differs from what the field holds at first; a width of 0 takes any, None any numbers."""
    kind = "f" if isinstance(start, float) else np.asarray(start).dtype.kind
    kinds = {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}.get(kind, "fiub")
    if value.dtype.kind not in kinds:
        return f"has type {value.dtype}"
    if axes:
        free = start.ndim > axes and start.shape[axes] == 0
        rest = value.shape[axes:] if free and value.ndim == start.ndim else start.shape[axes:]
        return "" if value.shape == (n,) * axes + rest else f"has shape {value.shape} for {n} clients"
    return f"has shape {value.shape}" if start is not None and not isinstance(start, np.ndarray) and value.ndim else ""

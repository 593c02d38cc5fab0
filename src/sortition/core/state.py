"""A selector's memory: a dataclass whose fields say which axis runs over clients and what fills it when clients join.

So growth, copies, snapshots and the check that memory is linear in N are written once, here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import StorageError, UndeclaredError, bad, suggest_name

_AXES = "sortition_axes"
_NUMBERS = "fiub"  # kinds of dtype that a snapshot holds
# the kinds of dtype that a stored value may have, by the kind that the field has at first
_FITTING_KINDS = {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}

Value = bool | int | float | np.generic | Array | None  # what a field holds


def per_client(fill: float = 0.0, *, dtype: type = float, width: int | None = None) -> Any:  # as dataclasses.field
    """Declare a field with one entry a client; with ``width``, one row (0: a width that the first readings fix)."""
    shape = () if width is None else (width,)
    return field(default=None, metadata={_AXES: 1, "fill": fill, "dtype": dtype, "shape": shape})


def per_pair(fill: float = 0.0, *, dtype: type = float) -> Any:
    """Declare a field with one entry per pair, N × N, for methods that stop scaling at a few thousand clients."""
    return field(default=None, metadata={_AXES: 2, "fill": fill, "dtype": dtype, "shape": ()})


def shared(value: Value = None) -> Any:
    """Declare a field of no client axis: a number, or an array of any shape (given here empty, as ``None``)."""
    _check_storable("shared(value)", value)
    return field(default=value, metadata={_AXES: 0})


@dataclass
class State:
    """What the next round needs to know of the earlier ones; without fields, nothing.

    Only declared fields can be set, and only to numbers and arrays: anything else would not survive the round.
    """

    n_clients: int

    def __setattr__(self, name: str, value: Value) -> None:
        """Refuse what would be lost with the round (no field), or with a restart (neither number nor array)."""
        owner = type(self).__name__
        declared = type(self).__dataclass_fields__
        if name not in declared:
            raise UndeclaredError(
                f"{owner}.{name} cannot be set: {owner} declares {', '.join(declared)}.{suggest_name(name, declared)} "
                f"A round keeps declared fields alone. Declare it in the memory, a @dataclass: {name}: np.ndarray = "
                f"per_client() for one value a client, {name}: float = shared(0.0) for one in all."
            )
        _check_storable(f"{owner}.{name}", value)
        object.__setattr__(self, name, value)

    def __post_init__(self) -> None:
        for item in fields(self):
            if item.metadata.get(_AXES) and getattr(self, item.name) is None:
                shape = (self.n_clients,) * item.metadata[_AXES] + item.metadata["shape"]
                setattr(self, item.name, np.full(shape, item.metadata["fill"], item.metadata["dtype"]))

    def axes(self) -> dict[str, int]:
        """Return how many axes of each field run over clients."""
        return {item.name: item.metadata[_AXES] for item in fields(self) if _AXES in item.metadata}

    def copy(self) -> Self:
        """Return an independent copy."""
        twin = object.__new__(type(self))
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, np.ndarray):
                value = value.copy()
            setattr(twin, item.name, value)
        return twin

    def grow(self, n_clients: int) -> None:
        """Make room for clients that joined; those who were there keep their ids and values."""
        n_new = n_clients - self.n_clients
        if n_new <= 0:
            return
        larger: dict[str, Array] = {}
        for item in fields(self):
            axes = item.metadata.get(_AXES, 0)
            if axes:
                value = getattr(self, item.name)
                padding = [(0, n_new)] * axes + [(0, 0)] * (value.ndim - axes)
                larger[item.name] = np.pad(value, padding, constant_values=item.metadata["fill"])
        self.n_clients = n_clients
        for name, array in larger.items():
            setattr(self, name, array)

    def arrays(self) -> dict[str, Array]:
        """Return every field as a named array; an absent (None) one is left out."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: np.asarray(value) for name, value in values.items() if value is not None}

    @classmethod
    def restored(cls, arrays: Mapping[str, Array]) -> Self:
        """Return the state that :meth:`arrays` described; refuse other kinds of numbers and other shapes."""
        state = cls(1)  # the kinds of its fields; what the file says of N may be anything
        state.n_clients = cls._stored_clients(arrays)
        for item in fields(cls):
            first_value = getattr(state, item.name)
            stored = arrays.get(item.name)
            if stored is None:
                if first_value is None:
                    continue
                raise _misfit_error(cls, f"field {item.name!r} is missing.")
            fault = _describe_misfit(stored, first_value, item.metadata.get(_AXES, 0), state.n_clients)
            if fault:
                raise _misfit_error(cls, f"field {item.name!r} {fault}.")
            if stored.ndim == 0 and not isinstance(first_value, np.ndarray):
                setattr(state, item.name, stored.item())
            else:
                setattr(state, item.name, stored.copy())
        return state

    @classmethod
    def _stored_clients(cls, arrays: Mapping[str, Array]) -> int:
        """Return N of a snapshot; refuse one with a field that is unknown here."""
        unknown = sorted(set(arrays) - {item.name for item in fields(cls)})
        if unknown:
            raise _misfit_error(cls, f"unknown fields {unknown}.")
        if "n_clients" not in arrays:
            raise _misfit_error(cls, "n_clients is missing.")
        n = arrays["n_clients"]
        if n.shape != () or n.dtype.kind not in "iu" or n < 1:
            raise _misfit_error(cls, "n_clients must be a number ≥ 1.")
        return int(n)


def _misfit_error(cls: type[State], reason: str) -> StorageError:
    """Make the error for a snapshot that is not of this state."""
    return StorageError(f"Snapshot does not fit {cls.__qualname__}: {reason}")


def _check_storable(subject: str, value: object) -> None:
    """Refuse values that a snapshot cannot hold, and that two rounds would share."""
    if value is None or isinstance(value, bool | int | float):
        return
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in _NUMBERS:
        return
    kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    hint = "Lists become arrays; what is kept by client belongs in per_client(), by pair in per_pair()."
    raise bad(subject, "a number, an array of numbers or None", kind, hint)


def _describe_misfit(stored: Array, first_value: Value, axes: int, n_clients: int) -> str:
    """Say how a stored value differs from the field's first value; empty if it fits.

    A width of 0 takes any width, and None any numbers.
    """
    kind = "f" if isinstance(first_value, float) else np.asarray(first_value).dtype.kind
    if stored.dtype.kind not in _FITTING_KINDS.get(kind, _NUMBERS):
        return f"has type {stored.dtype}"
    if isinstance(first_value, np.ndarray):
        if not axes:
            return ""
        row_shape = first_value.shape[axes:]
        takes_any_width = first_value.ndim > axes and first_value.shape[axes] == 0
        if takes_any_width and stored.ndim == first_value.ndim:
            row_shape = stored.shape[axes:]
        if stored.shape != (n_clients,) * axes + row_shape:
            return f"has shape {stored.shape} for {n_clients} clients"
        return ""
    if first_value is not None and stored.ndim:
        return f"has shape {stored.shape}"
    return ""

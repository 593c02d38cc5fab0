"""Models and updates that stay on an accelerator between rounds, and the two gates between it and the host.

Whoever holds a model or a cohort's updates treats them as arrays. On a CPU they are arrays. On any other device they
are of type :class:`ResidentArray`: arithmetic and weighted sums are computed where the numbers lie, and numbers travel
when somebody reads them. Everything else that NumPy does with an array happens on the host, on one copy of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin
from torch import Tensor

from sortition.core.arrays import Array, Floats

Index = Sequence[int] | npt.NDArray[np.integer[Any]] | npt.NDArray[np.bool_]

# ---- the two gates


def to_device(values: npt.ArrayLike, device: torch.device) -> Tensor:
    """Return values on a device, as a copy; those of an array that is already there stay there."""
    if isinstance(values, ResidentArray) and values.tensor.device == device:
        return values.tensor
    return torch.tensor(np.asarray(values), device=device)


def to_host(tensor: Tensor) -> Array:
    """Return a tensor of any device as an array; on a CPU both share their memory."""
    return tensor.cpu().numpy()


def to_host_together(tensors: Sequence[Tensor]) -> list[Array]:
    """Return tensors of one device as arrays, after a single transfer where it is not the CPU."""
    if not tensors or tensors[0].device.type == "cpu":
        return [to_host(tensor) for tensor in tensors]
    numbers = to_host(torch.cat([tensor.reshape(-1) for tensor in tensors]))
    parts = np.split(numbers, np.cumsum([tensor.numel() for tensor in tensors])[:-1])
    return [part.reshape(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


def lives_on_device(device: torch.device) -> bool:
    """Tell whether models and updates stay on this device: on a CPU they are arrays."""
    return device.type != "cpu"


# ---- arrays that stay


def as_resident(tensor: Tensor) -> Array:
    """Return a tensor as an array: on a CPU in the same memory, on another device one that stays there."""
    if lives_on_device(tensor.device):
        return cast(Array, ResidentArray(tensor))
    return tensor.numpy()


def empty_rows(n_rows: int, n_columns: int, device: torch.device) -> npt.NDArray[np.float32]:
    """Return rows that their owner is going to fill, where models and updates of this device are kept."""
    if lives_on_device(device):
        return as_resident(torch.empty(n_rows, n_columns, device=device))
    return np.empty((n_rows, n_columns), np.float32)


OPERATIONS: dict[np.ufunc, Callable[..., Tensor]] = {
    np.add: torch.add,
    np.subtract: torch.sub,
    np.multiply: torch.mul,
    np.divide: torch.div,
    np.power: torch.pow,
    np.negative: torch.neg,
    np.sqrt: torch.sqrt,
    np.matmul: torch.matmul,
}


class ResidentArray(NDArrayOperatorsMixin):
    """A model (P,), or the updates of a cohort (k, P), on an accelerator.

    The host's copy is made once, and made anew after the numbers were written. Rows that were taken before keep theirs.

    Attributes:
        tensor: the numbers.
    """

    def __init__(self, tensor: Tensor, rows: ResidentArray | None = None, row: int = 0) -> None:
        self.tensor = tensor
        self._rows = rows  # of which this is one
        self._row = row
        self._host: Array | None = None
        self._columns: dict[tuple[int, int, int], Array] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        """Return how many numbers lie along each axis."""
        return tuple(self.tensor.shape)

    @property
    def size(self) -> int:
        """Return how many numbers there are."""
        return self.tensor.numel()

    @property
    def ndim(self) -> int:
        """Return how many axes there are."""
        return self.tensor.dim()

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the type of the numbers, as NumPy calls it."""
        return np.dtype(str(self.tensor.dtype).removeprefix("torch."))

    def __len__(self) -> int:
        return len(self.tensor)

    def __repr__(self) -> str:
        return f"ResidentArray(shape={self.shape}, dtype={self.dtype}, device={str(self.tensor.device)!r})"

    # -- on the host

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        """Return the numbers on the host; a row comes with all rows, since others will be read, too."""
        if self._host is None:
            self._host = to_host(self.tensor) if self._rows is None else np.asarray(self._rows)[self._row]
            self._host.flags.writeable = False
        if copy or (dtype is not None and np.dtype(dtype) != self._host.dtype):
            return np.array(self._host, dtype=dtype)
        return self._host

    def _forget_host(self) -> None:
        """Drop the host's copies, which are of before the numbers were written."""
        self._host = None
        self._columns = {}

    def copy(self) -> Array:
        """Return a copy on the host that may be written."""
        return np.array(self)

    def _columns_on_host(self, columns: slice) -> Array:
        """Return some columns of all rows, after one transfer."""
        span = columns.indices(self.shape[1])
        if span not in self._columns:
            self._columns[span] = to_host(self.tensor[:, columns])
        return self._columns[span]

    # -- on the device

    def __getitem__(self, key: Any) -> Any:
        """Return a row or some rows on the device; a part of a row on the host, with that part of all rows."""
        if self.ndim == 2 and isinstance(key, int | np.integer):
            return ResidentArray(self.tensor[int(key)], rows=self, row=int(key))
        if self.ndim == 2 and isinstance(key, slice):
            return ResidentArray(self.tensor[key])
        if self.ndim == 2 and isinstance(key, list | np.ndarray):
            return ResidentArray(self.tensor.index_select(0, self._index(key)))
        if self._rows is not None and isinstance(key, slice):
            return self._rows._columns_on_host(key)[self._row]
        return np.asarray(self)[key]

    def _index(self, rows: Index) -> Tensor:
        positions = np.asarray(rows)
        if positions.dtype == bool:
            positions = np.flatnonzero(positions)
        return to_device(positions.astype(np.int64), self.tensor.device)

    def write_rows(self, rows: Sequence[int], values: Tensor) -> None:
        """Write some rows."""
        first = rows[0]
        if list(rows) == list(range(first, first + len(rows))):
            self.tensor[first : first + len(rows)] = values
        else:
            self.tensor.index_copy_(0, self._index(rows), values)
        self._forget_host()

    def astype(self, dtype: npt.DTypeLike, copy: bool = True) -> ResidentArray:
        """Return the numbers in another type, on the device."""
        if self.tensor.device.type == "mps" and np.dtype(dtype) == np.float64:  # which it does not have
            dtype = np.float32
        return ResidentArray(self.tensor.to(getattr(torch, np.dtype(dtype).name)))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute on the device what is known there; otherwise on the host."""
        target = options.pop("out", (None,))[0]
        operation = OPERATIONS.get(ufunc)
        if operation is None or method != "__call__" or options or isinstance(target, np.ndarray):
            if target is not None:
                options["out"] = (target,)
            return getattr(ufunc, method)(*_on_host(inputs), **options)
        result = operation(*[self._operand(value) for value in inputs])
        if target is None:
            return ResidentArray(result)
        target.tensor.copy_(result)
        target._forget_host()
        return target

    def _operand(self, value: Any) -> Tensor | float:
        if isinstance(value, ResidentArray):
            return value.tensor
        if isinstance(value, np.ndarray) and value.ndim:
            return to_device(value, self.tensor.device)
        return float(value)

    def __array_function__(
        self, function: Callable[..., Any], types: Iterable[type], args: Sequence[Any], options: dict[str, Any]
    ) -> Any:
        """Call the version of a function that works on the device, or the function itself on the host."""
        on_device = FUNCTIONS.get(function)
        if on_device is not None:
            return on_device(*args, **options)
        return function(*_on_host(args), **dict(zip(options, _on_host(options.values()), strict=True)))


def _on_host(values: Iterable[Any]) -> list[Any]:
    """Return arguments of a function of NumPy with what lies on a device brought to the host."""
    hosted: list[Any] = []
    for value in values:
        if isinstance(value, ResidentArray):
            hosted.append(np.asarray(value))
        elif isinstance(value, list | tuple):
            hosted.append(type(value)(_on_host(value)))
        else:
            hosted.append(value)
    return hosted


# ---- functions of NumPy that have a version on the device


def _stack(arrays: Sequence[Any]) -> ResidentArray:
    device = next(array.tensor.device for array in arrays if isinstance(array, ResidentArray))
    return ResidentArray(torch.stack([to_device(array, device) for array in arrays]))


def _concatenate(arrays: Sequence[Any]) -> ResidentArray:
    device = next(array.tensor.device for array in arrays if isinstance(array, ResidentArray))
    return ResidentArray(torch.cat([to_device(array, device) for array in arrays]))


def _delete(rows: ResidentArray, removed: Sequence[int], axis: int) -> Any:
    """Return the other rows on the device; other columns on the host."""
    if axis != 0:
        return np.delete(np.asarray(rows), removed, axis=axis)
    remaining_rows: ResidentArray = rows[np.delete(np.arange(len(rows)), removed)]
    return remaining_rows


def _einsum(subscripts: str, left: ResidentArray, right: ResidentArray) -> Floats:
    """Return one number a client, which guards and selectors read, on the host."""
    return to_host(torch.einsum(subscripts, left.tensor, right.tensor))


FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.stack: _stack,
    np.concatenate: _concatenate,
    np.delete: _delete,
    np.einsum: _einsum,
}

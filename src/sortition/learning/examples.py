"""The examples of a data set on a device, as models take them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from math import prod

import torch
from torch import Tensor

from sortition.learning.objective import ModelInputs


def first_rows(rows: Tensor, count: int) -> Tensor:
    """Return a view of the first rows; the tensor itself where these are all."""
    if count == rows.size(0):
        return rows
    return rows.narrow(0, 0, count)


class Examples:
    """All examples of a data set; images lie channels-last, so that gathering them is one copy.

    With a ``scale``, ``x`` are bytes, and those that are taken become floats times the scale: a quarter of the memory
    is filled and read, and the numbers are those of examples that were scaled all at once.
    """

    def __init__(self, x: Tensor, *, channels_last: bool = True, scale: float | None = None) -> None:
        self.is_image = x.ndim == 4 and channels_last
        self.shape = tuple(x.shape[1:])
        self.rows = x
        if self.is_image:
            self.rows = x.permute(0, 2, 3, 1).contiguous()
        self.scale = scale
        self.source: Hashable = id(self)  # the same for examples that were made of the same array
        if x.device.type == "cpu":
            self.source = (x.data_ptr(), x.shape)

    @property
    def numbers(self) -> int:
        """Return how many numbers an example has."""
        return prod(self.shape)

    @property
    def is_whole(self) -> bool:
        """Tell whether models get whole numbers."""
        return self.rows.dtype == torch.int64

    @property
    def description(self) -> str:
        """Describe type and shape of one example as models get it."""
        dtype = self.rows.dtype
        if self.scale is not None:
            dtype = torch.float32
        return f"{str(dtype).removeprefix('torch.')} of shape {self.shape}"

    def take(self, index: Tensor) -> Tensor:
        """Return the examples (B, …) of an index array (B,), images as (B, channels, height, width)."""
        return self._as_model_input(self._scaled(self.rows.index_select(0, index)))

    def parts(self, rows_per_part: int, index: Tensor | None = None) -> Iterator[tuple[slice, Tensor]]:
        """Yield all examples, or those of an index array, in parts: where each stands, and what :meth:`take` gives.

        A part has at most ``rows_per_part`` examples and is valid until the next is taken: all lie in the same memory,
        since new memory for each costs as much as the product that reads it.
        """
        n = len(self.rows)
        if index is not None:
            n = len(index)
        spans = [slice(start, min(start + rows_per_part, n)) for start in range(0, n, rows_per_part)]
        if index is not None:
            blocks = self.batches([index[span] for span in spans])
        else:
            blocks = map(self._scaler(min(rows_per_part, n)), (self.rows[span] for span in spans))
        yield from zip(spans, map(self._as_model_input, blocks), strict=True)

    def batches(self, indices: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yield the rows of one index array after the other; none is longer than the first.

        Rows are valid until the next are taken.
        """
        longest = len(indices[0]) if indices else 0
        buffer = self.rows.new_empty(longest, *self.rows.shape[1:])
        scaled = self._scaler(longest)
        for index in indices:
            yield scaled(torch.index_select(self.rows, 0, index, out=first_rows(buffer, len(index))))

    def _scaler(self, rows_per_part: int) -> Callable[[Tensor], Tensor]:
        """Return a function that makes floats of at most so many rows, in the same memory each time."""
        if self.scale is None:
            return lambda rows: rows
        scale = self.scale
        floats = self.rows.new_empty(rows_per_part, *self.rows.shape[1:], dtype=torch.float32)
        return lambda rows: first_rows(floats, len(rows)).copy_(rows).mul_(scale)

    def _scaled(self, rows: Tensor) -> Tensor:
        if self.scale is None:
            return rows
        return rows.float().mul_(self.scale)

    def _as_model_input(self, rows: Tensor) -> Tensor:
        if self.is_image:
            return rows.permute(0, 3, 1, 2)
        return rows


class SeveralExamples:
    """Examples that consist of several arrays, which a model takes by position or by name."""

    def __init__(self, parts: Mapping[str, Examples], *, by_name: bool) -> None:
        self.by_name = by_name
        self._parts = dict(parts)
        self.source: Hashable = tuple(part.source for part in self._parts.values())

    @property
    def is_image(self) -> bool:
        """Tell whether one of the arrays has images that lie channels-last."""
        return any(part.is_image for part in self._parts.values())

    @property
    def numbers(self) -> int:
        """Return how many numbers an example has."""
        return sum(part.numbers for part in self._parts.values())

    @property
    def is_whole(self) -> bool:
        """Tell whether models get whole numbers in one of the arrays."""
        return any(part.is_whole for part in self._parts.values())

    @property
    def description(self) -> str:
        """Describe type and shape of one example as models get it."""
        return "; ".join(f"{name}: {part.description}" for name, part in self._parts.items())

    def take(self, index: Tensor) -> ModelInputs:
        """Return the examples of an index array (B,)."""
        return self._assembled([part.take(index) for part in self._parts.values()])

    def parts(self, rows_per_part: int, index: Tensor | None = None) -> Iterator[tuple[slice, ModelInputs]]:
        """Yield all examples, or those of an index array, in parts of at most ``rows_per_part``."""
        streams = [part.parts(rows_per_part, index) for part in self._parts.values()]
        for pieces in zip(*streams, strict=True):
            span = pieces[0][0]
            yield span, self._assembled([tensors for _, tensors in pieces])

    def _assembled(self, tensors: Sequence[Tensor]) -> ModelInputs:
        if self.by_name:
            return dict(zip(self._parts, tensors, strict=True))
        return tuple(tensors)


AnyExamples = Examples | SeveralExamples

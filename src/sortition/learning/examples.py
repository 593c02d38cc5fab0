"""The examples of a data set on a device, as models take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor


def first_rows(rows: Tensor, count: int) -> Tensor:
    """Return a view of the first rows; the tensor itself where these are all."""
    if count == rows.size(0):
        return rows
    return rows[:count]


class Examples:
    """All examples of a data set; images lie channels-last, so that gathering them is one copy.

    With a ``scale``, ``x`` are bytes, and those that are taken become floats times the scale: a quarter of the memory
    is filled and read, and the numbers are those of examples that were scaled all at once.
    """

    def __init__(self, x: Tensor, *, channels_last: bool = True, scale: float | None = None) -> None:
        self.image = x.ndim == 4 and channels_last
        self.shape = tuple(x.shape[1:])
        self.rows = x
        if self.image:
            self.rows = x.permute(0, 2, 3, 1).contiguous()
        self.scale = scale

    def take(self, index: Tensor) -> Tensor:
        """Return the examples (B, …) of an index array (B,), images as (B, channels, height, width)."""
        return self._as_model_input(self._scaled(self.rows.index_select(0, index)))

    def parts(self, most: int, index: Tensor | None = None) -> Iterator[tuple[slice, Tensor]]:
        """Yield all examples, or those of an index array, in parts: where each stands, and what :meth:`take` gives.

        A part has at most ``most`` examples and is valid until the next is taken: all lie in the same memory, since
        new memory for each costs as much as the product that reads it.
        """
        n = len(self.rows) if index is None else len(index)
        spans = [slice(start, min(start + most, n)) for start in range(0, n, most)]
        if index is not None:
            blocks = self.batches([index[span] for span in spans])
        else:
            blocks = map(self._scaler(min(most, n)), (self.rows[span] for span in spans))
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

    def _scaler(self, most: int) -> Callable[[Tensor], Tensor]:
        """Return a function that makes floats of at most so many rows, in the same memory each time."""
        if self.scale is None:
            return lambda rows: rows
        scale = self.scale
        floats = self.rows.new_empty(most, *self.rows.shape[1:], dtype=torch.float32)
        return lambda rows: first_rows(floats, len(rows)).copy_(rows).mul_(scale)

    def _scaled(self, rows: Tensor) -> Tensor:
        if self.scale is None:
            return rows
        return rows.float().mul_(self.scale)

    def _as_model_input(self, rows: Tensor) -> Tensor:
        if self.image:
            return rows.permute(0, 3, 1, 2)
        return rows

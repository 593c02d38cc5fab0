"""The examples of a data set on a device, as models take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from sortition.learning.batch_losses import first


class Examples:
    """All examples of a data set; images lie channels-last, so that gathering them is one copy.

    With a ``scale``, ``x`` are bytes, and those that are taken become floats times the scale: a quarter of the memory
    is filled and read, and the numbers are those of examples that were scaled all at once.
    """

    def __init__(self, x: Tensor, *, channels_last: bool = True, scale: float | None = None) -> None:
        self.image = x.ndim == 4 and channels_last
        self.shape = tuple(x.shape[1:])
        self.rows = x.permute(0, 2, 3, 1).contiguous() if self.image else x
        self.scale = scale

    def take(self, index: Tensor) -> Tensor:
        """The examples (B, …) of an index array (B,), images as (B, channels, height, width)."""
        return self._turned(self._scaled(self.rows.index_select(0, index)))

    def parts(self, most: int, index: Tensor | None = None) -> Iterator[tuple[slice, Tensor]]:
        """All examples, or those of an index array, in parts: where each stands, and what :meth:`take` gives.

        A part has at most ``most`` examples and is valid until the next is taken: all lie in the same memory, since
        new memory for each costs as much as the product that reads it.
        """
        n = len(self.rows) if index is None else len(index)
        spots = [slice(start, min(start + most, n)) for start in range(0, n, most)]
        if index is not None:
            taken = self.batches([index[spot] for spot in spots])
        else:
            taken = map(self._scaler(min(most, n)), (self.rows[spot] for spot in spots))
        yield from zip(spots, map(self._turned, taken), strict=True)

    def batches(self, indices: Sequence[Tensor]) -> Iterator[Tensor]:
        """The rows of one index array after the other, none longer than the first; valid until the next are taken."""
        most = len(indices[0]) if indices else 0
        held, scaled = self.rows.new_empty(most, *self.rows.shape[1:]), self._scaler(most)
        for index in indices:
            yield scaled(torch.index_select(self.rows, 0, index, out=first(held, len(index))))

    def _scaler(self, most: int) -> Callable[[Tensor], Tensor]:
        """What makes floats of at most so many rows, in the same memory each time."""
        if self.scale is None:
            return lambda rows: rows
        floats, scale = self.rows.new_empty(most, *self.rows.shape[1:], dtype=torch.float32), self.scale
        return lambda rows: first(floats, len(rows)).copy_(rows).mul_(scale)

    def _scaled(self, rows: Tensor) -> Tensor:
        return rows if self.scale is None else rows.float().mul_(self.scale)

    def _turned(self, rows: Tensor) -> Tensor:
        return rows.permute(0, 3, 1, 2) if self.image else rows

"""The examples of a data set on a device, as models take them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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

    def slice(self, start: int, stop: int) -> Tensor:
        """The examples start … stop − 1."""
        return self._turned(self._scaled(self.rows[start:stop]))

    def batches(self, indices: Sequence[Tensor]) -> Iterator[Tensor]:
        """The rows of one index array after the other, none longer than the first; valid until the next are taken."""
        held = self.rows.new_empty(len(indices[0]), *self.rows.shape[1:])
        floats = held if self.scale is None else held.float()
        for index in indices:
            rows = torch.index_select(self.rows, 0, index, out=first(held, len(index)))
            yield rows if self.scale is None else first(floats, len(index)).copy_(rows).mul_(self.scale)

    def _scaled(self, rows: Tensor) -> Tensor:
        return rows if self.scale is None else rows.float().mul_(self.scale)

    def _turned(self, rows: Tensor) -> Tensor:
        return rows.permute(0, 3, 1, 2) if self.image else rows

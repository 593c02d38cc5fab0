"""Who holds which examples, as one array: a million clients need no million objects."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Ids
from sortition.core.errors import bad


class Holdings:
    """Index arrays of N clients, laid end to end: client k holds ``sizes[k]`` from ``starts[k]`` on."""

    def __init__(self, parts: Sequence[npt.ArrayLike], examples: int, subject: str) -> None:
        arrays = [np.asarray(part, np.int64) for part in parts]
        if not arrays:
            raise bad(subject, "of at least one client", "none")
        self.order = np.concatenate(arrays)
        self.sizes = np.fromiter((array.size for array in arrays), np.int64, len(arrays))
        self.starts = np.cumsum(self.sizes) - self.sizes
        if self.order.size and not 0 <= self.order.min() <= self.order.max() < examples:
            raise bad(subject, f"indices of the {examples} examples", f"{self.order.min()} … {self.order.max()}")

    def __len__(self) -> int:
        return self.sizes.size

    def of(self, client: int) -> Ids:
        """Return the examples of one client."""
        start = self.starts[client]
        return self.order[start : start + self.sizes[client]]

    def reassigned(self, owners: Ids) -> Holdings:
        """Return holdings in which client k holds what client ``owners[k]`` held; nothing is copied."""
        twin = copy.copy(self)
        twin.sizes = self.sizes[owners]
        twin.starts = self.starts[owners]
        return twin

    def gather(self, ids: Ids) -> tuple[Ids, Ids]:
        """Return the examples of several clients end to end, and how many each has."""
        sizes = self.sizes[ids]
        new_starts = np.cumsum(sizes) - sizes
        offsets = np.repeat(self.starts[ids] - new_starts, sizes)
        return self.order[offsets + np.arange(sizes.sum())], sizes

    def label_counts(self, labels: Ids, classes: int) -> Ids:
        """Return how many examples each client has of each label (N, classes)."""
        index, sizes = self.gather(np.arange(len(self)))
        owner = np.repeat(np.arange(len(self)), sizes)
        flat = np.bincount(owner * classes + labels[index], minlength=len(self) * classes)
        return flat.reshape(len(self), classes)

    def mask_counts(self, masks: npt.NDArray[np.floating | np.integer]) -> Ids:
        """Return how many examples of each client have each label of the masks (n, L), as (N, L)."""
        counts = [masks[self.of(client)].sum(axis=0) for client in range(len(self))]
        return np.rint(counts).astype(np.int64)


def means(values: npt.NDArray[np.floating | np.bool_], sizes: Ids) -> npt.NDArray[np.float64]:
    """Return the mean of each stretch of ``values``; no stretch may be empty."""
    starts = np.cumsum(sizes) - sizes
    return np.add.reduceat(values, starts, dtype=np.float64) / sizes

"""Which client holds which examples: saved, hashed and loaded, so that a published partition can be used again."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from sortition.core.arrays import Ids, as_read_only, as_whole_numbers
from sortition.core.errors import StorageError, bad
from sortition.core.storage.npz import read_npz
from sortition.core.storage.snapshot import UNREADABLE
from sortition.core.streams import stream

FORMAT = "sortition partition 1"


@dataclass(frozen=True, eq=False)
class Partition:
    """Disjoint index arrays into the training examples, one per client, ascending.

    Attributes:
        indices: one int64 array per client.
        notes: what had to be repaired or given up to make it, in sentences.
    """

    indices: tuple[Ids, ...]
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        frozen_indices = tuple(as_read_only(as_whole_numbers("partition.indices", indices)) for indices in self.indices)
        object.__setattr__(self, "indices", frozen_indices)
        ascending = np.sort(self._flat)
        if ascending.size and ascending[0] < 0:
            raise bad("partition.indices", "≥ 0", int(ascending[0]))
        repeated = ascending[1:][ascending[1:] == ascending[:-1]]
        if repeated.size:
            raise bad("partition.indices", "each held by one client", f"example {repeated[0]} twice")

    @classmethod
    def of_owners(cls, owners: Ids, clients: int, notes: tuple[str, ...] = ()) -> Partition:
        """Make a partition of the client of each example, (n,), so that no example is lost or given twice."""
        order = np.argsort(owners, kind="stable")
        return cls(_cut_to_sizes(order, np.bincount(owners, minlength=clients)), notes)

    def __len__(self) -> int:
        """Return the number of clients."""
        return len(self.indices)

    @cached_property
    def _flat(self) -> Ids:
        return np.concatenate([*self.indices, np.empty(0, np.int64)])

    @cached_property
    def sizes(self) -> Ids:
        """(N,) examples per client."""
        return np.array([len(indices) for indices in self.indices], dtype=np.int64)

    @cached_property
    def owners(self) -> Ids:
        """(Σ sizes,) the client of each entry of the indices laid end to end."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of sizes and indices as little-endian int64: equal if and only if the partition is."""
        content = self.sizes.astype("<i8").tobytes() + self._flat.astype("<i8").tobytes()
        return hashlib.sha256(content).hexdigest()

    def label_counts(self, labels: Ids, classes: int) -> Ids:
        """Count the examples of each label at each client, (N, classes)."""
        if self._flat.size and self._flat.max() >= len(labels):
            raise bad("labels", f"at least {int(self._flat.max()) + 1} long, as the partition is", len(labels))
        cells = self.owners * classes + np.asarray(labels, np.int64)[self._flat]
        return np.bincount(cells, minlength=len(self) * classes).reshape(len(self), classes)

    def holdout(self, share: float, rng: np.random.Generator | int) -> tuple[Partition, Partition]:
        """Return (train, validation): ⌊share · n_k⌋ random examples of each client, at least one if it has two."""
        if not 0 <= share < 1:
            raise bad("holdout.share", "in [0, 1)", share)
        if not isinstance(rng, np.random.Generator):
            rng = stream(rng, "holdout")
        validation_sizes = np.floor(share * self.sizes).astype(np.int64)
        if share > 0:
            validation_sizes = np.where(self.sizes >= 2, np.maximum(validation_sizes, 1), 0)
        shuffled = self._flat[np.lexsort((rng.random(len(self._flat)), self.owners))]
        ends = np.cumsum(self.sizes)
        starts = ends - self.sizes
        boundaries = starts + validation_sizes
        train = tuple(np.sort(shuffled[boundary:end]) for boundary, end in zip(boundaries, ends, strict=True))
        validation = tuple(
            np.sort(shuffled[start:boundary]) for start, boundary in zip(starts, boundaries, strict=True)
        )
        return Partition(train, self.notes), Partition(validation)

    def save(self, path: str | Path) -> None:
        """Write an npz file of sizes, indices and digest; all or nothing."""
        path = Path(path)
        temporary = path.with_name(f".{path.name}-{os.getpid()}")
        try:
            with temporary.open("wb") as file:
                np.savez_compressed(
                    file,
                    format=np.array(FORMAT),
                    sizes=self.sizes,
                    indices=self._flat,
                    notes=np.array(self.notes, dtype=np.str_),
                    digest=np.array(self.digest),
                )
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise StorageError(f"{path} cannot be written: {error.strerror}.") from error

    @classmethod
    def load(cls, path: str | Path) -> Partition:
        """Read what :meth:`save` wrote; a damaged or foreign file is refused."""
        try:
            stored = read_npz(Path(path))
            if str(stored["format"]) != FORMAT:
                raise StorageError(f"{path} must be a '{FORMAT}' file; got {str(stored['format'])[:40]}.")
            partition = cls(_cut_to_sizes(stored["indices"], stored["sizes"]), tuple(stored["notes"].tolist()))
            digest = str(stored["digest"])
        except UNREADABLE as error:
            raise StorageError(f"{path} cannot be read as a partition: {error}.") from error
        if partition.digest != digest:
            raise StorageError(
                f"{path} must have digest {digest[:12]}…; got {partition.digest[:12]}…. The file is damaged."
            )
        return partition


def _cut_to_sizes(flat: Ids, sizes: Ids) -> tuple[Ids, ...]:
    """Cut an array into pieces of these sizes; numpy's split takes ten times as long for 100,000 pieces."""
    ends = np.cumsum(sizes).tolist()
    return tuple(flat[start:end] for start, end in zip([0, *ends][:-1], ends, strict=True))

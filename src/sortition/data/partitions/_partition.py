"""Who holds which examples: saved, hashed and loaded, because publishing it makes another lab's number comparable."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from sortition.core.arrays import Ids, as_whole, frozen
from sortition.core.errors import StorageError, bad
from sortition.core.storage.npz import read_npz
from sortition.core.storage.snapshot import FOREIGN
from sortition.core.streams import stream

FORMAT = "sortition partition 1"


@dataclass(frozen=True, eq=False)
class Partition:
    """Disjoint index arrays into the training examples, one per client, ascending.

    Attributes:
        indices: one int64 array per client.
        notes: what had to be repaired or given up to make it, in words.
    """

    indices: tuple[Ids, ...]
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        given = tuple(frozen(as_whole("partition.indices", one)) for one in self.indices)
        object.__setattr__(self, "indices", given)
        held = np.sort(self._flat)
        if held.size and held[0] < 0:
            raise bad("partition.indices", "≥ 0", int(held[0]))
        if (twice := held[1:][held[1:] == held[:-1]]).size:
            raise bad("partition.indices", "each held by one client", f"example {twice[0]} twice")

    @classmethod
    def of_owners(cls, owners: Ids, clients: int, notes: tuple[str, ...] = ()) -> Partition:
        """From the client of each example, (n,): then nothing is lost and nothing is given twice."""
        order = np.argsort(owners, kind="stable")
        return cls(_cut(order, np.bincount(owners, minlength=clients)), notes)

    def __len__(self) -> int:
        """Number of clients."""
        return len(self.indices)

    @cached_property
    def _flat(self) -> Ids:
        return np.concatenate([*self.indices, np.empty(0, np.int64)])

    @cached_property
    def sizes(self) -> Ids:
        """(N,) examples per client."""
        return np.array([len(one) for one in self.indices], dtype=np.int64)

    @cached_property
    def owners(self) -> Ids:
        """(Σ sizes,) the client of each entry of the indices laid end to end."""
        return np.repeat(np.arange(len(self)), self.sizes)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of sizes and indices as little-endian int64: equal if and only if the partition is."""
        return hashlib.sha256(self.sizes.astype("<i8").tobytes() + self._flat.astype("<i8").tobytes()).hexdigest()

    def label_counts(self, labels: Ids, classes: int) -> Ids:
        """(N, classes) examples of each label at each client."""
        if self._flat.size and self._flat.max() >= len(labels):
            raise bad("labels", f"at least {int(self._flat.max()) + 1} long, as the partition is", len(labels))
        cells = self.owners * classes + np.asarray(labels, np.int64)[self._flat]
        return np.bincount(cells, minlength=len(self) * classes).reshape(len(self), classes)

    def holdout(self, share: float, rng: np.random.Generator | int) -> tuple[Partition, Partition]:
        """Per client (train, validation): ⌊share · n_k⌋ random examples held back, one at least if there are two."""
        if not 0 <= share < 1:
            raise bad("holdout.share", "in [0, 1)", share)
        rng = rng if isinstance(rng, np.random.Generator) else stream(rng, "holdout")
        held = np.floor(share * self.sizes).astype(np.int64)
        if share > 0:
            held = np.where(self.sizes >= 2, np.maximum(held, 1), 0)
        shuffled = self._flat[np.lexsort((rng.random(len(self._flat)), self.owners))]
        starts = np.cumsum(self.sizes) - self.sizes
        parts = [
            (np.sort(shuffled[s + h : s + n]), np.sort(shuffled[s : s + h]))
            for s, h, n in zip(starts, held, self.sizes, strict=True)
        ]
        return Partition(tuple(a for a, _ in parts), self.notes), Partition(tuple(b for _, b in parts))

    def save(self, path: str | Path) -> None:
        """Write an npz file of sizes, indices and digest; all or nothing."""
        path = Path(path)
        temporary = path.with_name(f".{path.name}-{os.getpid()}")
        try:
            with temporary.open("wb") as out:
                np.savez_compressed(
                    out,
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
            sizes, flat = stored["sizes"], stored["indices"]
            made = cls(_cut(flat, sizes), tuple(stored["notes"].tolist()))
            digest = str(stored["digest"])
        except FOREIGN as error:
            raise StorageError(f"{path} cannot be read as a partition: {error}.") from error
        if made.digest != digest:
            raise StorageError(f"{path} must have digest {digest[:12]}…; got {made.digest[:12]}…. The file is damaged.")
        return made


def _cut(flat: Ids, sizes: Ids) -> tuple[Ids, ...]:
    """Pieces of these sizes; numpy's split takes ten times as long where there are 100,000."""
    ends = np.cumsum(sizes).tolist()
    return tuple(flat[start:end] for start, end in zip([0, *ends][:-1], ends, strict=True))

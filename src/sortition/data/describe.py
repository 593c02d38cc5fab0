"""How skewed is a partition? Sizes, labels per client, distance of each client's mixture from the global one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Floats, Ids
from sortition.data.partitions import Partition


@dataclass(frozen=True, eq=False)
class Description:
    """What a partition looks like from outside.

    Attributes:
        counts: (N, L) examples of each label at each client.
        labels: (N,) number of labels that a client holds.
        distance: (N,) total variation ½ Σ_l |p_kl − p_l| between a client's label mixture and the global one.
        digest: the partition's.
        notes: the partition's.
    """

    counts: Ids
    labels: Ids
    distance: Floats
    digest: str
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """A few lines for people."""
        sizes = self.counts.sum(axis=1)
        rows = [
            ("clients", f"{len(sizes):,}"),
            ("examples", f"{sizes.sum():,}"),
            ("examples per client", _spread(sizes, "{:,.0f}")),
            ("labels per client", _spread(self.labels, "{:.0f}")),
            ("distance to the global mixture", _spread(self.distance, "{:.3f}")),
            ("digest", self.digest),
            *(("note", note) for note in self.notes),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:{width}}  {value}" for name, value in rows)


def describe(partition: Partition, labels: Ids, classes: int) -> Description:
    """The numbers of a partition of examples with these ``labels`` (n,)."""
    counts = partition.label_counts(labels, classes)
    sizes = counts.sum(axis=1, keepdims=True)
    mixtures = counts / np.maximum(sizes, 1)
    overall = counts.sum(axis=0) / max(int(counts.sum()), 1)
    distance = np.abs(mixtures - overall).sum(axis=1) / 2
    return Description(counts, (counts > 0).sum(axis=1), distance, partition.digest, partition.notes)


def _spread(values: Ids | Floats, form: str) -> str:
    low, middle, high = (form.format(float(value)) for value in np.quantile(values, (0, 0.5, 1)))
    return f"{low} … {high}, median {middle}"

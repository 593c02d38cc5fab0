"""A balanced part and a sorted part (FedSS): the non-IID ratio says how much of the data is sorted by label."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.core.arrays import Ids
from sortition.core.errors import bad
from sortition.data.partitions._rule import PartitionRule
from sortition.data.partitions.shards import Shards


class Mixed(PartitionRule):
    """A random 1 − ``ratio`` of the data is dealt evenly; the rest is sorted by label and cut.

    Attributes:
        ratio: the share of the data that is sorted.
        blocks: pieces of the sorted part per client; the paper does not give their number.
    """

    ratio: float = Field(0.8, ge=0, le=1)
    blocks: int = Field(1, ge=1)

    def owners(self, labels: Ids, clients: int, rng: np.random.Generator, notes: list[str]) -> Ids:
        """Return owners (n,); the first examples of a random order are the balanced part."""
        order = rng.permutation(len(labels))
        n_balanced = len(labels) - round(self.ratio * len(labels))
        sorted_part = np.sort(order[n_balanced:])
        if 0 < len(sorted_part) < clients * self.blocks:
            raise bad("partition mixed.blocks", f"at most {len(sorted_part) // clients} at this ratio", self.blocks)
        owners = np.empty(len(labels), dtype=np.int64)
        owners[order[:n_balanced]] = np.arange(n_balanced) % clients
        if len(sorted_part):
            shards = Shards(per_client=self.blocks)
            owners[sorted_part] = shards.owners(labels[sorted_part], clients, rng, notes)
        return owners

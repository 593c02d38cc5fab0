"""A balanced part and a sorted part (FedSS): the non-IID ratio says how much of the data is sorted by label."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.core.arrays import Ids
from sortition.core.errors import bad
from sortition.data.partitions._rule import PartitionRule
from sortition.data.partitions.shards import Shards


class Mixed(PartitionRule):
    """A random 1 − ``ratio`` of the data is dealt evenly; the rest is sorted and cut, ``blocks`` pieces per client.

    The paper does not give the number of blocks; ours is 1.
    """

    ratio: float = Field(0.8, ge=0, le=1)
    blocks: int = Field(1, ge=1)

    def owners(self, labels: Ids, clients: int, rng: np.random.Generator, notes: list[str]) -> Ids:
        """(n,) the first of a random order are the balanced part."""
        order = rng.permutation(len(labels))
        balanced = len(labels) - round(self.ratio * len(labels))
        rest = np.sort(order[balanced:])
        if 0 < len(rest) < clients * self.blocks:
            raise bad("partition mixed.blocks", f"at most {len(rest) // clients} at this ratio", self.blocks)
        owners = np.empty(len(labels), dtype=np.int64)
        owners[order[:balanced]] = np.arange(balanced) % clients
        if len(rest):
            owners[rest] = Shards(per_client=self.blocks).owners(labels[rest], clients, rng, notes)
        return owners

"""Independent and identically distributed: a random cut into equal parts."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Ids
from sortition.data.partitions._rule import PartitionRule


class Iid(PartitionRule):
    """Every client is a random sample of the whole; sizes differ by at most one."""

    def owners(self, labels: Ids, clients: int, rng: np.random.Generator, notes: list[str]) -> Ids:
        """(n,) a random order dealt round and round."""
        return rng.permutation(np.arange(len(labels)) % clients)

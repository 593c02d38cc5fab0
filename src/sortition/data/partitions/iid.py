"""Independent and identically distributed clients: a random cut into equal parts."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sortition.core.arrays import Ids
from sortition.data.partitions._rule import PartitionRule


class Iid(PartitionRule):
    """Every client is a random sample of the whole; sizes differ by at most one."""

    by_label: ClassVar[bool] = False

    def owners(self, labels: Ids, clients: int, rng: np.random.Generator, notes: list[str]) -> Ids:
        """Return owners (n,): examples in a random order are dealt to the clients in turn."""
        return rng.permutation(np.arange(len(labels)) % clients)

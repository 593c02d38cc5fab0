"""Shards (McMahan et al. 2017; FedCor's 1SPC and 2SPC): sort by label, cut, give each client a few pieces."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.core.arrays import Ids
from sortition.core.errors import bad
from sortition.data.partitions._rule import PartitionRule


class Shards(PartitionRule):
    """Each client gets some shards at random; two of them may have the same label, as in the papers.

    Attributes:
        per_client: shards of each client.
    """

    per_client: int = Field(2, ge=1)

    def owners(self, labels: Ids, clients: int, rng: np.random.Generator, notes: list[str]) -> Ids:
        """Return owners (n,): examples in label order are cut into shards whose sizes differ by at most one."""
        n_shards = clients * self.per_client
        if n_shards > len(labels):
            raise bad("partition shards.per_client", f"at most {len(labels) // clients}", self.per_client)
        holder_of_shard = rng.permutation(np.repeat(np.arange(clients), self.per_client))
        shard_of_rank = np.arange(len(labels)) * n_shards // len(labels)
        owners = np.empty(len(labels), dtype=np.int64)
        # stable: the order inside a label is the file's (FedCor's code sorts with an unstable sort)
        owners[np.argsort(labels, kind="stable")] = holder_of_shard[shard_of_rank]
        return owners

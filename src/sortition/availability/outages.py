"""Groups fail together: a region, a carrier or a data centre goes down with all its clients."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.availability._chain import markov_path
from sortition.availability._mode import Facts, GroupedBy, Mask, Masks, Mode, Rates, group_of_clients
from sortition.core.streams import stream


class Outages(Mode):
    """Each group fails with probability ``fail`` a round and is repaired with probability ``repair``.

    Attributes:
        groups: number of groups.
        by: how clients are grouped: by their commonest label, in blocks of ids, or at random.
        fail: probability a round that a group that is up goes down.
        repair: probability a round that a group that is down comes up.
        rate: probability that a client is reachable while its group is up.
    """

    groups: int = Field(10, ge=1)
    by: GroupedBy = "block"
    fail: float = Field(0.05, gt=0, le=1)
    repair: float = Field(0.25, gt=0, le=1)
    rate: float = Field(1.0, ge=0, le=1)

    def masks(self, facts: Facts) -> Masks:
        """Return the clients whose group is up, each with the probability ``rate``."""
        group = group_of_clients(self.by, self.groups, facts, "outages")
        groups_up = markov_path(self.groups, leave=self.fail, join=self.repair, seed=facts.seed, purpose="outages")

        def mask_of_round(t: int) -> Mask:
            mask = groups_up(t)[group]
            if self.rate == 1:
                return mask
            return mask & (stream(facts.seed, "availability", t).random(len(mask)) < self.rate)

        return mask_of_round

    def rates(self, facts: Facts) -> Rates:
        """Return the marginal rate · repair / (fail + repair)."""
        return lambda t: np.full(facts.clients, self.rate * self.repair / (self.fail + self.repair))

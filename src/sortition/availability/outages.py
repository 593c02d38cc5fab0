"""Groups fail together: a region, a carrier or a data centre goes down with all its clients."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.availability._chain import path
from sortition.availability._membership import By, membership
from sortition.availability._mode import Facts, Masks, Mode, Rates
from sortition.core.streams import stream


class Outages(Mode):
    """Each group fails with probability ``fail`` a round and is repaired with probability ``repair``.

    While its group is up a client is reachable with probability ``rate``.
    """

    groups: int = Field(10, ge=1)
    by: By = "block"
    fail: float = Field(0.05, gt=0, le=1)
    repair: float = Field(0.25, gt=0, le=1)
    rate: float = Field(1.0, ge=0, le=1)

    def masks(self, facts: Facts) -> Masks:
        """The group's chain, and the client's own luck."""
        member = membership(self.by, self.groups, facts, "outages")
        up = path(self.groups, self.fail, self.repair, facts.seed, "outages")

        def at(t: int) -> np.ndarray:
            mask = up(t)[member]
            return (
                mask if self.rate == 1 else mask & (stream(facts.seed, "availability", t).random(len(mask)) < self.rate)
            )

        return at

    def rates(self, facts: Facts) -> Rates:
        """Marginal: rate · repair / (fail + repair)."""
        return lambda t: np.full(facts.clients, self.rate * self.repair / (self.fail + self.repair))

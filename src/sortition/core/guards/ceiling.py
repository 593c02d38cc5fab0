"""A ceiling on places: over the rounds no client trains more often than a multiple of its fair share.

A client's fair share is what a uniform draw would give it: of every round in which it is available, the size of the
cohort by the number of available clients. With a ceiling c, a client has at most c · fair share places in all, rounded
up, whatever it reports. So a share s of the clients holds little more than the share c · s of the places once a fair
share is some places: the bound needs no knowledge of how they attack. Rounding up lets methods that go round have their
way at any ceiling: whose turn it is comes before a whole fair share has. Where nobody is below, those that are least
above may be chosen, so that no round is lost.

Whether a client is below is known before the cohort is: the coming round counts as a full one of K places among n
eligible clients. Where cohorts turn out smaller (draws with replacement, quotas, few who are below), a client can have
c · K/n places more than the bound, over all rounds together and not in each.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.guards.stored import fill_columns

ROUNDING = 1e-9  # a fair share is a sum, and no place is due for the last bit of it


class Ceiling:
    """How often each client trained, and its fair share.

    Attributes:
        limit: c, how many fair shares a client can have.
        times_chosen: (N,) rounds in which each client was chosen.
        fair_share: (N,) places that a uniform draw would have given each client, over all rounds.
    """

    def __init__(self, limit: float, n_clients: int) -> None:
        self.limit = limit
        self.times_chosen: Floats = np.zeros(n_clients)
        self.fair_share: Floats = np.zeros(n_clients)

    def mask_below(self, ids: Ids, budget: int) -> Array:
        """Return a mask of the clients that may have one more place.

        Where nobody is below the ceiling, these are the clients that are least above it.
        """
        if not ids.size:
            return np.ones(0, bool)
        places = min(budget, ids.size)
        share_after_round = self.fair_share[ids] + places / ids.size
        allowed = np.ceil(self.limit * share_after_round - ROUNDING)
        excess: Floats = self.times_chosen[ids] + 1 - allowed
        below: Array = excess <= 0
        if below.any():
            return below
        largest_allowed_excess = np.partition(excess, places - 1)[places - 1]
        return np.asarray(excess <= largest_allowed_excess + ROUNDING)

    def record(self, available: Ids, chosen_ids: Ids) -> None:
        """Record a round that is over: who could have been chosen, and who was."""
        if available.size:
            self.fair_share[available] += chosen_ids.size / available.size
            self.times_chosen[chosen_ids] += 1

    def copy_for(self, n_clients: int) -> Ceiling:
        """Return a copy for more clients; newcomers have no share yet."""
        larger = Ceiling(self.limit, n_clients)
        fill_columns(larger.export(), self.export())
        return larger

    def export(self) -> dict[str, Array]:
        """Return counts and fair shares as named arrays."""
        return {"ceiling.chosen": self.times_chosen, "ceiling.fair": self.fair_share}

    def restored(self, arrays: Mapping[str, Array]) -> Ceiling:
        """Return a copy with the numbers of a snapshot."""
        restored = Ceiling(self.limit, self.times_chosen.size)
        fill_columns(restored.export(), arrays)
        return restored

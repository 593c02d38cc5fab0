"""A ceiling on places: over the rounds no client trains more often than a multiple of its fair share.

A client's fair share is what a uniform draw would give it: of every round in which it is available, the size of the
cohort by the number of available clients. With a ceiling c, a client has at most c · fair share places in all, rounded
up, whatever it reports. So a share s of the clients holds little more than the share c · s of the places once a fair
share is some places: the bound needs no knowledge of how they attack. Rounding up lets methods that go round have their
way at any ceiling: whose turn it is comes before a whole fair share has. Where nobody is below, those that are least
above may be chosen, so that no round is lost.

A method that wants the same few clients spends their places together, so that they come below the ceiling together as
well: with a tenth of the places over a run they can be the majority of every tenth cohort. *Staggered*, a client's
second place, and every later one, comes at a moment of its own: c · fair share is rounded down after a share of a place
in [0, 1) was added, which is drawn for each client and each of its places. The first place is as before, and so is the
bound.

Whether a client is below is known before the cohort is: the coming round counts as a full one of K places among n
eligible clients. Where cohorts turn out smaller (draws with replacement, quotas, few who are below), a client can have
c · K/n places more than the bound, over all rounds together and not in each.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.guards.stored import fill
from sortition.core.streams import stream

ROUNDING = 1e-9  # a fair share is a sum, and no place is due for the last bit of it


class Ceiling:
    """How often each client trained, and its fair share."""

    def __init__(self, limit: float, n_clients: int) -> None:
        self.limit = limit
        self.chosen: Floats = np.zeros(n_clients)
        self.fair: Floats = np.zeros(n_clients)

    def below(self, ids: Ids, budget: int, phases: Floats | None = None) -> Array:
        """A mask of the clients that may have one more place; where nobody is below the ceiling, those least above.

        ``phases`` (k,) in [0, 1) are the shares of a place that are added before places are rounded down; without them
        places are rounded up.
        """
        if not ids.size:
            return np.ones(0, bool)
        places = min(budget, ids.size)
        fair_share = self.fair[ids] + places / ids.size
        if phases is None:
            allowed = np.ceil(self.limit * fair_share - ROUNDING)
        else:
            allowed = np.maximum(np.floor(self.limit * fair_share - ROUNDING + phases), 1.0)
        excess: Floats = self.chosen[ids] + 1 - allowed
        below: Array = excess <= 0
        if below.any():
            return below
        least_above = np.partition(excess, places - 1)[places - 1]
        return np.asarray(excess <= least_above + 1e-9)

    def phases(self, ids: Ids, seed: int) -> Floats:
        """Draw, for each of these clients (k,) and its next place, a share of a place in [0, 1) by the seed.

        The draws of clients that are there do not change where others join.
        """
        places = self.chosen[ids].astype(np.int64)
        phases: Floats = np.empty(ids.size)
        for count in np.unique(places).tolist():
            drawn = stream(seed, "stagger", count).random(self.chosen.size)
            phases[places == count] = drawn[ids[places == count]]
        return phases

    def record(self, available: Ids, cohort: Ids) -> None:
        """A round is over: who could have been chosen, and who was."""
        if available.size:
            self.fair[available] += cohort.size / available.size
            self.chosen[cohort] += 1

    def grown(self, n_clients: int) -> Ceiling:
        """The same for more clients; newcomers have no share yet."""
        larger = Ceiling(self.limit, n_clients)
        fill(larger.export(), self.export())
        return larger

    def export(self) -> dict[str, Array]:
        """Both as named arrays."""
        return {"ceiling.chosen": self.chosen, "ceiling.fair": self.fair}

    def restored(self, arrays: Mapping[str, Array]) -> Ceiling:
        """The same with the numbers of a snapshot."""
        restored = Ceiling(self.limit, self.chosen.size)
        fill(restored.export(), arrays)
        return restored

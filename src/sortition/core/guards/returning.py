"""Who has just come, new or back after an absence, and how many of these clients may be chosen in one round.

A client's *presence* is the share of the last rounds in which it was available, an exponential average over about
``SPAN`` rounds. Clients that are known at the first round begin with presence 1, newcomers with 0. A client has *just
come* while its presence is below two thirds of the median presence of those who are available with it: where everybody
is always there, after eight rounds of absence, and then until it has been there for some rounds. It is compared with
the others, so that a federation whose clients are there half of the time, or that come and go in shifts, has nobody
who has just come.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.guards.stored import fill_columns

SPAN = 20  # rounds over which presence is averaged
JUST_COME_BELOW = 2 / 3  # of the median presence
Mask = npt.NDArray[np.bool_]


class Presence:
    """The presence of each client."""

    def __init__(self, n_clients: int) -> None:
        self.shares: Floats = np.ones(n_clients)

    def has_just_come(self, ids: Ids, among: Ids) -> Mask:
        """Return a mask (k,) of those of ``ids`` that have just come; ``among`` are all clients that are available."""
        if not among.size:
            return np.zeros(ids.size, bool)
        median_presence = float(np.median(self.shares[among]))
        return np.asarray(self.shares[ids] < JUST_COME_BELOW * median_presence)

    def record(self, available: Ids) -> None:
        """Count a round in which these clients were available."""
        self.shares *= 1 - 1 / SPAN
        self.shares[available] += 1 / SPAN

    def copy_for(self, n_clients: int) -> Presence:
        """Return a copy for more clients; newcomers were never there."""
        larger = Presence(n_clients)
        larger.shares[self.shares.size :] = 0.0
        fill_columns(larger.export(), self.export())
        return larger

    def export(self) -> dict[str, Array]:
        """Return the shares as a named array."""
        return {"presence": self.shares}

    def restored(self, arrays: Mapping[str, Array]) -> Presence:
        """Return a copy with the numbers of a snapshot; clients that joined since are new."""
        restored = Presence(self.shares.size)
        restored.shares[:] = 0.0
        fill_columns(restored.export(), arrays)
        if (restored.shares > 1).any():
            raise ValueError("shares of presence above 1")
        return restored


def returning_places(share: float, budget: int) -> int:
    """Return how many places of a budget go to clients that have just come, at most: this share of it, at least one."""
    return max(1, int(share * budget + 1e-9))


def keep_few_returning(has_just_come: Mask, places: int, budget: int, rng: np.random.Generator) -> Mask:
    """Draw at most ``places`` of the clients that have just come; return them and all others as a mask (n,).

    Each set of them is equally likely. Where the others cannot fill the budget, more are drawn.
    """
    returning = np.flatnonzero(has_just_come)
    n_others = has_just_come.size - returning.size
    n_chosen = min(budget, has_just_come.size)
    n_allowed = max(places, n_chosen - n_others)
    passes = np.ones(has_just_come.size, bool)
    if returning.size > n_allowed:
        passes[returning] = False
        passes[rng.choice(returning, n_allowed, replace=False)] = True
    return passes

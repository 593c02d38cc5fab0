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
from sortition.core.guards.stored import fill

SPAN = 20  # rounds over which presence is averaged
USUAL = 2 / 3  # of the median presence; below, a client has just come
Mask = npt.NDArray[np.bool_]


class Presence:
    """The presence of each client."""

    def __init__(self, n_clients: int) -> None:
        self.shares: Floats = np.ones(n_clients)

    def just_come(self, ids: Ids, among: Ids) -> Mask:
        """(k,) which of ``ids`` have just come, compared with the clients ``among`` which they are available."""
        if not among.size:
            return np.zeros(ids.size, bool)
        usual = float(np.median(self.shares[among]))
        return np.asarray(self.shares[ids] < USUAL * usual)

    def record(self, available: Ids) -> None:
        """Count a round in which these clients were available."""
        self.shares *= 1 - 1 / SPAN
        self.shares[available] += 1 / SPAN

    def grown(self, n_clients: int) -> Presence:
        """The same with newcomers, who were never there."""
        larger = Presence(n_clients)
        larger.shares[self.shares.size :] = 0.0
        fill(larger.export(), self.export())
        return larger

    def export(self) -> dict[str, Array]:
        """The shares as a named array."""
        return {"presence": self.shares}

    def restored(self, arrays: Mapping[str, Array]) -> Presence:
        """The same with the numbers of a snapshot; whoever joined since is new."""
        restored = Presence(self.shares.size)
        restored.shares[:] = 0.0
        fill(restored.export(), arrays)
        if (restored.shares > 1).any():
            raise ValueError("shares of presence above 1")
        return restored


def returning_places(share: float, budget: int) -> int:
    """Return how many places of a budget clients can have that have just come: this share of it, and at least one."""
    return max(1, int(share * budget + 1e-9))


def few_of(just_come: Mask, places: int, budget: int, rng: np.random.Generator) -> Mask:
    """Return a mask (n,) that keeps at most ``places`` clients that have just come, each set of them equally likely.

    The limit gives way where places of the budget would stay empty otherwise.
    """
    newcomers = np.flatnonzero(just_come)
    settled = just_come.size - newcomers.size
    allowed = max(places, min(budget, just_come.size) - settled)
    keep = np.ones(just_come.size, bool)
    if newcomers.size > allowed:
        keep[newcomers] = False
        keep[rng.choice(newcomers, allowed, replace=False)] = True
    return keep

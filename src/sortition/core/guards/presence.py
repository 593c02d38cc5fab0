"""Who has just come: clients that are new, or back after an absence, and of whom a round should not be made.

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

"""How often clients were chosen, of the rounds in which they could be: evenness, and who was never chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Array, Floats, jain_index


@dataclass(frozen=True, eq=False)
class ChoiceCounts:
    """How often each client was chosen, and could be.

    Attributes:
        chosen: (N,) rounds in which each client was chosen.
        available: (N,) rounds in which each could be chosen; None where that is not known.
    """

    chosen: Array
    available: Array | None

    @property
    def candidates(self) -> Array:
        """(N,) whether a client could ever be chosen; all could, where that is not known."""
        if self.available is None:
            return np.ones(self.chosen.size, bool)
        return self.available > 0

    @property
    def times_chosen(self) -> Floats:
        """How often each candidate was chosen."""
        return self.chosen[self.candidates].astype(np.float64)

    @property
    def shares(self) -> Floats:
        """How often each candidate was chosen, of the rounds in which it could be; plain counts without them."""
        if self.available is None:
            return self.times_chosen
        return self.times_chosen / self.available[self.candidates]

    @property
    def jain(self) -> float | None:
        """Jain's index of the shares: 1 is even; None where nobody was chosen."""
        return jain_index(self.shares)

    @property
    def never_chosen(self) -> int:
        """How many candidates were never chosen."""
        return int((self.times_chosen == 0).sum())

"""FedAU: Wang and Ji 2024, *A lightweight method for tackling unknown participation statistics in federated averaging*.

Where client n takes part in a round with probability p_n, weights 1/p_n make the average that of all clients. p_n is
not known; the mean number of rounds from one participation to the next is an estimate of 1/p_n.

| paper | here |
|---|---|
| N, all clients | the population, not those who are available |
| I_n^t = 1: n takes part in round t | its update arrived and is used |
| S_n, rounds in the open interval; M_n, intervals so far | ``rounds_open``, ``n_closed`` |
| ω_n, their mean; 1 before the first | ``mean`` |
| x ← x + η (1/N) Σ_n I_n^t ω_n^t Δ_n, with ω before this round | :meth:`Intervals.weights`, ``mass="expected"`` |
| S_n ← S_n + 1; if I_n^t = 1 or S_n = K: ω_n ← (M_n ω_n + S_n)/(M_n + 1), M_n ← M_n + 1, S_n ← 0 | ``record`` |
| K, the cut-off, so that ω_n ≤ K | ``Guards.cutoff``; 0: none |

Deviations: none known. A client that joins starts with ω = 1, and N grows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.guards.stored import fill_columns


class Intervals:
    """The mean number of rounds between two participations of each client.

    Attributes:
        cutoff: rounds after which an open interval ends without a participation; 0: never.
        mean: (N,) mean length of the intervals that have ended, in rounds; 1 before the first.
        n_closed: (N,) how many intervals have ended.
        rounds_open: (N,) rounds of the open interval so far.
    """

    def __init__(self, cutoff: int, n_clients: int) -> None:
        self.cutoff = cutoff
        self.mean: Floats = np.ones(n_clients)
        self.n_closed: Ids = np.zeros(n_clients, np.int64)
        self.rounds_open: Ids = np.zeros(n_clients, np.int64)

    def weights(self, ids: Ids) -> Floats:
        """Return the weights ω_n / N of these clients."""
        return np.asarray(self.mean[ids] / self.mean.size)

    def record(self, used: Ids) -> None:
        """Count a round in which the updates of these clients were used; a round without any counts, too.

        The open interval of a client ends when its update is used, or when it is as long as the cut-off.
        """
        self.rounds_open += 1
        ends = np.zeros(self.rounds_open.size, bool)
        if self.cutoff:
            ends = self.rounds_open >= self.cutoff
        ends[used] = True
        count = self.n_closed[ends]
        self.mean[ends] = (count * self.mean[ends] + self.rounds_open[ends]) / (count + 1)
        self.n_closed[ends] += 1
        self.rounds_open[ends] = 0

    def copy_for(self, n_clients: int) -> Intervals:
        """Return a copy for more clients."""
        larger = Intervals(self.cutoff, n_clients)
        fill_columns(larger.export(), self.export())
        return larger

    def export(self) -> dict[str, Array]:
        """Return means, counts and open intervals as named arrays."""
        return {"intervals.mean": self.mean, "intervals.closed": self.n_closed, "intervals.length": self.rounds_open}

    def restored(self, arrays: Mapping[str, Array]) -> Intervals:
        """Return a copy with the numbers of a snapshot."""
        restored = Intervals(self.cutoff, self.mean.size)
        fill_columns(restored.export(), arrays)
        return restored

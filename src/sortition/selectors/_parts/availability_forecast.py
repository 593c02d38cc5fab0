"""How likely a client that is available now is available in the next round, from the rounds that were seen.

Each client is taken for a chain of two states. The transitions out of "available" are counted, once per client or,
with a period, once per phase of the period (an hour of the day, say). Beta(1, 1) is the prior, so a client that was
never seen twice has probability 1/2.
"""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats, Ids


def grown(table: Array, clients: int, phases: int) -> Array:
    """The counts (N, phases), made when they are first needed."""
    return table if table.shape[1] else np.zeros((clients, phases), np.int64)


def count(stayed: Array, seen: Array, before: Array, now: Array, phase: int) -> None:
    """Add one observed step: who was available ``before`` (N,), and which of them stayed."""
    seen[before, phase] += 1
    stayed[before & now, phase] += 1


def chance(stayed: Array, seen: Array, ids: Ids, phase: int) -> Floats:
    """P(available in the next round | available in this one), the mean of the posterior."""
    return np.asarray((stayed[ids, phase] + 1.0) / (seen[ids, phase] + 2.0))

"""Availability as a Markov chain of two states for each client: how often it is available, and how sticky that is.

π is the chance of being available, λ = P(1→1) + P(0→0) − 1 the chain's second eigenvalue: 0 where rounds are
independent, near 1 where a client stays as it is. Both come from counted moves, with one imagined move of each kind.
"""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats, Ids


def count(moves: Array, before: Array, available: Ids, rounds: int) -> None:
    """Add the moves since the round before to (N, 4) counts of 0→0, 0→1, 1→0, 1→1, and remember who is available now.

    ``rounds`` have passed; in those between nobody was available. 0 means that this is the first round.
    """
    now = np.zeros(before.size, bool)
    now[available] = True
    was = before.copy()
    before[:] = now
    if rounds == 0:
        return
    if rounds > 1:
        moves[was, 2] += 1
        moves[~was, 0] += 1
        moves[:, 0] += rounds - 2
        was[:] = False
    for column, moved in enumerate((~was & ~now, ~was & now, was & ~now, was & now)):
        moves[moved, column] += 1


def estimates(moves: Array) -> tuple[Floats, Floats]:
    """π̂ and λ̂ of each client (n,), from its counts of moves (n, 4)."""
    counts = np.asarray(moves, np.float64) + 1.0
    away, there = counts[:, 0] + counts[:, 1], counts[:, 2] + counts[:, 3]
    arrived = counts[:, 1] + counts[:, 3]
    return arrived / (away + there), counts[:, 3] / there + counts[:, 0] / away - 1.0

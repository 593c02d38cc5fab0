"""LongFed's individual fairness of a finished run: pure functions of selection counts and distances of updates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import bad


@dataclass(frozen=True, slots=True)
class Fairness:
    """Whether similar clients were chosen similarly often (LongFed, definition 1).

    Attributes:
        holds: |p_i − p_j| ≤ δ for every pair with d_ij ≤ ε.
        similar: how many pairs are that near.
        violated: how many of these differ by more than δ.
        widest: the largest |p_i − p_j| among them.
    """

    holds: bool
    similar: int
    violated: int
    widest: float


def sigma(counts: Array, distance: Array, epsilon: float) -> float:
    """Return σ of eqs. 33 and 34: the spread of selection counts among clients nearer than ε, averaged over clients.

    Args:
        counts: (N,) rounds in which each client was chosen.
        distance: (N, N) between the clients' updates.
        epsilon: how near is similar; each client is near to itself.
    """
    counts, distance = _checked(counts, distance, epsilon)
    is_similar = (distance < epsilon) | np.eye(counts.size, dtype=bool)
    size = is_similar.sum(axis=1)
    mean = is_similar @ counts / size
    variance = is_similar @ counts**2 / size - mean**2
    return float(np.sqrt(np.maximum(variance, 0.0)).mean())


def individual_fairness(counts: Array, rounds: int, distance: Array, epsilon: float, delta: float) -> Fairness:
    """Check (ε, δ) fairness by eq. 7 on p_i = n_i / T; a pair is counted once."""
    counts, distance = _checked(counts, distance, epsilon)
    if rounds < 1:
        raise bad("individual_fairness.rounds", "≥ 1", rounds)
    i, j = np.nonzero(np.triu(distance <= epsilon, 1))
    gap = np.abs(counts[i] - counts[j])
    violated = int((gap > delta * rounds + 1e-9).sum())
    return Fairness(
        holds=violated == 0,
        similar=int(gap.size),
        violated=violated,
        widest=float(gap.max(initial=0.0) / rounds),
    )


def selection_counts(cohorts: Iterable[npt.ArrayLike], n_clients: int) -> Ids:
    """Return in how many cohorts each client was (N,)."""
    counts = np.zeros(n_clients, np.int64)
    for ids in cohorts:
        counts[np.asarray(ids, np.int64)] += 1
    return counts


def _checked(counts: Array, distance: Array, epsilon: float) -> tuple[Floats, Array]:
    counts = np.asarray(counts, np.float64)
    distance = np.asarray(distance)
    if counts.ndim != 1 or distance.shape != (counts.size, counts.size):
        raise bad("fairness.distance", f"of shape {(counts.size,) * 2}, one row per count", f"shape {distance.shape}")
    if not epsilon >= 0:
        raise bad("fairness.epsilon", "≥ 0", epsilon)
    return counts, distance

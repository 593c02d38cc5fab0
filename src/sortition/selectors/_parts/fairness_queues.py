"""LongFed's individual fairness: reference clients and virtual queues (eqs. 13, 19, 20, 23)."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.ties import TOLERANCE


def reference_clients(distance: Floats, chosen: Floats, epsilon: float) -> Ids:
    """k_i = argmax_{j: d_ij ≤ ε} |p_i − p_j| (eq. 19), positions; ties go to the lowest, so i may be its own.

    ``chosen`` counts rounds: p is that over t, which changes no argmax but would let rounding break ties.
    """
    gap = np.abs(chosen[:, None] - chosen)
    gap[distance > epsilon * (1 + TOLERANCE)] = -1.0  # ε is often one of the distances
    return np.asarray(np.argmax(gap, axis=1), np.int64)


def pulls(z: Floats, q: Floats, reference: Ids) -> Floats:
    """What choosing c adds to Σ_i (Z_i y_i + Q_i z_i) of eq. 23: (Z − Q)_c less that of all whose reference is c."""
    push = z - q
    return np.asarray(push - np.bincount(reference, weights=push, minlength=push.size))


def advance(z: Floats, q: Floats, chosen: Array, reference: Ids, delta: float) -> tuple[Floats, Floats]:
    """Eq. 13: Z grows where i was chosen and its reference was not, Q the other way round; both shrink by δ."""
    ahead = chosen.astype(np.float64) - chosen[reference]
    return np.maximum(z + ahead - delta, 0.0), np.maximum(q - ahead - delta, 0.0)

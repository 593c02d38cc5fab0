"""No update, and no combination of updates, moves the model further than the guards allow (``Guards.clip``)."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats

Rows = Array


def clip_rows(updates: Rows, norms: Floats, norm_limit: float) -> Rows:
    """Return the updates (k, P), of these norms (k,), each shortened to ``norm_limit`` where it is longer."""
    too_long = norms > norm_limit
    if not too_long.any():
        return updates
    shorter = updates.copy()
    factors = (norm_limit / norms[too_long]).astype(updates.dtype)
    shorter[too_long] *= factors[:, None]
    return shorter


def clip_update(update: Rows, norm_limit: float) -> Rows:
    """Return an update (P,), shortened to ``norm_limit`` where it is longer: weights may sum to more than 1."""
    if np.isinf(norm_limit):
        return update
    norm = float(np.linalg.norm(update.astype(np.float64)))
    if norm <= norm_limit:
        return update
    shorter: Rows = update * update.dtype.type(norm_limit / norm)
    return shorter

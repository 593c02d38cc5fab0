"""Losses as evidence: clients that the model serves badly, and that it learns to serve, are due more.

ℓ_k is the training loss that client k reported last, ℓ̃ the median of those of all clients that are known. Client k is
*behind* where ℓ_k > ℓ̃. It is due m_k times its share, m_k = 1 + g_k (min(ℓ_k / ℓ̃, 4) − 1), where g_k in [0, 1] is the
trust that more weight helps. Wrong labels are behind, too, but their losses do not fall: whenever a client that was due
more reports again, with its loss lowered by the factor e^z, its record moves a third of the way to z, and
g_k = min(max(record_k, 0) / 0.1, 1). A record starts at 0.1: everybody is tried.
"""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats, Ids

LARGEST_MULTIPLE = 4.0  # of its share that a client is due
KNOWN_FROM = 0.9  # the share of the clients that must have reported before losses count
FIRST_RECORD = 0.1  # z of a client that was not tried yet
TRUSTED_FROM = 0.1  # z from which a client is trusted wholly
STEP_OF_RECORD = 1 / 3  # the part of the way that a record moves to what was observed
SMALLEST_LOSS = 1e-9  # a loss below counts as this


def due_multiples(loss: Floats, record: Floats, known: Ids) -> Floats:
    """Return m (N,): how many times its share each client is due; 1 until nearly all known clients have reported."""
    m = np.ones(loss.size)
    reported = known[~np.isnan(loss[known])]
    if reported.size < max(KNOWN_FROM * known.size, 2):
        return m
    relative = np.maximum(loss[reported], SMALLEST_LOSS) / max(float(np.median(loss[reported])), SMALLEST_LOSS)
    trust = np.clip(record[reported] / TRUSTED_FROM, 0.0, 1.0)
    m[reported] = 1.0 + trust * (np.clip(relative, 1.0, LARGEST_MULTIPLE) - 1.0)
    return m


def update_record(record: Floats, loss: Floats, ids: Ids, reported: Floats, was_due_more: Array) -> Floats:
    """Return the records (N,) after these clients reported; only those that were due more have been tried."""
    was_tried = was_due_more & ~np.isnan(loss[ids])
    clients = ids[was_tried]
    fall = np.log(np.maximum(loss[clients], SMALLEST_LOSS) / np.maximum(reported[was_tried], SMALLEST_LOSS))
    new_record = record.copy()
    new_record[clients] += STEP_OF_RECORD * (fall - new_record[clients])
    return new_record

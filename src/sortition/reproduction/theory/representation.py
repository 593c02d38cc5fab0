"""LongFed's Theorem 1: the error of a cohort that stands for everybody is at most the sum of the distances to it."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Ids


def represented_by(gradients: Array, cohort: Ids) -> Ids:
    """Return the position in the cohort of the member that is nearest to each client (N,), eq. 37."""
    rows = np.asarray(gradients, np.float64)
    differences = rows[:, None, :] - rows[None, cohort, :]
    return np.asarray((differences**2).sum(axis=2).argmin(axis=1))


def estimation_error(gradients: Array, cohort: Ids) -> float:
    """Return eq. 2: ‖Σ_i g_i − Σ_j a_j g_j‖, a_j the number of clients that j stands for."""
    rows = np.asarray(gradients, np.float64)
    nearest = represented_by(rows, cohort)
    return float(np.linalg.norm(rows.sum(axis=0) - rows[cohort][nearest].sum(axis=0)))


def error_bound(gradients: Array, cohort: Ids) -> float:
    """Return eq. 3: Σ_i min_j ‖g_i − g_j‖."""
    rows = np.asarray(gradients, np.float64)
    nearest = represented_by(rows, cohort)
    return float(np.linalg.norm(rows - rows[cohort][nearest], axis=1).sum())

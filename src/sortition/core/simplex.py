"""Weights on the simplex: a small strictly convex quadratic programme, solved exactly by an active set."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats

SOLVER_TOLERANCE = 1e-12  # relative: a multiplier or a step that differs by less does not differ
PASSES_PER_MEMBER = 20  # a few in all are usual


def fit_simplex(rows: Floats, target: Floats, anchor: Floats, weight: float) -> Floats:
    """Return argmin ‖rowsᵀa − target‖² + weight·‖a − anchor‖² over a ≥ 0, Σa = 1 (Lawson and Hanson's method).

    ``a`` is feasible throughout. Each pass minimises over the free members alone; where that leaves the simplex, ``a``
    goes as far as it may and members that reach 0 are fixed; where it does not, the fixed member whose multiplier is
    most wrong is freed. The objective falls strictly with every freed member, so no set comes twice and the end is
    exact; should rounding make sets come back, the loop ends at the feasible weights that it has.

    Args:
        rows: (n, d) features of the members.
        target: (d,) the mixture aimed at.
        anchor: (n,) the weights aimed at.
        weight: λ, of the weights against the mixture.
    """
    n = len(rows)
    pull = rows @ target + weight * anchor
    a = np.full(n, 1.0 / max(n, 1))
    free = np.ones(n, bool)
    for _ in range(PASSES_PER_MEMBER * n):
        minimum = np.zeros_like(a)
        minimum[free] = _minimise_on_plane(rows[free], pull[free], weight)
        if minimum[free].min(initial=0.0) < 0:
            a, free = _move_towards(a, minimum, free)
            continue
        a = minimum
        slope = rows @ (rows.T @ a) + weight * a - pull
        multiplier = np.where(free, 0.0, slope - slope[free].mean())  # ≥ 0 wherever a fixed member should stay at 0
        if multiplier.min(initial=0.0) >= -SOLVER_TOLERANCE * max(1.0, float(np.abs(slope).max(initial=0.0))):
            break
        free[multiplier.argmin()] = True
    return a


def _minimise_on_plane(rows: Floats, pull: Floats, weight: float) -> Floats:
    """Return the minimum over Σa = 1 alone: H a = pull + ν with H = rows rowsᵀ + weight·I."""
    solved = _solve(rows, np.stack([pull, np.ones_like(pull)], axis=1), weight)
    unconstrained = solved[:, 0]
    direction = solved[:, 1]
    nu = (1.0 - unconstrained.sum()) / direction.sum()
    return np.asarray(unconstrained + nu * direction)


def _solve(rows: Floats, right: Floats, weight: float) -> Floats:
    """Return H⁻¹ right, by the smaller of H and its dual (Woodbury): O(n·d²) for n members of d features."""
    n, d = rows.shape
    if n <= d:
        return np.asarray(np.linalg.solve(rows @ rows.T + weight * np.eye(n), right), np.float64)
    if d == 0:
        return np.asarray(right / weight)
    inner = np.linalg.solve(rows.T @ rows + weight * np.eye(d), rows.T @ right)
    return np.asarray((right - rows @ inner) / weight)


def _move_towards(a: Floats, minimum: Floats, free: Array) -> tuple[Floats, Array]:
    """Go from ``a`` towards the minimum until the first free members reach 0; return the weights and who is free."""
    falling = free & (minimum < 0)
    reach = np.full(a.size, np.inf)
    reach[falling] = a[falling] / (a[falling] - minimum[falling])
    step = float(reach.min())
    moved = np.where(free, a + step * (minimum - a), 0.0)
    stopped = falling & (reach <= step * (1 + SOLVER_TOLERANCE))
    moved[stopped] = 0.0
    return np.maximum(moved, 0.0), free & ~stopped

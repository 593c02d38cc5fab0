"""Weights on the simplex: a small strictly convex quadratic programme, solved exactly by an active set."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats

TOLERANCE = 1e-12
PASSES = 20  # per member; a few in all are usual


def simplex_fit(rows: Floats, target: Floats, anchor: Floats, weight: float) -> Floats:
    """argmin ‖rowsᵀa − target‖² + weight·‖a − anchor‖² over a ≥ 0, Σa = 1 (Lawson and Hanson's method).

    ``a`` is feasible throughout. Each pass minimises over the free members alone; where that leaves the simplex, ``a``
    goes as far as it may and who reaches 0 is fixed; where it does not, the fixed member whose multiplier is most
    wrong is freed. The objective falls strictly with every freed member, so no set comes twice and the end is exact;
    should rounding make sets come back, the loop ends at the feasible weights that it has.
    """
    pull = rows @ target + weight * anchor
    a, free = np.full(len(rows), 1.0 / max(len(rows), 1)), np.ones(len(rows), bool)
    for _ in range(PASSES * len(rows)):
        best = np.zeros_like(a)
        best[free] = _on_plane(rows[free], pull[free], weight)
        if best[free].min(initial=0.0) < 0:
            a, free = _towards(a, best, free)
            continue
        a = best
        slope = rows @ (rows.T @ a) + weight * a - pull
        wrong = np.where(free, 0.0, slope - slope[free].mean())  # ≥ 0 wherever a fixed member should stay at 0
        if wrong.min(initial=0.0) >= -TOLERANCE * max(1.0, float(np.abs(slope).max(initial=0.0))):
            break
        free[wrong.argmin()] = True
    return a


def _on_plane(rows: Floats, pull: Floats, weight: float) -> Floats:
    """The minimum over Σa = 1 alone: H a = pull + ν with H = rows rowsᵀ + weight·I."""
    solved = _solve(rows, np.stack([pull, np.ones_like(pull)], axis=1), weight)
    return np.asarray(solved[:, 0] + (1.0 - solved[:, 0].sum()) / solved[:, 1].sum() * solved[:, 1])


def _solve(rows: Floats, right: Floats, weight: float) -> Floats:
    """H⁻¹ right, by the smaller of H and its dual (Woodbury): O(n·d²) for n members of d features."""
    n, d = rows.shape
    if n <= d:
        return np.asarray(np.linalg.solve(rows @ rows.T + weight * np.eye(n), right), np.float64)
    inner = np.linalg.solve(rows.T @ rows + weight * np.eye(d), rows.T @ right) if d else np.zeros((0, 2))
    return np.asarray((right - rows @ inner) / weight)


def _towards(a: Floats, best: Floats, free: Array) -> tuple[Floats, Array]:
    """From ``a`` towards ``best`` until the first free members reach 0; these are fixed there."""
    falling = free & (best < 0)
    reach = np.full(a.size, np.inf)
    reach[falling] = a[falling] / (a[falling] - best[falling])
    step = float(reach.min())
    moved = np.where(free, a + step * (best - a), 0.0)
    stopped = falling & (reach <= step * (1 + TOLERANCE))
    moved[stopped] = 0.0
    return np.maximum(moved, 0.0), free & ~stopped

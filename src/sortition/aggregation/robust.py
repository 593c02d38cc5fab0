"""Robust centres of updates: (k, P) rows with weights (k,) → (P,).

| rule | paper | weights |
|---|---|---|
| coordinate median, trimmed mean | Yin, Chen, Ramchandran, Bartlett, ICML 2018 | none; the weighted form is ours |
| geometric median | RFA: Pillutla, Kakade, Harchaoui, IEEE TSP 2022 | part of its definition |
| norm bound | none: cut to a multiple of the median norm, then the mean | those of the mean |

Weights are normalised for the centre, and the result is scaled back to their sum, as the mean has it. With equal
weights every rule is the paper's. Each assumes that honest updates are alike: under label skew minorities are cut off.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sortition.core.arrays import Array, Floats

Rows = Array
COLUMNS = 1 << 16  # numbers of each update that are sorted at once
EXACT = 1e-12  # cumulative weights this near to a boundary lie on it
NARROW = 1e-9  # a trimmed mean of less weight than this is the median


def coordinate_median(weights: Floats, updates: Rows) -> Rows:
    """Return, per number, the smallest value with half of the weight at or below it.

    Where that is exactly half, the mean with the next value: equal weights give the usual median.
    """
    total = float(weights.sum())

    def middle(values: Rows, below: Floats) -> Rows:
        lower = (below < 0.5 - EXACT).sum(axis=0)
        weight_at_lower = np.take_along_axis(below, lower[None], 0)[0]
        exactly_half = weight_at_lower < 0.5 + EXACT
        upper = np.minimum(lower + exactly_half, len(values) - 1)
        pair = np.take_along_axis(values, np.stack([lower, upper]), 0)
        centre: Rows = pair.mean(axis=0)
        return centre

    return total * _apply_by_columns(middle, weights, updates)


def trimmed_mean(weights: Floats, updates: Rows, trim: float) -> Rows:
    """Return, per number, the mean of what is left when the share ``trim`` of the weight is cut from each end."""
    if 1 - 2 * trim < NARROW:
        return coordinate_median(weights, updates)
    total = float(weights.sum())

    def inner(values: Rows, below: Floats) -> Rows:
        shares = np.clip(np.minimum(below, 1 - trim) - np.maximum(_weight_before(below), trim), 0, None)
        shares[shares < EXACT] = 0  # nothing but rounding: an outlier may be of any size
        centre: Rows = (np.where(shares > 0, values, 0) * shares).sum(axis=0) / shares.sum(axis=0)
        return centre

    return total * _apply_by_columns(inner, weights, updates)


def _weight_before(below: Floats) -> Floats:
    """Return the cumulative weight before each row."""
    return np.concatenate([np.zeros((1, below.shape[1])), below[:-1]])


def _apply_by_columns(centre: Callable[[Rows, Floats], Rows], weights: Floats, updates: Rows) -> Rows:
    """Apply ``centre`` to some columns of the updates at a time, and return all centres (P,).

    It gets sorted values (k, c) and their cumulative shares of the weight (k, c).
    """
    shares = (weights / weights.sum())[weights > 0]
    rows = updates[weights > 0]
    centres = np.empty(updates.shape[1], updates.dtype)
    for start in range(0, centres.size, COLUMNS):
        columns = rows[:, start : start + COLUMNS]
        order = np.argsort(columns, axis=0, kind="stable")
        values = np.take_along_axis(columns, order, 0).astype(np.float64)
        centres[start : start + COLUMNS] = centre(values, np.cumsum(shares[order], axis=0))
    return centres


def geometric_median(weights: Floats, updates: Rows, passes: int, smoothing: float) -> Rows:
    """Return argmin_v Σ α_k ‖v − Δ_k‖ by smoothed Weiszfeld passes from the mean: β_k = α_k / max(ν, ‖v − Δ_k‖)."""
    total = float(weights.sum())
    share = weights / total
    centre = share @ updates.astype(np.float64)
    for _ in range(passes):
        pull = share / np.maximum(smoothing, _distances(updates, centre))
        moved = (pull / pull.sum()) @ updates
        if np.array_equal(moved, centre):
            break
        centre = moved
    return np.asarray(total * centre, updates.dtype)


def _distances(updates: Rows, centre: Floats) -> Floats:
    return np.array([np.linalg.norm(row.astype(np.float64) - centre) for row in updates])


def norm_factors(updates: Rows, bound: float) -> Floats:
    """Return the factor (k,) that shortens each update: none is then longer than ``bound`` times the median norm."""
    norms = _distances(updates, np.zeros(updates.shape[1]))
    longest = bound * float(np.median(norms))
    factors = np.ones(norms.size)
    too_long = norms > longest
    factors[too_long] = longest / norms[too_long]
    return factors

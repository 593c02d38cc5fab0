"""Drawing and ranking clients: always ids in, ids out."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Ids, Positions
from sortition.core.errors import bad
from sortition.core.ties import round_to_tie_grid


def draw_uniformly(ids: Ids, k: int, rng: np.random.Generator) -> Ids:
    """Draw k distinct ids, each set equally likely; return all of them if there are no more."""
    if k >= ids.size:
        return ids.copy()
    return ids[rng.choice(ids.size, size=max(k, 0), replace=False, shuffle=False)]


def draw_weighted(ids: Ids, weights: Array, k: int, rng: np.random.Generator) -> Ids:
    """Draw k distinct ids one after the other in proportion to ``weights`` (aligned with ids).

    Exponential keys (Efraimidis and Spirakis 2006): the k smallest E_i / weight_i, which is the same law in one pass.
    Clients of weight zero come last, at random.
    """
    weights = _checked_weights(ids, weights)
    if k >= ids.size:
        return ids.copy()
    if k <= 0:
        return ids[:0]
    with np.errstate(divide="ignore"):
        keys = rng.standard_exponential(ids.size) / weights
    is_zero = weights <= 0
    if int(ids.size - is_zero.sum()) < k:
        positive = ids[~is_zero]
        return np.concatenate([positive, draw_uniformly(ids[is_zero], k - positive.size, rng)])
    chosen = np.argpartition(keys, k - 1)[:k]
    return ids[chosen[np.argsort(keys[chosen], kind="stable")]]


def draw_with_replacement(ids: Ids, weights: Array, k: int, rng: np.random.Generator) -> Ids:
    """Draw k ids independently in proportion to ``weights``; uniformly where all are zero."""
    weights = _checked_weights(ids, weights)
    if ids.size == 0:
        return ids
    if weights.sum() <= 0:
        weights = np.ones_like(weights)
    cumulated = np.cumsum(weights)
    positions = np.searchsorted(cumulated, rng.random(k) * cumulated[-1], side="right")
    draws: Ids = ids[np.minimum(positions, ids.size - 1)]
    return draws


def take_largest(ids: Ids, values: Array, k: int, rng: np.random.Generator | None = None) -> Ids:
    """Return the ids of the k largest values, largest first; ties go to the lowest id, or at random by ``rng``."""
    if values.ndim != 1 or values.shape != ids.shape:
        raise bad("take_largest(values)", f"one number per id, shape {ids.shape}", f"shape {values.shape}")
    values = round_to_tie_grid(values)
    positions = _largest_positions(ids, values, k, rng)
    tie_order = ids[positions] if rng is None else rng.permutation(positions.size)
    return ids[positions[np.lexsort((tie_order, -values[positions]))]]


def take_largest_unsorted(ids: Ids, values: Array, k: int) -> Ids:
    """Return the ids of the k largest values in no order; ties go to the lowest id."""
    return ids[_largest_positions(ids, round_to_tie_grid(values), k, None)]


def _largest_positions(ids: Ids, values: Array, k: int, rng: np.random.Generator | None) -> Positions:
    """Return the positions of the k largest values in no order."""
    k = min(max(k, 0), ids.size)
    if k in (0, ids.size):
        return np.arange(k)
    kth_largest = np.partition(values, ids.size - k)[ids.size - k]
    above = np.flatnonzero(values > kth_largest)
    tied = np.flatnonzero(values == kth_largest)
    order = np.argsort(ids[tied]) if rng is None else rng.permutation(tied.size)
    return np.concatenate([above, tied[order[: k - above.size]]])


def _checked_weights(ids: Ids, weights: Array) -> Array:
    """Return the weights as floats; refuse another shape than the ids', and weights that are not finite and ≥ 0."""
    floats = np.asarray(weights, dtype=np.float64)
    if floats.shape != ids.shape:
        raise bad("weights", f"one per id, shape {ids.shape}", f"shape {floats.shape}")
    if floats.size and not (np.isfinite(floats).all() and floats.min() >= 0):
        raise bad("weights", "finite and ≥ 0", floats)
    return floats

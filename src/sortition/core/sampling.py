"""Drawing and ranking clients: always ids in, ids out."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.errors import bad


def uniformly(ids: Ids, k: int, rng: np.random.Generator) -> Ids:
    """k distinct ids, each set equally likely; all of them if there are no more."""
    if k >= ids.size:
        return ids.copy()
    return ids[rng.choice(ids.size, size=max(k, 0), replace=False, shuffle=False)]


def weighted(ids: Ids, weights: Array, k: int, rng: np.random.Generator) -> Ids:
    """k distinct ids drawn one after the other in proportion to ``weights`` (aligned with ids).

    Exponential keys (Efraimidis and Spirakis 2006): the k smallest E_i / weight_i, which is the same law in one pass.
    Clients of weight zero come last, at random.
    """
    w = _checked(ids, weights)
    if k >= ids.size:
        return ids.copy()
    if k <= 0:
        return ids[:0]
    with np.errstate(divide="ignore"):
        keys = rng.standard_exponential(ids.size) / w
    zero = w <= 0
    if int(ids.size - zero.sum()) < k:
        positive = ids[~zero]
        return np.concatenate([positive, uniformly(ids[zero], k - positive.size, rng)])
    chosen = np.argpartition(keys, k - 1)[:k]
    return ids[chosen[np.argsort(keys[chosen], kind="stable")]]


def with_replacement(ids: Ids, weights: Array, k: int, rng: np.random.Generator) -> Ids:
    """k independent draws in proportion to ``weights``; uniformly where all are zero."""
    w = _checked(ids, weights)
    if ids.size == 0:
        return ids
    bounds = np.cumsum(w if w.sum() > 0 else np.ones_like(w))
    at = np.searchsorted(bounds, rng.random(k) * bounds[-1], side="right")
    drawn: Ids = ids[np.minimum(at, ids.size - 1)]
    return drawn


def top(ids: Ids, values: Array, k: int, rng: np.random.Generator | None = None) -> Ids:
    """The ids of the k largest values, largest first; ties go to the lowest id, or by lot if given a rng."""
    if values.ndim != 1 or values.shape != ids.shape:
        raise bad("top.values", f"one number per id, shape {ids.shape}", f"shape {values.shape}")
    k = min(max(k, 0), ids.size)
    if k == 0:
        return ids[:0]
    if k < ids.size:  # narrow to the k largest and their ties before ordering
        bar = np.partition(values, ids.size - k)[ids.size - k]
        keep = values >= bar
        ids, values = ids[keep], values[keep]
    tie = ids if rng is None else rng.permutation(ids.size)
    return ids[np.lexsort((tie, -values))[:k]]


def _checked(ids: Ids, weights: Array) -> Array:
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != ids.shape:
        raise bad("weights", f"one per id, shape {ids.shape}", f"shape {w.shape}")
    if w.size and not (np.isfinite(w).all() and w.min() >= 0):
        raise bad("weights", "finite and ≥ 0", w)
    return w

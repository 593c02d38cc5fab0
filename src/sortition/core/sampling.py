"""Drawing and ranking clients: always ids in, ids out."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.errors import bad
from sortition.core.ties import rounded


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
    """The ids of the k largest values, largest first; ties go to the lowest id, or at random if given a rng."""
    if values.ndim != 1 or values.shape != ids.shape:
        raise bad("top.values", f"one number per id, shape {ids.shape}", f"shape {values.shape}")
    values = rounded(values)
    at = _leading(ids, values, k, rng)
    tie = ids[at] if rng is None else rng.permutation(at.size)
    return ids[at[np.lexsort((tie, -values[at]))]]


def leading(ids: Ids, values: Array, k: int) -> Ids:
    """The ids of the k largest values in no order, ties to the lowest id: :func:`top` without the sorting."""
    return ids[_leading(ids, rounded(values), k, None)]


def _leading(ids: Ids, values: Array, k: int, rng: np.random.Generator | None) -> Ids:
    k = min(max(k, 0), ids.size)
    if k in (0, ids.size):
        return np.arange(k)
    bar = np.partition(values, ids.size - k)[ids.size - k]
    above, level = np.flatnonzero(values > bar), np.flatnonzero(values == bar)
    order = np.argsort(ids[level]) if rng is None else rng.permutation(level.size)
    return np.concatenate([above, level[order[: k - above.size]]])


def _checked(ids: Ids, weights: Array) -> Array:
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != ids.shape:
        raise bad("weights", f"one per id, shape {ids.shape}", f"shape {w.shape}")
    if w.size and not (np.isfinite(w).all() and w.min() >= 0):
        raise bad("weights", "finite and ≥ 0", w)
    return w

"""How many places each stratum gets: Neyman's and proportional shares made whole, or a random draw of strata.

All functions take one entry a stratum, in the order of the strata.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from sortition.core.arrays import Array, Floats, Ids

_SLACK = 1e-9  # what rounding errors may add to or take from a whole number


def bounded(shares: Array, places: int, caps: Array) -> Floats:
    """min Σ shares_k² / s_k subject to Σ s_k = places and 1 ≤ s_k ≤ caps_k, for whole Σ between K and Σ caps.

    With shares H_k N_k this is eq. 20 under the bounds that it leaves out. Its KKT conditions give
    s_k = clip(λ·shares_k, 1, caps_k), and the sum is piecewise linear in λ: find the piece, then interpolate.
    """
    ceiling = np.asarray(caps, np.float64)
    share = np.asarray(shares, np.float64)
    # a stratum of share 0 keeps its one place, and takes more only when all others are full
    share = np.maximum(share, share.max() * 1e-9) if share.max() > 0 else np.ones_like(share)

    def total(scale: float) -> float:
        return float(np.clip(scale * share, 1.0, ceiling).sum())

    bends = np.unique(np.concatenate([1.0 / share, ceiling / share]))
    right = min(bisect_left(bends, places - _SLACK, key=total), bends.size - 1)
    left = max(right - 1, 0)
    low, high = total(bends[left]), total(bends[right])
    part = (places - low) / (high - low) if high > low else 1.0
    return np.asarray(np.clip((bends[left] + part * (bends[right] - bends[left])) * share, 1.0, ceiling))


def apportion(shares: Array, places: int, caps: Array) -> Ids:
    """Whole places per stratum in proportion to ``shares``: at least one each, at most ``caps``, ``places`` in all.

    Largest remainder (Hamilton): floors first, then one more for the largest fractions; ties to the lower stratum.
    """
    places = min(places, int(np.sum(caps)))
    target = bounded(shares, places, caps)
    seats = np.floor(target + _SLACK).astype(np.int64)
    order = np.argsort(-np.round(target - seats, 9), kind="stable")
    seats[order[: places - int(seats.sum())]] += 1
    return seats


def inclusion(mass: Array, places: int) -> Floats:
    """π_k ∝ mass_k, at most 1, Σ π_k = places: the chance that a stratum is drawn where there are too few places."""
    chance = np.zeros(len(mass))
    certain = np.zeros(len(mass), bool)
    while True:  # a stratum heavier than one place is certain, and leaves the rest to the others
        rest = np.where(certain, 0.0, mass)
        chance = np.where(certain, 1.0, (places - certain.sum()) * rest / max(rest.sum(), np.finfo(float).tiny))
        over = chance > 1.0 + _SLACK
        if not over.any():
            return np.minimum(chance, 1.0)
        certain |= over


def systematic(chance: Array, places: int, rng: np.random.Generator) -> Ids:
    """``places`` distinct strata, k with probability chance_k: one random start, then steps of one (Madow 1949).

    Strata are shuffled first, so that any two of them may meet.
    """
    order = rng.permutation(len(chance))
    ends = np.cumsum(chance[order])
    marks = (np.arange(places) + rng.random()) * (ends[-1] / places)
    hit = np.minimum(np.searchsorted(ends, marks, side="right"), len(chance) - 1)
    return np.sort(order[np.unique(hit)])

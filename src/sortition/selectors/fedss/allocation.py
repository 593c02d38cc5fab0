"""How many places each stratum gets: Neyman's and proportional shares made whole, or a random draw of strata.

All functions take one entry a stratum, in the order of the strata.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from sortition.core.arrays import Array, Floats, Ids

SLACK = 1e-9  # what rounding errors may add to or take from a whole number


def allocate_within_caps(shares: Array, places: int, caps: Array) -> Floats:
    """Minimise Σ shares_k² / s_k subject to Σ s_k = places and 1 ≤ s_k ≤ caps_k, for places between K and Σ caps.

    With shares H_k N_k this is eq. 20 under the bounds that it leaves out. Its KKT conditions give
    s_k = clip(λ·shares_k, 1, caps_k), and the sum is piecewise linear in λ: find the piece, then interpolate.
    """
    ceiling = np.asarray(caps, np.float64)
    share = np.asarray(shares, np.float64)
    if share.max() <= 0:
        share = np.ones_like(share)
    # a stratum of share 0 keeps its one place, and takes more only when all others are full
    share = np.maximum(share, share.max() * 1e-9)

    def allocated(multiplier: float) -> Floats:
        return np.asarray(np.clip(multiplier * share, 1.0, ceiling))

    def total(multiplier: float) -> float:
        return float(allocated(multiplier).sum())

    bends = np.unique(np.concatenate([1.0 / share, ceiling / share]))
    upper = min(bisect_left(bends, places - SLACK, key=total), bends.size - 1)
    lower = max(upper - 1, 0)
    lower_total = total(bends[lower])
    upper_total = total(bends[upper])
    part = 1.0
    if upper_total > lower_total:
        part = (places - lower_total) / (upper_total - lower_total)
    return allocated(bends[lower] + part * (bends[upper] - bends[lower]))


def apportion(shares: Array, places: int, caps: Array) -> Ids:
    """Return whole places per stratum in proportion to ``shares``: at least one each, at most ``caps``.

    They add up to ``places``, or to all caps. Largest remainder (Hamilton): floors first, then one more for the largest
    fractions; ties go to the lower stratum.
    """
    places = min(places, int(np.sum(caps)))
    target = allocate_within_caps(shares, places, caps)
    seats = np.floor(target + SLACK).astype(np.int64)
    order = np.argsort(-np.round(target - seats, 9), kind="stable")
    seats[order[: places - int(seats.sum())]] += 1
    return seats


def inclusion_chances(mass: Array, places: int) -> Floats:
    """Return the chance that each stratum is drawn where there are too few places: π_k ∝ mass_k ≤ 1, Σ π_k = places.

    A stratum heavier than one place is certain, and leaves the other places to the others.
    """
    certain = np.zeros(len(mass), bool)
    while True:
        uncertain_mass = np.where(certain, 0.0, mass)
        total = max(uncertain_mass.sum(), np.finfo(float).tiny)
        chance = np.where(certain, 1.0, (places - certain.sum()) * uncertain_mass / total)
        too_heavy = chance > 1.0 + SLACK
        if not too_heavy.any():
            return np.minimum(chance, 1.0)
        certain |= too_heavy


def draw_systematically(chance: Array, places: int, rng: np.random.Generator) -> Ids:
    """Draw ``places`` distinct strata, k with probability chance_k: one random start, then steps of one (Madow 1949).

    Strata are shuffled first, so that any two of them may meet.
    """
    order = rng.permutation(len(chance))
    ends = np.cumsum(chance[order])
    marks = (np.arange(places) + rng.random()) * (ends[-1] / places)
    positions = np.minimum(np.searchsorted(ends, marks, side="right"), len(chance) - 1)
    return np.sort(order[np.unique(positions)])

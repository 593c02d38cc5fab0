"""Where seconds count: the portrait with most progress per second; slow clients are paid in rounds of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.selectors.microcosm.durations import duration_limits
from sortition.selectors.microcosm.payments import Payments
from sortition.selectors.microcosm.sitting import Sitting, WeightedPortrait

PAID_FROM = 0.5  # of the patience with a client: a member that waited so long is paid a unit
CANDIDATES_OF_PAYMENT = 2  # times the places


@dataclass(frozen=True)
class Decision:
    """A portrait, and what it has to do with seconds.

    Attributes:
        portrait: who is chosen, with what weight.
        limit: the longest expected duration of a candidate, in seconds.
        too_slow: how many available clients would take longer.
        due: how many members were forced, since a payment to them was due.
    """

    portrait: WeightedPortrait
    limit: float
    too_slow: int
    due: int


def choose_quickest(
    sitting: Sitting,
    *,
    seconds: Floats,
    owing: Payments,
    waits: Array,
    ids: Ids,
    deadline: float | None,
    overlaps: bool,
) -> Decision:
    """Choose among the available clients by progress per second.

    Where a payment is due, the round is as slow as the slowest of those to be paid; the rest of the cohort is then
    chosen among the slowest of those who wait for a payment, too, so that slow clients share few rounds.

    Args:
        sitting: the candidates.
        seconds: (n,) expected durations τ of the candidates.
        owing: what clients must be paid.
        waits: (N, 8) how long units have waited.
        ids: (n,) the candidates' ids.
        deadline: seconds after which the server no longer waits, where there is a deadline.
        overlaps: whether others are at work, so that a member holds its own place and not the server.
    """
    clients, forced_weights = owing.find_forced(waits, ids)
    forced = np.searchsorted(ids, clients)
    has_waited = waits[ids, 0] >= PAID_FROM * owing.patience
    sitting = replace(
        sitting, floors=_weight_floors(owing.value[ids] * has_waited, forced, forced_weights, sitting.places)
    )
    if forced.size:
        longest = float(seconds[forced].max())
        pool = _payment_pool(sitting, seconds=seconds, has_waited=has_waited, forced=forced)
        if pool.size >= sitting.places:
            portrait = sitting.portrait(pool, forced=forced)
            return Decision(portrait=portrait, limit=longest, too_slow=int((seconds > longest).sum()), due=forced.size)
    best_rate = -np.inf
    best_limit = np.inf
    for limit in duration_limits(
        seconds, sitting.places, least=float(seconds[forced].max(initial=0.0)), deadline=deadline
    ):
        candidate = sitting.portrait(_candidates_within(sitting, seconds, limit), forced=forced, swaps=False)
        member_seconds = seconds[candidate.members]
        duration = float(member_seconds.mean() if overlaps else member_seconds.max())
        progress = sitting.progress(candidate)
        rate = progress / duration if progress > 0 else progress * duration
        if rate > best_rate:
            best_rate = rate
            best_limit = float(limit)
    portrait = sitting.portrait(_candidates_within(sitting, seconds, best_limit), forced=forced)
    return Decision(portrait=portrait, limit=best_limit, too_slow=int((seconds > best_limit).sum()), due=forced.size)


def _candidates_within(sitting: Sitting, seconds: Floats, limit: float) -> Ids:
    """Return the candidates that take no longer than the limit, in the random order."""
    candidates = sitting.random_order
    return candidates[seconds[candidates] <= limit]


def _payment_pool(sitting: Sitting, *, seconds: Floats, has_waited: Array, forced: Ids) -> Ids:
    """Return the forced and the slowest of those who have waited and take no longer, in the random order."""
    candidates = sitting.random_order
    longest = seconds[forced].max()
    waiting = candidates[has_waited[candidates] & (seconds[candidates] <= longest)]
    slowest_first = np.argsort(-seconds[waiting], kind="stable")
    slowest = waiting[slowest_first[: CANDIDATES_OF_PAYMENT * sitting.places]]
    return candidates[np.isin(candidates, slowest) | np.isin(candidates, forced)]


def _weight_floors(unit_if_waited: Floats, forced: Ids, forced_weights: Floats, places: int) -> Floats:
    """Return the least weight of each candidate, if chosen (n,); those of any cohort sum to 1 at most."""
    free_places = places - forced.size
    free_weight = max(1.0 - float(forced_weights.sum()), 0.0)
    floors = np.zeros(unit_if_waited.size)
    if free_places > 0:
        floors = np.minimum(unit_if_waited, free_weight / free_places)
    floors[forced] = forced_weights
    return floors

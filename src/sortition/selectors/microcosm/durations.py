"""How long clients take: what they expect, what was observed, and which limits on it are tried."""

from __future__ import annotations

import numpy as np

from sortition.core import Feedback
from sortition.core.arrays import Floats

MOST_LIMITS = 12
SHORTEST = 1e-9  # seconds


def expected_seconds(seconds: Floats) -> Floats:
    """Return τ (N,): what is known, and the median of it for clients of whom nothing is."""
    is_known = ~np.isnan(seconds)
    if not is_known.any():
        return np.ones(seconds.size)
    return np.where(is_known, np.maximum(seconds, SHORTEST), max(float(np.median(seconds[is_known])), SHORTEST))


def observed_seconds(seconds: Floats, feedback: Feedback) -> Floats:
    """Return τ (N,) after a round: log τ moves half way to the log of what was observed.

    A member that did not answer is at least as slow as the slowest that did.
    """
    has_duration = np.isfinite(feedback.durations) & (feedback.durations > 0)
    if not has_duration.any():
        return seconds
    observed = feedback.durations[has_duration]
    ids = feedback.ids[has_duration]
    moved = seconds.copy()
    previous = np.where(np.isnan(seconds[ids]), observed, np.maximum(seconds[ids], SHORTEST))
    moved[ids] = np.sqrt(previous * observed)
    silent = feedback.cohort.ids[~np.isin(feedback.cohort.ids, feedback.ids)]
    moved[silent] = np.fmax(moved[silent], observed.max())
    return moved


def duration_limits(seconds: Floats, places: int, *, least: float, deadline: float | None) -> Floats:
    """Return at most 12 limits, order statistics of the candidates' durations from the ``places``-th to the last.

    None is below ``least``, which some member takes anyway, and none is above the deadline, where enough candidates can
    keep it.
    """
    order = np.sort(seconds)
    last = order.size - 1
    if deadline is not None:
        last = max(int(np.searchsorted(order, deadline, side="right")) - 1, min(places, order.size) - 1)
    positions = np.linspace(min(places, order.size) - 1, last, MOST_LIMITS).round().astype(np.int64)
    return np.unique(np.maximum(order[positions], least))

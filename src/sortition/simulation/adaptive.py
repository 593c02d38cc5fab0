"""Adversaries that know the guards and stay just below each of them, all together.

They see what honest clients send in the same reading, and collude. Against guards that compare with the honest clients'
median this is the strongest they can send and still be believed, so it shows what guards are worth against somebody
who has read them; :mod:`.attacks` has the crude attacks.

``Attacks.when`` says when they attack. A guard that compares the rows of one round with each other is blind where
adversaries are the majority; so some wait for such a round, some stay away and come back together to be given one, and
some use it to make honest clients look absurd.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.facts import totals
from sortition.core.guards.screening import norms
from sortition.core.questions import Reading
from sortition.core.signals import DURATION, RESOURCES, Signal
from sortition.learning.vector import Vector
from sortition.simulation.attacks import Adversaries, Attacks

BELOW = 0.98  # how far below a guard they stay
NEXT_TO_NOTHING = 1e-9  # of an honest vector: what adversaries send that want others to look absurd


class AdaptiveAdversaries(Adversaries):
    """Every report at its guard: losses, sizes, histograms, vectors and updates at once."""

    def away(self, t: int) -> Array | None:
        """(N,) the adversaries, in rounds in which they stay away to come back together."""
        if self.attacks.when != "return":
            return None
        period = self.attacks.away + self.attacks.present
        since = t % period if self.attacks.present else t
        return self.mask if since < self.attacks.away else None

    @property
    def _waits(self) -> bool:
        """Whether they are honest but where they are the majority."""
        return self.attacks.when == "chance"

    def facts(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Sizes just below the cap, all of them of the label that is rarest among the honest clients."""
        counts = np.asarray(facts["label_counts"])
        honest_counts = counts[~self.mask]
        if self._waits or not len(honest_counts):  # nobody to compare with
            return dict(facts)
        size = int(BELOW * self.attacks.size_cap * float(np.median(totals(honest_counts))))
        rarest = honest_counts.sum(axis=0).argmin()
        forged = counts.copy()
        forged[self.ids] = 0
        forged[self.ids, rarest] = size
        sizes = np.asarray(facts["sizes"]).copy()
        sizes[self.ids] = size
        return {**facts, "sizes": sizes, "label_counts": forged}

    def reading(self, signal: Signal, reading: Reading, label_counts: Array) -> Reading:
        """Losses as large as is believed, durations of nothing, vectors that are all the same."""
        false = self.mask[reading.ids]
        if signal.of == "pairs":
            claimed = self.facts({"sizes": totals(label_counts), "label_counts": label_counts})["label_counts"]
            rows = claimed[reading.ids].astype(np.float64)
            return Reading(reading.ids, rows @ rows.T)
        if not false.any() or (self._waits and not _majority(false)):
            return reading
        of_updates = signal.of == "training" and not signal.scalar
        values = reading.values.copy()
        if of_updates:
            values[false] = self._vectors(values, false)
        elif false.all():
            return reading
        elif signal.compute in (DURATION.compute, RESOURCES.compute):
            values[false] = 0.0
        elif signal.scalar:
            values[false] = self._largest_believed(values[~false], int(false.sum()))
        return Reading(reading.ids, values)

    def updates(self, ids: Ids, deltas: Vector) -> Vector:
        """What they send in place of their updates; the same for all of them."""
        false = self.mask[ids]
        if not false.any() or (self._waits and not _majority(false)):
            return deltas
        sent = deltas.copy()
        sent[false] = self._vectors(deltas, false)
        return sent

    def _vectors(self, rows: Array, false: Array) -> Array:
        """One vector in place of those of the adversaries (``false``) among these rows."""
        if self.attacks.when == "framing":
            return NEXT_TO_NOTHING * rows[false]
        unbounded = _majority(false) and self.attacks.when in ("return", "chance")
        seen = rows[false] if unbounded or false.all() else rows[~false]  # alone, they reverse what they would send
        times = self.attacks.strength if unbounded else BELOW * self.attacks.norm
        return _reversed(seen, times)

    def _largest_believed(self, honest: Floats, count: int) -> float:
        """Below median + c robust deviations, and below n medians, of a reading in which they are ``count``."""
        everybody = np.concatenate([honest, np.full(count, np.inf)])  # they are above the median in any case
        middle = float(np.median(everybody)) if count < honest.size else float(np.max(honest))
        spread = 1.4826 * float(np.median(np.abs(honest - middle))) or middle
        return BELOW * min(middle + self.attacks.winsorise * spread, self.attacks.norm * middle)


def _majority(false: Array) -> bool:
    return 2 * int(false.sum()) > false.size


def _reversed(rows: Array, times: float) -> Array:
    """The mean of these rows, reversed, so many times as long as they usually are."""
    mean = rows.mean(axis=0)
    size = float(np.linalg.norm(mean))
    if size == 0:
        return np.zeros_like(mean)
    return -mean * (times * float(np.median(norms(rows))) / size)


def adversaries_of(attacks: Attacks, n_clients: int, seed: int) -> Adversaries:
    """The adversaries of an attack."""
    kind = AdaptiveAdversaries if attacks.kind == "adaptive" else Adversaries
    return kind(attacks, n_clients, seed)

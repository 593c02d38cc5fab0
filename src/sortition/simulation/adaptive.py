"""Adversaries that know the guards and stay just below each of them, all together.

They see what honest clients send in the same reading, and collude. Against guards that compare with the honest clients'
median this is the strongest they can send and still be believed, so it shows what guards are worth against somebody
who has read them; :mod:`.attacks` has the crude attacks.
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


class AdaptiveAdversaries(Adversaries):
    """Every report at its guard: losses, sizes, histograms, vectors and updates at once."""

    def facts(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Sizes just below the cap, all of them of the label that is rarest among the honest clients."""
        counts = np.asarray(facts["label_counts"])
        honest = counts[~self.mask]
        if not len(honest):
            return dict(facts)  # nobody to compare with
        size = int(BELOW * self.attacks.size_cap * float(np.median(totals(honest))))
        forged, sizes = counts.copy(), np.asarray(facts["sizes"]).copy()
        forged[self.ids] = 0
        forged[self.ids, honest.sum(axis=0).argmin()] = size
        sizes[self.ids] = size
        return {**facts, "sizes": sizes, "label_counts": forged}

    def reading(self, signal: Signal, reading: Reading, label_counts: Array) -> Reading:
        """Losses as large as is believed, durations of nothing, vectors that are all the same."""
        theirs = self.mask[reading.ids]
        if signal.of == "pairs":
            own = self.facts({"sizes": totals(label_counts), "label_counts": label_counts})["label_counts"]
            own = own[reading.ids].astype(np.float64)
            return Reading(reading.ids, own @ own.T)
        if not theirs.any() or theirs.all():
            return reading
        values = reading.values.copy()
        if signal.compute in (DURATION.compute, RESOURCES.compute):
            values[theirs] = 0.0
        elif signal.scalar:
            values[theirs] = self._largest_believed(values[~theirs], theirs.sum())
        elif signal.of == "training":
            values[theirs] = self._reversed(values[~theirs])
        return Reading(reading.ids, values)

    def updates(self, ids: Ids, deltas: Vector) -> Vector:
        """The honest clients' mean, reversed, as long as is believed; the same for all of them."""
        theirs = self.mask[ids]
        if not theirs.any() or theirs.all():
            return deltas
        sent = deltas.copy()
        sent[theirs] = self._reversed(deltas[~theirs])
        return sent

    def _largest_believed(self, honest: Floats, count: int) -> float:
        """Below median + c robust deviations, and below n medians, of a reading in which they are ``count``."""
        everybody = np.concatenate([honest, np.full(count, np.inf)])  # they are above the median in any case
        middle = float(np.median(everybody)) if count < honest.size else float(np.max(honest))
        spread = 1.4826 * float(np.median(np.abs(honest - middle))) or middle
        return BELOW * min(middle + self.attacks.winsorise * spread, self.attacks.norm * middle)

    def _reversed(self, honest: Array) -> Array:
        mean, length = honest.mean(axis=0), BELOW * self.attacks.norm * float(np.median(norms(honest)))
        size = float(np.linalg.norm(mean))
        return -mean * (length / size) if size > 0 else np.zeros_like(mean)


def adversaries_of(attacks: Attacks, n_clients: int, seed: int) -> Adversaries:
    """The adversaries of an attack."""
    kind = AdaptiveAdversaries if attacks.kind == "adaptive" else Adversaries
    return kind(attacks, n_clients, seed)

"""Adversaries that know the guards and stay just below each of them, all together.

They see what honest clients send in the same reading, and collude. Against guards that compare with the honest clients'
median this is the strongest they can send and still be believed, so it shows what guards are worth against somebody
who has read their code; :mod:`.attacks` has the crude attacks.

``Attacks.when`` says when they attack. A guard that compares the rows of one round with each other is blind where
adversaries are the majority. So some adversaries wait for such a round, some stay away and return together to bring
one about, and some use it to make honest clients look absurd.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.guards.answer_screening import row_norms
from sortition.core.population import total_examples
from sortition.core.questions import Reading
from sortition.core.signals import DURATION, RESOURCES, Signal
from sortition.learning.vector import Vector
from sortition.simulation.attacks import Adversaries, Attacks

BELOW = 0.98  # how far below a guard they stay
NEXT_TO_NOTHING = 1e-9  # times an honest vector: adversaries send it to make others look absurd


class AdaptiveAdversaries(Adversaries):
    """Adversaries whose every report stays at its guard: losses, sizes, histograms, vectors and updates at once."""

    def away(self, t: int) -> Array | None:
        """Return a mask (N,) of the adversaries in rounds in which they stay away to return together."""
        if self.attacks.when != "return":
            return None
        rounds_since_leaving = t
        if self.attacks.present:
            rounds_since_leaving = t % (self.attacks.away + self.attacks.present)
        if rounds_since_leaving >= self.attacks.away:
            return None
        return self.mask

    @property
    def _waits_for_majority(self) -> bool:
        """Tell whether they are honest except in rounds in which they are the majority."""
        return self.attacks.when == "chance"

    def facts(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Claim sizes just below the cap, all of the label that is rarest among the honest clients."""
        counts = np.asarray(facts["label_counts"])
        honest_counts = counts[~self.mask]
        if self._waits_for_majority or not len(honest_counts):  # nobody to compare with
            return dict(facts)
        size = int(BELOW * self.attacks.size_cap * float(np.median(total_examples(honest_counts))))
        rarest = honest_counts.sum(axis=0).argmin()
        forged = counts.copy()
        forged[self.ids] = 0
        forged[self.ids, rarest] = size
        sizes = np.asarray(facts["sizes"]).copy()
        sizes[self.ids] = size
        return {**facts, "sizes": sizes, "label_counts": forged}

    def reading(self, signal: Signal, reading: Reading, label_counts: Array) -> Reading:
        """Replace the adversaries' values: losses as large as is believed, durations of 0 and forged vectors."""
        is_adversary = self.mask[reading.ids]
        if signal.of == "pairs":
            claimed = self.facts({"sizes": total_examples(label_counts), "label_counts": label_counts})["label_counts"]
            rows = claimed[reading.ids].astype(np.float64)
            return Reading(reading.ids, rows @ rows.T)
        if not self._attack_now(is_adversary):
            return reading
        values = reading.values.copy()
        if signal.of == "training" and not signal.scalar:
            values[is_adversary] = self._vectors(values, is_adversary)
        elif is_adversary.all():
            return reading
        elif signal.compute in (DURATION.compute, RESOURCES.compute):
            values[is_adversary] = 0.0
        elif signal.scalar:
            values[is_adversary] = self._largest_believed(values[~is_adversary], n_adversaries=int(is_adversary.sum()))
        return Reading(reading.ids, values)

    def updates(self, ids: Ids, deltas: Vector) -> Vector:
        """Return the updates that are sent; all adversaries send the same."""
        is_adversary = self.mask[ids]
        if not self._attack_now(is_adversary):
            return deltas
        updates = deltas.copy()
        updates[is_adversary] = self._vectors(deltas, is_adversary)
        return updates

    def _attack_now(self, is_adversary: Array) -> bool:
        """Say whether the adversaries among these clients attack in this round; ``is_adversary`` is a mask (k,)."""
        if not is_adversary.any():
            return False
        return _majority(is_adversary) or not self._waits_for_majority

    def _vectors(self, rows: Array, is_adversary: Array) -> Array:
        """Return what adversaries send in place of their vectors among these rows."""
        if self.attacks.when == "framing":
            return NEXT_TO_NOTHING * rows[is_adversary]
        if _majority(is_adversary) and self.attacks.when in ("return", "chance"):  # no guard bounds them
            return _reversed(rows[is_adversary], self.attacks.strength)
        rows_to_reverse = rows[~is_adversary]
        if is_adversary.all():  # alone, they reverse what they would send
            rows_to_reverse = rows
        return _reversed(rows_to_reverse, BELOW * self.attacks.norm)

    def _largest_believed(self, honest: Floats, n_adversaries: int) -> float:
        """Return the largest value that two guards believe: it stays just below what each of them allows.

        Winsorising allows the median of all reports and c robust deviations; the guard on norms allows n medians.
        """
        if n_adversaries < honest.size:
            everybody = np.concatenate([honest, np.full(n_adversaries, np.inf)])  # they are above the median anyway
            middle = float(np.median(everybody))
        else:
            middle = float(np.max(honest))
        spread = 1.4826 * float(np.median(np.abs(honest - middle)))
        if spread == 0:
            spread = middle
        highest_unwinsorised = middle + self.attacks.winsorise * spread
        highest_norm = self.attacks.norm * middle
        return BELOW * min(highest_unwinsorised, highest_norm)


def _majority(is_adversary: Array) -> bool:
    return 2 * int(is_adversary.sum()) > is_adversary.size


def _reversed(rows: Array, factor: float) -> Array:
    """Return the mean of these rows, reversed, ``factor`` times as long as they usually are."""
    mean = rows.mean(axis=0)
    length = float(np.linalg.norm(mean))
    if length == 0:
        return np.zeros_like(mean)
    return -mean * (factor * float(np.median(row_norms(rows))) / length)


def adversaries_of(attacks: Attacks, n_clients: int, seed: int) -> Adversaries:
    """Return the adversaries of an attack."""
    if attacks.kind == "adaptive":
        return AdaptiveAdversaries(attacks, n_clients, seed)
    return Adversaries(attacks, n_clients, seed)

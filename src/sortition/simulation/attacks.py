"""Clients that attack, on the same paths by which honest clients send.

:class:`Attacks` says how many attack and how; :class:`Adversaries` are those of one seed. They claim other facts,
answer and report other numbers, or send other updates; they cannot change what a round costs or how long they take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sortition.core.arrays import Array, Ids
from sortition.core.errors import bad, unknown
from sortition.core.guards.settings import Number, Whole
from sortition.core.population import LARGEST_COUNT, total_examples
from sortition.core.questions import Reading
from sortition.core.signals import DURATION, RESOURCES, Signal
from sortition.core.streams import stream
from sortition.core.validation import is_whole, refuse_unknown_keys

if TYPE_CHECKING:
    from sortition.learning.vector import Vector

KINDS = ("none", "loss", "size", "histogram", "latency", "sybil", "update", "adaptive")
WHEN = ("always", "return", "chance", "framing")
STRONGEST = 1e15  # as long as the longest report that guards accept; a stronger attack proves nothing more


@refuse_unknown_keys
@dataclass(frozen=True)
class Attacks:
    """A share of the clients attacks.

    Attributes:
        kind: ``loss``: losses and spreads are reported ``strength`` times as large. ``size``: so are the numbers of
            examples. ``histogram``: all examples are claimed to have the label that is rarest in the federation.
            ``latency``: durations are reported ``strength`` times as short. ``sybil``: the adversaries belong to one
            owner and all hold the data of the first. ``update``: updates, and reports of them, are reversed and
            ``strength`` times as long. ``adaptive``: all reports and updates stay just below the guards that are
            expected (:mod:`.adaptive_attacks`). ``none``: the same clients are watched, and honest.
        share: of all clients; who they are depends on the seed alone.
        strength: a factor, at most 1e15; of sizes, so that nobody claims more than 2**53 examples.
        norm: the guard of this name that adaptive adversaries expect.
        winsorise: likewise.
        size_cap: likewise.
        when: of adaptive adversaries. ``always``: they stay below the guards in every round. ``return``: they are away
            for ``away`` rounds, come back together, and send updates of ``strength`` times the usual length in rounds
            in which they are the majority, otherwise as ``always``. ``chance``: they are honest but in rounds in which
            they happen to be the majority. ``framing``: they send next to nothing, so that honest clients look absurd
            where adversaries are the majority.
        away: rounds for which adversaries that return are away.
        present: rounds for which they then stay, before they go away again; 0: for good.
    """

    kind: str = "none"
    share: Number = 0.1
    strength: Number = 10.0
    norm: Number = 5.0
    winsorise: Number = 3.0
    size_cap: Number = 2.0
    when: str = "always"
    away: Whole = 40
    present: Whole = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown("kind", str(self.kind), KINDS, "Attacks")
        if self.when not in WHEN:
            raise unknown("when", str(self.when), WHEN, "Attacks")
        if self.when != "always" and self.kind != "adaptive":
            raise bad("Attacks.when", "'always' where the attack is not adaptive", self.when)
        for name in ("away", "present"):
            if not is_whole(getattr(self, name), 0):
                raise bad(f"Attacks.{name}", "a whole number ≥ 0", getattr(self, name))
        for name in ("share", "strength", "norm", "winsorise", "size_cap"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
                raise bad(f"Attacks.{name}", "a number", value)
        if not 0 < self.share < 1:
            raise bad("Attacks.share", "a share in (0, 1)", self.share, "10 % is 0.1.")
        for name in ("strength", "norm", "winsorise", "size_cap"):
            if not 0 < getattr(self, name) <= STRONGEST:
                raise bad(f"Attacks.{name}", f"> 0 and at most {STRONGEST:g}", getattr(self, name))


class Adversaries:
    """The adversaries among N clients under one seed."""

    def __init__(self, attacks: Attacks, n_clients: int, seed: int) -> None:
        n_adversaries = max(1, round(attacks.share * n_clients))
        drawn_ids = stream(seed, "liars").choice(n_clients, n_adversaries, replace=False)
        self.attacks = attacks
        self.ids: Ids = np.sort(drawn_ids).astype(np.int64)
        self.mask = np.zeros(n_clients, bool)
        self.mask[self.ids] = True

    @property
    def owners(self) -> Ids | None:
        """Return whose data each client holds (N,), where many clients belong to one owner."""
        if self.attacks.kind != "sybil":
            return None
        return np.where(self.mask, self.ids[0], np.arange(self.mask.size))

    def away(self, t: int) -> Array | None:
        """Return a mask (N,) of the clients that stay away in round t; None where nobody does."""
        return None

    def facts(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the facts that clients claim; who owns a client cannot be forged."""
        claimed = dict(facts)
        kind = self.attacks.kind
        if kind == "size":
            for name in ("sizes", "label_counts"):
                if name in facts:
                    claimed[name] = self._raised(np.asarray(facts[name]))
        elif kind == "histogram":
            claimed["label_counts"] = self._forged(np.asarray(facts["label_counts"]))
        elif kind == "sybil":
            claimed["groups"] = self.owners
        return claimed

    def _raised(self, counts: Array) -> Array:
        """Return counts in which adversaries claim ``strength`` times their examples."""
        claimed = np.rint(counts[self.ids] * self.attacks.strength)
        largest_claim = float(total_examples(claimed).max())
        if largest_claim > LARGEST_COUNT:
            hint = f"They would claim up to {largest_claim:g} examples; in a population no client has more than 2**53."
            raise bad("Attacks.strength", "smaller where sizes are claimed", self.attacks.strength, hint)
        raised = counts.copy()
        raised[self.ids] = claimed
        return raised

    def _forged(self, counts: Array) -> Array:
        """Return label counts in which all examples of adversaries have the rarest label."""
        rarest_label = counts.sum(axis=0).argmin()
        forged = counts.copy()
        forged[self.ids] = 0
        forged[self.ids, rarest_label] = counts[self.ids].sum(axis=1)
        return forged

    def reading(self, signal: Signal, reading: Reading, label_counts: Array) -> Reading:
        """Return what clients answer and report, true or not."""
        kind = self.attacks.kind
        if signal.of == "pairs":
            if kind not in ("size", "histogram"):
                return reading
            claimed = self.facts({"sizes": label_counts.sum(axis=1), "label_counts": label_counts})["label_counts"]
            rows = claimed[reading.ids].astype(np.float64)
            return Reading(reading.ids, rows @ rows.T)
        factor = self._factor(signal)
        if factor == 1.0:
            return reading
        return Reading(reading.ids, self._scaled(reading.ids, reading.values, factor))

    def _factor(self, signal: Signal) -> float:
        """Return the factor by which adversaries multiply what they answer."""
        kind = self.attacks.kind
        is_duration = signal.compute in (DURATION.compute, RESOURCES.compute)
        if kind == "latency" and is_duration:
            return 1 / self.attacks.strength
        if kind == "loss" and signal.scalar and signal.nonnegative and not is_duration:
            return self.attacks.strength
        if kind == "update" and signal.of == "training" and not signal.scalar:
            return -self.attacks.strength
        return 1.0

    def updates(self, ids: Ids, deltas: Vector) -> Vector:
        """Return the updates that are sent."""
        if self.attacks.kind != "update":
            return deltas
        return self._scaled(ids, deltas, -self.attacks.strength)

    def _scaled(self, ids: Ids, rows: Array, factor: float) -> Array:
        """Return rows of which those of adversaries are multiplied by a factor."""
        if not self.mask[ids].any():
            return rows
        scaled = rows.copy()
        with np.errstate(over="ignore"):  # what overflows is sent as infinity
            scaled[self.mask[ids]] *= factor
        return scaled

"""What a late update counts: it was trained from a version of the model that is some steps old."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import bad, unknown
from sortition.core.validation import is_number, refuse_unknown_keys

RULES = ("constant", "polynomial", "hinge", "saa")


@refuse_unknown_keys
@dataclass(frozen=True)
class Staleness:
    """What an update counts that is τ versions old; a fresh one counts 1.

    Attributes:
        name: ``constant``: 1. ``polynomial``: (1 + τ)^−exponent. ``hinge``: 1 up to τ = b, then 1 / (a (τ − b) + 1).
            ``saa``: REFL's (1 − β) / (τ + 1) + β (1 − e^(−Λ/Λmax)), Λ how far the update is from the fresh ones.
        exponent: of the polynomial; FedBuff's is 0.5.
        a: slope of the hinge.
        b: staleness up to which the hinge counts fully.
        beta: β of SAA.
    """

    name: str = "polynomial"
    exponent: float = 0.5
    a: float = 10.0
    b: float = 4.0
    beta: float = 0.35

    def __post_init__(self) -> None:
        if self.name not in RULES:
            raise unknown("staleness", self.name, RULES, "pace")
        for name in ("exponent", "a", "b"):
            value = getattr(self, name)
            if not (is_number(value) and math.isfinite(value) and value >= 0):
                raise bad(f"pace.staleness.{name}", "finite and ≥ 0", value)
        if not (is_number(self.beta) and 0 <= self.beta <= 1):
            raise bad("pace.staleness.beta", "in [0, 1]", self.beta)
        for name in ("exponent", "a", "b", "beta"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def individual(self) -> bool:
        """Whether it looks at single updates, which secure aggregation hides."""
        return self.name == "saa"

    def discounts(self, staleness: Ids, updates: Array | None = None) -> Floats:
        """Return (k,) what each update counts; SAA needs the updates (k, P) themselves."""
        tau = np.asarray(staleness, np.float64)
        if self.name == "constant":
            return np.ones(tau.size)
        if self.name == "polynomial":
            return np.asarray((1.0 + tau) ** -self.exponent)
        if self.name == "hinge":
            return np.where(tau <= self.b, 1.0, 1.0 / (self.a * np.maximum(tau - self.b, 0.0) + 1.0))
        return self._saa(tau, updates)

    def _saa(self, tau: Floats, updates: Array | None) -> Floats:
        """Return w_s = (1 − β) / (τ_s + 1) + β (1 − e^(−Λ_s/Λmax)) of the stale, 1 of the fresh.

        Λ_s = ‖û_F − u_s‖² / ((n_F + 1)² ‖û_F‖²), û_F the mean of the n_F fresh updates. Without a fresh update, or
        where they add up to nothing, Λ says nothing, and the second term is left out.
        """
        fresh = tau == 0
        counts = np.ones(tau.size)
        if fresh.all():
            return counts
        if updates is None:
            raise bad("pace.staleness", "given single updates for saa", None)
        deviation = np.zeros(int((~fresh).sum()))
        if fresh.any():
            mean = np.asarray(updates[fresh], np.float64).mean(axis=0)
            squared_norm = float(mean @ mean)
            if squared_norm > 0:
                n_fresh = int(fresh.sum())
                difference = np.asarray(updates[~fresh], np.float64) - mean
                deviation = (difference * difference).sum(axis=1) / ((n_fresh + 1) ** 2 * squared_norm)
        share = deviation
        largest = float(deviation.max(initial=0.0))
        if largest > 0:
            share = deviation / largest
        counts[~fresh] = (1 - self.beta) / (tau[~fresh] + 1) + self.beta * (1 - np.exp(-share))
        return counts

    def changed(self) -> str | dict[str, object]:
        """Return the rule's name, or a table where a parameter differs from its default, as a study has them."""
        table = {name: value for name, value in asdict(self).items() if value != getattr(Staleness, name)}
        if not table.keys() - {"name"}:
            return self.name
        return {"name": self.name, **table}

"""The candidates of a round, as they sit for portraits: weighted cohorts that are made and compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Floats, Ids
from sortition.core.cohort import NOBODY
from sortition.core.simplex import fit_simplex
from sortition.selectors.microcosm.portrait import Portrait, provisional_weights


@dataclass(frozen=True)
class WeightedPortrait:
    """A cohort that portrays all data.

    Attributes:
        members: (k,) positions among the candidates.
        weights: (k,) weights of the members, each above 0; they sum to 1.
    """

    members: Ids
    weights: Floats


@dataclass(frozen=True)
class Sitting:
    """The n candidates of a round, and what the portraits that are made of them aim at.

    Attributes:
        phi: (n, d) the features Φ of the candidates.
        target: (d,) T, the mixture of features aimed at.
        owed: (n,) p + d, the weights aimed at.
        trade_off: λ, how much the weights count against the mixture.
        common: G, the part that all updates share.
        places: how many can be chosen.
        floors: (n,) the least weight of each candidate, if it is chosen.
        random_order: (n,) the positions of the candidates in the order that decides where scores tie.
    """

    phi: Floats
    target: Floats
    owed: Floats
    trade_off: float
    common: float
    places: int
    floors: Floats
    random_order: Ids

    def portrait(self, pool: Ids, *, forced: Ids = NOBODY, swaps: bool = True) -> WeightedPortrait:
        """Choose and weigh members of ``pool``; a member that would weigh nothing gives its place to another.

        Args:
            pool: positions of candidates, in the random order.
            forced: positions of those that are chosen in any case.
            swaps: whether the greedy choice is improved by swaps.
        """
        while True:
            members = self._choose(pool, forced, swaps)
            weights = self._weights(members)
            idle = members[weights <= 0]
            if not idle.size or pool.size - idle.size < self.places:
                break
            pool = pool[~np.isin(pool, idle)]
        has_weight = weights > 0
        return WeightedPortrait(members=members[has_weight], weights=weights[has_weight])

    def _choose(self, pool: Ids, forced: Ids, swaps: bool) -> Ids:
        places = min(self.places, pool.size)
        portrait = Portrait(
            phi=self.phi[pool],
            owed=self.owed[pool],
            provisional=np.maximum(provisional_weights(self.owed[pool], places), self.floors[pool]),
            trade_off=self.trade_off,
            target=self.target,
        )
        return pool[portrait.choose(places, required=np.flatnonzero(np.isin(pool, forced)), swaps=swaps)]

    def _weights(self, members: Ids) -> Floats:
        """Return the weights a ≥ ``floors`` with Σa = 1 that minimise ‖Φ_Sᵀa − T‖² + λ‖a − t‖², t = max(p + d, 0)."""
        rows = self.phi[members]
        anchor = np.maximum(self.owed[members], 0.0)
        floor = self.floors[members]
        if not floor.any():
            return fit_simplex(rows, self.target, anchor, self.trade_off)
        free_mass = 1.0 - float(floor.sum())
        if free_mass <= 1e-9:
            return np.asarray(floor / floor.sum())
        above_floor = fit_simplex(
            rows,
            (self.target - rows.T @ floor) / free_mass,
            (anchor - floor) / free_mass,
            self.trade_off,
        )
        return np.asarray(floor + free_mass * above_floor)

    def progress(self, portrait: WeightedPortrait) -> float:
        """Return Π, by how much a round with these weights lowers the error against a round without a cohort.

        Π = G + λ(2(p + d)·a − ‖a‖²) + 2T·Φᵀa − ‖Φᵀa‖².
        """
        a = portrait.weights
        mixture = self.phi[portrait.members].T @ a
        individuals = float(2 * self.owed[portrait.members] @ a - a @ a)
        return self.common + self.trade_off * individuals + float((2 * self.target - mixture) @ mixture)

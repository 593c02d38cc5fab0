"""LongFed's Theorem 3: the drift of its queues (eqs. 16 and 17) and the bound that its selection minimises (eq. 21)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.stats import spearmanr

from sortition.core import Registrar, stream
from sortition.core.arrays import Floats, Ids
from sortition.selectors.longfed import LongFed, Memory, advance_queues
from sortition.testing import QuadraticWorld
from sortition.testing.play import cohort_of, everybody, turns


@dataclass(frozen=True)
class QueueState:
    """The queues and reference clients of one round, before a cohort is chosen.

    Attributes:
        z: (N,) Z_i, eq. 13.
        q: (N,) Q_i, eq. 13.
        reference: (N,) k_i, eq. 19.
        delta: δ, eq. 7.
    """

    z: Floats
    q: Floats
    reference: Ids
    delta: float

    @property
    def constant(self) -> float:
        """B = 2N(1 + δ)², the term of eq. 21 that depends on no choice."""
        return 2 * self.z.size * (1 + self.delta) ** 2

    def drift(self, cohort: Ids) -> float:
        """Return Δ(Θ) = L(Θ') − L(Θ), L the sum of the squares of the queues (eqs. 16 and 17)."""
        z, q = advance_queues(self.z, self.q, self._chosen(cohort), self.reference, self.delta)
        return float(np.sum(z**2 + q**2) - np.sum(self.z**2 + self.q**2))

    def term(self, cohort: Ids) -> float:
        """Return 2 Σ_i (Z_i y_i + Q_i z_i), the term of eq. 21 that a choice can lower."""
        chosen = self._chosen(cohort).astype(np.float64)
        ahead = chosen - chosen[self.reference]
        return float(2 * np.sum(self.z * (ahead - self.delta) + self.q * (-ahead - self.delta)))

    def _chosen(self, cohort: Ids) -> Floats:
        chosen = np.zeros(self.z.size, bool)
        chosen[cohort] = True
        return chosen


@dataclass(frozen=True)
class DriftCheck:
    """Drift and bound over a training.

    Attributes:
        largest_ratio: of the drift less that term to B, over the method's own cohorts and random ones; at most 1.
        rank_correlation: of that term and the drift, over the random cohorts of a round; the mean over rounds.
        drift: the mean of a round with the method's own cohorts.
        random_drift: the same with random cohorts in its place.
    """

    largest_ratio: float
    rank_correlation: float
    drift: float
    random_drift: float


def check_queue_drift(
    selector: LongFed, rounds: int, *, budget: int, clients: int = 20, kinds: int = 4, draws: int = 50, seed: int = 0
) -> DriftCheck:
    """Play LongFed on a quadratic federation, and compare drift and bound in every round after the first."""
    world = QuadraticWorld(clients, kinds=kinds, spread=0.5, noise=0.5, seed=seed)
    registrar = Registrar(selector, world.population, horizon=rounds, seed=seed)
    rng = stream(seed, "cohorts of the drift")
    z = np.zeros(clients)
    q = np.zeros(clients)
    own_drifts: list[float] = []
    random_drifts: list[float] = []
    ratios: list[float] = []
    correlations: list[float] = []
    for turn in turns(registrar, world, rounds=rounds, budget=budget, available=everybody(world)):
        cohort = cohort_of(turn)
        memory = cast(Memory, registrar.state)
        if not cohort.full:
            before = QueueState(z, q, memory.reference, selector.delta)
            cohorts = [cohort.ids, *(rng.choice(clients, budget, replace=False) for _ in range(draws))]
            drifts = [before.drift(ids) for ids in cohorts]
            terms = [before.term(ids) for ids in cohorts]
            ratios += [(drift - term) / before.constant for drift, term in zip(drifts, terms, strict=True)]
            own_drifts.append(drifts[0])
            random_drifts.append(float(np.mean(drifts[1:])))
            if np.ptp(terms[1:]) > 0 and np.ptp(drifts[1:]) > 0:
                correlations.append(float(spearmanr(terms[1:], drifts[1:]).statistic))
        z = memory.z.copy()
        q = memory.q.copy()
    return DriftCheck(
        largest_ratio=max(ratios),
        rank_correlation=float(np.mean(correlations)),
        drift=float(np.mean(own_drifts)),
        random_drift=float(np.mean(random_drifts)),
    )

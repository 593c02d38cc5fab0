"""FedCor's Theorem 1: its proxy algorithm on quadratic clients, and the bound's assumption on cohorts' optima.

The proxy chooses the cohort whose gradients agree most with the global one (Lemma 3). The theorem bounds
Δ_t = ‖w_t − w*_{K_t}‖², the distance from the optimum of the round's own cohort, by ν/(γ + t), and concludes that w_t
tends to the global optimum (Corollary 3). It assumes that the cohort's optimum moves no more than the covariance of
loss changes: ‖w*_{K_{t+1}} − w*_{K_t}‖² ≤ δ ‖Σ_{t+1} − Σ_t‖₁ (Assumption 7).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core import stream
from sortition.core.arrays import Floats, Ids
from sortition.core.sampling import draw_uniformly
from sortition.reproduction.theory.loss_covariance import agreement

ROUNDING = 1e-20  # a squared distance below is rounding


@dataclass(frozen=True)
class ProxyDescent:
    """What was measured along a descent of T rounds.

    Attributes:
        distance: Δ_t of each round (T,).
        gap: L(w_t) − L* after each round (T,).
        needed: the δ that Assumption 7 would have to have in each round (T − 1,); 0 where the optimum stays.
    """

    distance: Floats
    gap: Floats
    needed: Floats


@dataclass(frozen=True)
class QuadraticClients:
    """Clients with losses ½(w − c_k)ᵀA_k(w − c_k), A_k diagonal, all weighing alike.

    Attributes:
        centres: c_k (N, d).
        curvature: the diagonals of A_k (N, d).
    """

    centres: Floats
    curvature: Floats

    @classmethod
    def draw(cls, clients: int, dimensions: int, *, apart: float, seed: int = 0) -> QuadraticClients:
        """Draw random clients; with ``apart`` = 0 they share their optimum, at a distance from the starting point 0."""
        rng = stream(seed, "proxy clients")
        shared = rng.normal(size=dimensions) + 2.0
        centres = shared + apart * rng.normal(size=(clients, dimensions))
        return cls(centres=centres, curvature=rng.uniform(0.5, 2.0, size=(clients, dimensions)))

    def gradients(self, model: Floats) -> Floats:
        """Return the gradients (N, d) at a model."""
        return np.asarray(self.curvature * (model - self.centres))

    def optimum(self, cohort: Ids) -> Floats:
        """Return where the cohort's mean loss is least (d,)."""
        weights = self.curvature[cohort]
        return np.asarray((weights * self.centres[cohort]).sum(axis=0) / weights.sum(axis=0))

    def loss(self, model: Floats) -> float:
        """Return the mean loss of all clients."""
        return float(0.5 * (self.curvature * (model - self.centres) ** 2).sum(axis=1).mean())


def descend_by_proxy(
    world: QuadraticClients, *, rounds: int, cohort: int, steps: int = 5, uniform: bool = False, seed: int = 0
) -> ProxyDescent:
    """Run federated averaging with η_t = β/(t + γ), β = 2/m and γ such that η_1 = 1/(4M), as the theorem wants it.

    ``uniform`` draws cohorts at random instead.
    """
    m = float(world.curvature.min())
    M = float(world.curvature.max())
    beta = 2 / m
    gamma = 4 * M * beta - 1
    everybody = np.arange(len(world.centres))
    weights = np.full(everybody.size, 1 / everybody.size)
    least_loss = world.loss(world.optimum(everybody))
    rng = stream(seed, "proxy cohorts")
    model = np.zeros(world.centres.shape[1])
    distances = []
    gaps = []
    needed = []
    previous: tuple[Floats, Floats] | None = None  # the last cohort's optimum, and the covariance
    for t in range(1, rounds + 1):
        rate = beta / (t + gamma)
        gradients = world.gradients(model)
        if uniform:
            chosen = draw_uniformly(everybody, cohort, rng)
        else:
            chosen = np.argsort(-agreement(gradients, weights), kind="stable")[:cohort]
        target = world.optimum(chosen)
        covariance = rate**2 / cohort * gradients @ np.cov(gradients, rowvar=False) @ gradients.T  # eq. 78
        if previous is not None:
            previous_target, previous_covariance = previous
            optimum_moved = float(((target - previous_target) ** 2).sum())
            covariance_changed = float(np.abs(covariance - previous_covariance).sum())
            needed.append(optimum_moved / covariance_changed if optimum_moved > ROUNDING else 0.0)
        previous = (target, covariance)
        distances.append(float(((model - target) ** 2).sum()))
        local = np.tile(model, (cohort, 1))
        for _ in range(steps):
            local = local - rate * world.curvature[chosen] * (local - world.centres[chosen])
        model = local.mean(axis=0)
        gaps.append(world.loss(model) - least_loss)
    return ProxyDescent(distance=np.array(distances), gap=np.array(gaps), needed=np.array(needed))

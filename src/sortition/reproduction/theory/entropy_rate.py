"""HiCS-FL's convergence rate on a quadratic federation: what preferring balanced clients does to the gradient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core import stream
from sortition.core.arrays import Array, Floats
from sortition.core.sampling import weighted
from sortition.reproduction.theory.heterogeneity import label_entropy


class LabelQuadratics:
    """Clients whose loss is Σ_c p_kc ½‖w − c_c‖²: alike up to their label shares, which are Dir(α_b · prior).

    Clients come in blocks, one for each α; a small α gives few labels. The population's shares are the mean of all.
    """

    def __init__(self, alphas: list[float], prior: Array, *, clients: int = 50, size: int = 12, seed: int = 0) -> None:
        rng = stream(seed, "label quadratics")
        prior = np.asarray(prior, np.float64) / np.sum(prior)
        blocks = np.array_split(np.arange(clients), len(alphas))
        pairs = zip(alphas, blocks, strict=True)
        self.shares: Floats = np.concatenate([rng.dirichlet(a * prior * prior.size, block.size) for a, block in pairs])
        self.centres: Floats = 3.0 * rng.normal(size=(prior.size, size))
        self.entropy: Floats = label_entropy(self.shares)

    @property
    def optima(self) -> Floats:
        """(N, d) each client's own optimum Σ_c p_kc c_c."""
        return np.asarray(self.shares @ self.centres)

    def dissimilarity(self) -> Floats:
        """(N,) ‖∇F_k − ∇F‖², the same at every model."""
        optima = self.optima
        return np.asarray(((optima - optima.mean(axis=0)) ** 2).sum(axis=1))

    def chances(self, gamma: float) -> Floats:
        """(N,) π_k ∝ e^{γ H(D_k)}: the preference for balanced clients, without groups."""
        odds = np.exp(gamma * (self.entropy - self.entropy.max()))
        return np.asarray(odds / odds.sum())


@dataclass(frozen=True)
class Descent:
    """Along a descent.

    Attributes:
        term: the slides' Σ_k ω_k e^{β(H(D_k) − H(D_0))}, mean over the rounds.
        gradient: ‖∇F(w)‖² of the global model, mean over the rounds.
        bias: ‖∇F(w̄)‖² of the mean model w̄ of the second half of the rounds.
        scatter: the mean of ‖w − w̄‖² in that half, the variance of the gradient.
    """

    term: float
    gradient: float
    bias: float
    scatter: float


def descend(
    world: LabelQuadratics,
    gamma: float,
    *,
    rounds: int,
    cohort: int,
    steps: int = 4,
    rate: float = 0.05,
    noise: float = 0.3,
    beta: float = 1.0,
    seed: int = 0,
) -> Descent:
    """Federated averaging over cohorts that are drawn by e^{γ H}, each client with ``steps`` noisy local steps."""
    optima, odds = world.optima, world.chances(gamma)
    weight = np.exp(beta * (world.entropy - np.log(world.shares.shape[1])))
    model, rng = np.zeros(optima.shape[1]), stream(seed, "entropy descent")
    terms, models = [], []
    for _ in range(rounds):
        ids = weighted(np.arange(odds.size), odds, cohort, rng)
        local = np.tile(model, (cohort, 1))
        for _ in range(steps):
            local -= rate * (local - optima[ids] + noise * rng.normal(size=local.shape))
        model = local.mean(axis=0)
        terms.append(weight[ids].mean())
        models.append(model)
    path, best = np.stack(models), optima.mean(axis=0)
    late = path[rounds // 2 :]
    middle = late.mean(axis=0)
    squares = [((path - best) ** 2).sum(axis=1), ((middle - best) ** 2).sum(), ((late - middle) ** 2).sum(axis=1)]
    return Descent(float(np.mean(terms)), *[float(np.mean(one)) for one in squares])

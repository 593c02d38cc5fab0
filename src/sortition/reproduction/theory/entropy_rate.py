"""HiCS-FL's convergence rate on a quadratic federation: what preferring balanced clients does to the gradient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core import stream
from sortition.core.arrays import Array, Floats
from sortition.core.sampling import draw_weighted
from sortition.reproduction.theory.heterogeneity import label_entropy


class LabelQuadratics:
    """Clients whose loss is Σ_c p_kc ½‖w − c_c‖²: alike up to their label shares, which are Dir(α_b · prior).

    Clients come in blocks, one for each α; a small α gives few labels. The population's shares are the mean of all.
    """

    def __init__(self, alphas: list[float], prior: Array, *, clients: int = 50, size: int = 12, seed: int = 0) -> None:
        rng = stream(seed, "label quadratics")
        prior = np.asarray(prior, np.float64) / np.sum(prior)
        blocks = np.array_split(np.arange(clients), len(alphas))
        self.shares: Floats = np.concatenate(
            [rng.dirichlet(alpha * prior * prior.size, block.size) for alpha, block in zip(alphas, blocks, strict=True)]
        )
        self.centres: Floats = 3.0 * rng.normal(size=(prior.size, size))
        self.entropy: Floats = label_entropy(self.shares)

    @property
    def optima(self) -> Floats:
        """Each client's own optimum Σ_c p_kc c_c (N, d)."""
        return np.asarray(self.shares @ self.centres)

    def dissimilarity(self) -> Floats:
        """Return ‖∇F_k − ∇F‖² (N,), the same at every model."""
        optima = self.optima
        return np.asarray(((optima - optima.mean(axis=0)) ** 2).sum(axis=1))

    def chances(self, gamma: float) -> Floats:
        """Return π_k ∝ e^{γ H(D_k)} (N,): the preference for balanced clients, without groups."""
        odds = np.exp(gamma * (self.entropy - self.entropy.max()))
        return np.asarray(odds / odds.sum())


@dataclass(frozen=True)
class Descent:
    """What was measured along a descent.

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
    """Average over cohorts that are drawn by e^{γ H}, each client with ``steps`` noisy local steps."""
    optima = world.optima
    chances = world.chances(gamma)
    largest_entropy = np.log(world.shares.shape[1])  # H(D_0)
    term = np.exp(beta * (world.entropy - largest_entropy))
    rng = stream(seed, "entropy descent")
    model = np.zeros(optima.shape[1])
    terms = []
    models = []
    for _ in range(rounds):
        ids = draw_weighted(np.arange(chances.size), chances, cohort, rng)
        local = np.tile(model, (cohort, 1))
        for _ in range(steps):
            local -= rate * (local - optima[ids] + noise * rng.normal(size=local.shape))
        model = local.mean(axis=0)
        terms.append(term[ids].mean())
        models.append(model)
    path = np.stack(models)
    optimum = optima.mean(axis=0)
    second_half = path[rounds // 2 :]
    mean_model = second_half.mean(axis=0)
    return Descent(
        term=float(np.mean(terms)),
        gradient=_mean_square(path - optimum),
        bias=_mean_square(mean_model - optimum),
        scatter=_mean_square(second_half - mean_model),
    )


def _mean_square(vectors: Floats) -> float:
    """Return the mean squared length of vectors (…, d)."""
    return float((vectors**2).sum(axis=-1).mean())

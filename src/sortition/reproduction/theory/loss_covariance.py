"""FedCor's Lemma 3: the clients that the covariance prefers are those whose gradients agree with the global one."""

from __future__ import annotations

import numpy as np

from sortition.core import stream
from sortition.core.arrays import Array, Floats
from sortition.core.sampling import uniformly


class Quadratics:
    """Clients with losses ½(w − c_k)ᵀA_k(w − c_k), each with its own optimum and curvature, at one model w."""

    def __init__(self, clients: int = 20, dimensions: int = 6, seed: int = 0) -> None:
        rng = stream(seed, "quadratics")
        self.centres = rng.normal(size=(clients, dimensions)) + 2.0
        self.curvature = rng.uniform(0.5, 2.0, size=(clients, dimensions))
        self.weights = rng.dirichlet(np.full(clients, 5.0))
        self.gradients: Floats = -self.curvature * self.centres  # at w = 0

    def losses(self, w: Array) -> Floats:
        """(N,) losses at w."""
        return np.asarray(0.5 * np.sum(self.curvature * (w - self.centres) ** 2, axis=1))

    def sampled_changes(self, samples: int, size: int, rate: float, seed: int = 0) -> Floats:
        """(samples, N) changes of everybody's loss when a uniform cohort takes one gradient step at this rate."""
        rng, everybody = stream(seed, "quadratic cohorts"), np.arange(len(self.centres))
        before = self.losses(np.zeros(self.centres.shape[1]))
        steps = [-rate * self.gradients[uniformly(everybody, size, rng)].mean(axis=0) for _ in range(samples)]
        return np.stack([self.losses(step) - before for step in steps])


def preference(covariance: Array, weights: Array) -> Floats:
    """Σ_i p_i Σ_ik of each client k, by which the proxy algorithm chooses (eq. 61)."""
    return np.asarray(np.asarray(weights) @ np.asarray(covariance))


def agreement(gradients: Array, weights: Array) -> Floats:
    """(Bᵀ∇L)ᵀ Bᵀ∇l_k of each client k (eq. 63), where BBᵀ is the covariance of the clients' gradients."""
    spread = np.cov(gradients, rowvar=False)
    return np.asarray(gradients @ spread @ (np.asarray(weights) @ gradients))

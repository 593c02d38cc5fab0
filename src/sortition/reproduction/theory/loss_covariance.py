"""FedCor's Lemmas 1 and 3: the posterior mean stands for the loss change, the covariance for gradients that agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import spearmanr

from sortition.core import stream
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.sampling import draw_uniformly


class Quadratics:
    """Clients with losses ½(w − c_k)ᵀA_k(w − c_k), each with its own optimum and curvature, at one model w."""

    def __init__(self, clients: int = 20, dimensions: int = 6, seed: int = 0) -> None:
        rng = stream(seed, "quadratics")
        self.centres = rng.normal(size=(clients, dimensions)) + 2.0
        self.curvature = rng.uniform(0.5, 2.0, size=(clients, dimensions))
        self.weights = rng.dirichlet(np.full(clients, 5.0))
        self.gradients: Floats = -self.curvature * self.centres  # at w = 0

    def losses(self, w: Array) -> Floats:
        """Return the losses (N,) at w."""
        return np.asarray(0.5 * np.sum(self.curvature * (w - self.centres) ** 2, axis=1))

    def sampled_changes(self, samples: int, size: int, rate: float, seed: int = 0) -> Floats:
        """Return the changes (samples, N) of everybody's loss after one gradient step of a uniform cohort."""
        rng = stream(seed, "quadratic cohorts")
        everybody = np.arange(len(self.centres))
        cohorts = [draw_uniformly(everybody, size, rng) for _ in range(samples)]
        return self.changes(cohorts, rate)

    def changes(self, cohorts: Sequence[Ids], rate: float) -> Floats:
        """Return the changes (cohorts, N) of everybody's loss after one gradient step of each cohort from w = 0."""
        losses_before = self.losses(np.zeros(self.centres.shape[1]))
        steps = [-rate * self.gradients[cohort].mean(axis=0) for cohort in cohorts]
        return np.stack([self.losses(step) - losses_before for step in steps])


def preference(covariance: Array, weights: Array) -> Floats:
    """Return Σ_i p_i Σ_ik of each client k, by which the proxy algorithm chooses (eq. 61)."""
    return np.asarray(np.asarray(weights) @ np.asarray(covariance))


def agreement(gradients: Array, weights: Array) -> Floats:
    """Return (Bᵀ∇L)ᵀ Bᵀ∇l_k of each client k (eq. 63), where BBᵀ is the covariance of the clients' gradients."""
    spread = np.cov(gradients, rowvar=False)
    return np.asarray(gradients @ spread @ (np.asarray(weights) @ gradients))


@dataclass(frozen=True)
class PosteriorCheck:
    """Lemma 1 on all cohorts of a small federation: eq. 6's loss change ΔL(K) beside eq. 7's posterior mean.

    Attributes:
        rank: the rank correlation of both over the cohorts.
        best: the smallest ΔL of any cohort.
        chosen: ΔL of the cohort with the smallest posterior mean.
        average: the mean ΔL, that of uniform sampling.
    """

    rank: float
    best: float
    chosen: float
    average: float

    @property
    def gained(self) -> float:
        """The chosen cohort's gain over the average, as a share of the best cohort's gain."""
        return (self.average - self.chosen) / (self.average - self.best)


def check_posterior(world: Quadratics, size: int, rate: float, *, noise: float = 1e-9) -> PosteriorCheck:
    """Condition the Gaussian law of all loss changes on those of each cohort, as eq. 7 does.

    The mean and the covariance are those of all cohorts of that ``size``, equally likely. ``noise`` is added to the
    diagonal, in units of its mean, since the covariance can be singular.
    """
    cohorts = [np.array(cohort) for cohort in combinations(range(len(world.centres)), size)]
    changes = world.changes(cohorts, rate)
    mean = changes.mean(axis=0)
    covariance = np.cov(changes, rowvar=False)
    mean_variance = np.trace(covariance) / len(covariance)
    covariance = covariance + noise * mean_variance * np.eye(len(covariance))
    posterior = []
    for cohort, change in zip(cohorts, changes, strict=True):
        covariance_of_cohort = covariance[np.ix_(cohort, cohort)]
        shift = covariance[:, cohort] @ np.linalg.solve(covariance_of_cohort, (change - mean)[cohort])
        posterior.append(float(world.weights @ (mean + shift)))
    actual = changes @ world.weights
    return PosteriorCheck(
        rank=float(spearmanr(actual, posterior).statistic),
        best=float(actual.min()),
        chosen=float(actual[int(np.argmin(posterior))]),
        average=float(actual.mean()),
    )

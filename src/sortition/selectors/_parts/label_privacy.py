"""Differential privacy for label histograms: what a client adds to its counts before it sends them.

One example more or less changes one count by one, so the histogram's sensitivity is 1 in either norm.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from sortition.core.arrays import Array, Floats
from sortition.selectors._parts.shares import label_shares

Mechanism = Literal["laplace", "gaussian"]


def gaussian_scale(epsilon: float, delta: float) -> float:
    """Return the least σ that gives (ε, δ) at sensitivity 1, for any ε (Balle and Wang 2018, Theorem 8)."""

    def excess(log_sigma: float) -> float:
        sigma = np.exp(log_sigma)
        a = 0.5 / sigma
        b = epsilon * sigma
        return float(ndtr(a - b) - np.exp(epsilon + log_ndtr(-a - b)) - delta)

    return float(np.exp(brentq(excess, -20.0, 20.0, xtol=1e-10)))


def noisy_counts(counts: Array, epsilon: float, mechanism: Mechanism, delta: float, rng: np.random.Generator) -> Floats:
    """Return (n, C) counts under ε-differential privacy (Laplace) or (ε, δ) (Gaussian); negative ones are cut to 0."""
    if mechanism == "laplace":
        noise = rng.laplace(0.0, 1.0 / epsilon, counts.shape)
    else:
        noise = rng.normal(0.0, gaussian_scale(epsilon, delta), counts.shape)
    return np.maximum(counts + noise, 0.0)


def private_label_shares(
    counts: Array, *, epsilon: float | None, mechanism: Mechanism, delta: float, rng: np.random.Generator
) -> Floats:
    """Return the label distributions (n, C) of clients, from counts that are noised unless ``epsilon`` is None."""
    if epsilon is not None:
        counts = noisy_counts(counts, epsilon=epsilon, mechanism=mechanism, delta=delta, rng=rng)
    return label_shares(counts)


def privacy_note(epsilon: float | None, mechanism: Mechanism, delta: float) -> dict[str, float | str]:
    """Say in a cohort's notes how label counts were noised; nothing where they were not."""
    if epsilon is None:
        return {}
    if mechanism == "laplace":
        return {"epsilon": epsilon, "noise": mechanism}
    return {"epsilon": epsilon, "noise": mechanism, "delta": delta}

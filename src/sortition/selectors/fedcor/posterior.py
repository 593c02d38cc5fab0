"""FedCor's Algorithm 1: clients are picked one after the other, each given the picks before it.

With posterior covariance Σ̃ the next pick is argmax α_k (Σ_i p_i Σ̃_ik) / √Σ̃_kk, ties to the lowest id. Σ̃ = XBXᵀ + σ²I
on those not picked, so a pick is a rank-one step of the d × d matrix B and one pass over the candidates' rows.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.ties import first_largest

Noise = Literal["diagonal", "observation", "none"]

EXHAUSTED = 1e-5  # of a client's prior variance: below it, what is left is rounding error


def greedy_picks(
    X: Array,
    p: Array,
    alpha: Array,
    candidates: Ids,
    k: int,
    sigma: float,
    noise: Noise = "diagonal",
    doubt: Array | None = None,
) -> tuple[Ids, Floats]:
    """Algorithm 1: k candidates, in order, and the score of each when it was picked.

    Args:
        X: (N, d) embeddings of everybody: the sum runs over all of them.
        p: (N,) shares of the data.
        alpha: (N,) annealing factors β^τ.
        candidates: ids that may be picked.
        k: how many.
        sigma: σ.
        noise: "diagonal" (Σ = XXᵀ + σ²I), "observation" (Σ = XXᵀ, a pick is observed with noise σ²), "none" (Σ = XXᵀ).
        doubt: (N,) variance of each client's own beside σ²; none by default.
    """
    posterior = Posterior(X, p, candidates, sigma, noise, doubt)
    factor = alpha[candidates].astype(X.dtype)
    independent = factor * posterior.share * np.sqrt(posterior.variance + sigma**2)  # the score if Σ were diagonal
    left, picks, scores = np.ones(candidates.size, bool), [], []
    scale = float(np.abs(posterior.scores(factor)).max(initial=0.0))  # later scores are differences of such numbers
    for _ in range(min(k, candidates.size)):
        score = np.where(left, posterior.scores(factor), -np.inf)
        best = first_largest(score, scale)
        if score[best] == 0:  # everything is predicted
            best = first_largest(np.where(score == 0, independent, -np.inf))
        picks.append(best)
        scores.append(float(score[best]))
        left[best] = False
        posterior.condition(best)
    return candidates[np.asarray(picks, np.int64)], np.asarray(scores)


class Posterior:
    """Σ̃ of the candidates after some picks: their variances x_k B x_k (``variance``) and Σ_i p_i x_i B x_k (``gain``).

    ``beside`` is the variance that a client has of its own, and which no pick of others can predict.
    """

    def __init__(self, X: Array, p: Array, candidates: Ids, sigma: float, noise: Noise, doubt: Array | None) -> None:
        self.rows, self.share, self.noise = X[candidates], p[candidates].astype(X.dtype), noise
        self.variance = np.einsum("nd,nd->n", self.rows, self.rows)
        self.beside = np.full_like(self.share, 0.0 if noise == "none" else sigma**2)
        self.beside += 0 if doubt is None else doubt[candidates]
        self._exhausted = EXHAUSTED * self.variance
        self._own = self.share * self.beside if noise == "diagonal" else np.zeros_like(self.share)
        self._B, self._s = np.eye(X.shape[1]), (p.astype(X.dtype) @ X).astype(np.float64)
        self.gain = self.rows @ self._s.astype(X.dtype)

    def scores(self, factor: Array) -> Array:
        """α_k (Σ_i p_i Σ̃_ik) / √Σ̃_kk; 0 of a client that is predicted already."""
        total = np.maximum(self.variance, 0) + self.beside
        alive = total > self._exhausted
        score = np.where(alive, factor * (self.gain + self._own) / np.sqrt(np.where(alive, total, 1)), 0)
        if self.noise == "observation":
            score *= np.sqrt(np.maximum(self.variance, 0) / total)
        return score

    def condition(self, pick: int) -> None:
        """Eq. 11: Σ̃ given that this candidate trained."""
        x = self.rows[pick].astype(np.float64)
        b = self._B @ x
        scale = float(x @ b) + float(self.beside[pick])
        alive = max(self.variance[pick], 0) + self.beside[pick] > self._exhausted[pick]
        b /= np.sqrt(scale) if alive else np.inf  # a client that is predicted already teaches nothing
        self._B -= np.outer(b, b)
        if self.noise != "observation":
            self._s -= float(self.share[pick]) * x  # the pick's own row of the posterior is zero
        step = self.rows @ np.stack([self._B @ self._s, b], axis=1).astype(self.rows.dtype)
        self.gain, self.variance = step[:, 0], self.variance - step[:, 1] ** 2

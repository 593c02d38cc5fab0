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

EXHAUSTED = 1e-5  # of a client's prior variance: below it, what remains is rounding error


def greedy_picks(
    X: Array,
    p: Array,
    alpha: Array,
    candidates: Ids,
    k: int,
    sigma: float,
    noise: Noise = "diagonal",
    remaining_variance: Array | None = None,
) -> tuple[Ids, Floats]:
    """Return k candidates, in order, and the score of each when it was picked: Algorithm 1.

    Args:
        X: (N, d) embeddings of everybody: the sum runs over all of them.
        p: (N,) shares of the data.
        alpha: (N,) annealing factors β^τ.
        candidates: ids that may be picked.
        k: how many.
        sigma: σ.
        noise: "diagonal" (Σ = XXᵀ + σ²I), "observation" (Σ = XXᵀ, a pick is observed with noise σ²), "none" (Σ = XXᵀ).
        remaining_variance: (N,) variance of each client's own beside σ²; none by default.
    """
    posterior = Posterior(
        X=X, p=p, candidates=candidates, sigma=sigma, noise=noise, remaining_variance=remaining_variance
    )
    factor = alpha[candidates].astype(X.dtype)
    independent = factor * posterior.share * np.sqrt(posterior.variance + sigma**2)  # the score if Σ were diagonal
    scale = float(np.abs(posterior.scores(factor)).max(initial=0.0))  # later scores are differences of such numbers
    can_be_picked = np.ones(candidates.size, bool)
    picks = []
    scores = []
    for _ in range(min(k, candidates.size)):
        score = np.where(can_be_picked, posterior.scores(factor), -np.inf)
        best = first_largest(score, scale)
        if score[best] == 0:  # everything is predicted
            best = first_largest(np.where(score == 0, independent, -np.inf))
        picks.append(best)
        scores.append(float(score[best]))
        can_be_picked[best] = False
        posterior.condition(best)
    return candidates[np.asarray(picks, np.int64)], np.asarray(scores)


class Posterior:
    """Σ̃ of the candidates after some picks.

    Attributes:
        rows: (n, d) embeddings x_k.
        share: (n,) p_k.
        variance: (n,) x_k B x_k.
        gain: (n,) Σ_i p_i x_i B x_k.
        own_variance: (n,) what a client has beside that, and no pick of others can predict.
    """

    def __init__(
        self, X: Array, p: Array, candidates: Ids, sigma: float, noise: Noise, remaining_variance: Array | None
    ) -> None:
        self.rows = X[candidates]
        self.share = p[candidates].astype(X.dtype)
        self.noise = noise
        self.variance = np.einsum("nd,nd->n", self.rows, self.rows)
        self.own_variance = np.full_like(self.share, 0.0 if noise == "none" else sigma**2)
        if remaining_variance is not None:
            self.own_variance += remaining_variance[candidates]
        self._exhausted = EXHAUSTED * self.variance
        self._own_gain = np.zeros_like(self.share)
        if noise == "diagonal":
            self._own_gain = self.share * self.own_variance
        self._B = np.eye(X.shape[1])
        self._s = (p.astype(X.dtype) @ X).astype(np.float64)  # Σ_i p_i x_i over all that were not picked
        self.gain = self.rows @ self._s.astype(X.dtype)

    def scores(self, factor: Array) -> Array:
        """Return α_k (Σ_i p_i Σ̃_ik) / √Σ̃_kk; 0 of a client that is predicted already."""
        total = np.maximum(self.variance, 0) + self.own_variance  # Σ̃_kk
        uncertain = total > self._exhausted
        deviation = np.sqrt(np.where(uncertain, total, 1))
        score = np.where(uncertain, factor * (self.gain + self._own_gain) / deviation, 0)
        if self.noise == "observation":
            score *= np.sqrt(np.maximum(self.variance, 0) / total)
        return score

    def condition(self, pick: int) -> None:
        """Condition Σ̃ on this candidate's training (eq. 11); a client that is predicted already teaches nothing."""
        x = self.rows[pick].astype(np.float64)
        b = self._B @ x
        variance = float(x @ b) + float(self.own_variance[pick])
        uncertain = max(self.variance[pick], 0) + self.own_variance[pick] > self._exhausted[pick]
        b /= np.sqrt(variance) if uncertain else np.inf
        self._B -= np.outer(b, b)
        if self.noise != "observation":
            self._s -= float(self.share[pick]) * x  # the pick's own row of the posterior is zero
        step = self.rows @ np.stack([self._B @ self._s, b], axis=1).astype(self.rows.dtype)
        self.gain = step[:, 0]
        self.variance = self.variance - step[:, 1] ** 2

"""A Gaussian process with the linear kernel XXᵀ + σ²I: its likelihood, its fit, and FedCor's greedy choice.

X is (n, d), a row a client. The covariance is never formed: by Woodbury everything happens in d dimensions.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from sortition.core.arrays import Array, Floats, Ids

Noise = Literal["diagonal", "observation", "none"]

_TOGETHER = 8192  # clients whose d × d systems are solved in one go
_EXHAUSTED = 1e-5  # of a client's prior variance: below it, what is left is rounding error


class Likelihood:
    """Φ(X) = Σ_h w_h log N(y_h; 0, X_O X_Oᵀ + σ²I), each sample over the clients O that it observed (FedCor eq. 17).

    Args:
        changes: (H, n) loss changes, NaN where not observed.
        weights: (H,) discounts.
        noise: σ² > 0.
    """

    def __init__(self, changes: Floats, weights: Floats, noise: float) -> None:
        observed = ~np.isnan(changes)
        sets, which = np.unique(observed, axis=0, return_inverse=True)  # samples of one client set share an inverse
        self.seen, self.which = sets.astype(np.float64), which.reshape(-1)
        self.y, self.w, self.noise = np.where(observed, changes, 0.0), weights, noise
        mass = np.bincount(self.which, weights, minlength=len(sets))
        self._mass = (mass[:, None] * self.seen)[:, :, None]

    def _solved(self, X: Floats) -> tuple[Array, Array, Array]:
        """(G, d, d) matrices A = σ²I + X_OᵀX_O and their inverses, and (H, d) latent means u = A⁻¹X_Oᵀy."""
        A = (self.seen[:, None, :] * X.T) @ X + self.noise * np.eye(X.shape[1])
        inverse = np.linalg.inv(A)
        return A, inverse, np.einsum("hij,hj->hi", inverse[self.which], self.y @ X)

    def value(self, X: Floats) -> float:
        """Φ(X)."""
        A, _, u = self._solved(X)
        count = self.seen.sum(axis=1)
        log_det = (count - X.shape[1]) * np.log(self.noise) + np.linalg.slogdet(A)[1]
        fit = (np.sum(self.y**2, axis=1) - np.sum(u * (self.y @ X), axis=1)) / self.noise
        return float(-0.5 * self.w @ ((count * np.log(2 * np.pi) + log_det)[self.which] + fit))

    def gradient(self, X: Floats) -> Floats:
        """dΦ/dX = Σ_h w_h (Σ⁻¹yyᵀΣ⁻¹ − Σ⁻¹) X, where Σ⁻¹X = XA⁻¹ and Xᵀ Σ⁻¹y = u; (n, d)."""
        _, inverse, u = self._solved(X)
        v = (self.y - self.seen[self.which] * (u @ X.T)) / self.noise  # Σ⁻¹y
        return np.asarray((v * self.w[:, None]).T @ u - (self._mass * (X @ inverse)).sum(axis=0))

    def latent(self, X: Floats) -> Floats:
        """(H, d): what each sample says about the common cause z of y = Xz + noise, its posterior mean."""
        return np.asarray(self._solved(X)[2])


def ascend(likelihood: Likelihood, X: Floats, rate: float, steps: int) -> Floats:
    """X after some steps of Adam (Kingma and Ba 2015, its default moments) uphill from X."""
    X, mean, square = X.copy(), np.zeros_like(X), np.zeros_like(X)
    for step in range(1, steps + 1):
        gradient = likelihood.gradient(X)
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient**2 - square)
        X += rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
    return X


def fold_in(X: Array, changes: Floats, latent: Floats, noise: float, variance: Floats) -> Floats:
    """Rows of clients outside the fit, from the latent z of each sample and their own changes in it.

    The posterior mean of x ~ N(x_before, v I) given y = x·z + noise in all samples at once.

    Args:
        X: (n, d) rows before.
        changes: (H, n), NaN where a client was not in a sample.
        latent: (H, d).
        noise: σ².
        variance: (n,) v, what is open of a row.
    """
    d, out = X.shape[1], X.astype(np.float64)
    squares = (latent[:, :, None] * latent[:, None, :]).reshape(len(latent), d * d)
    for start in range(0, len(X), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        y, inside = changes[:, part], ~np.isnan(changes[:, part])
        A = (inside.T.astype(np.float64) @ squares).reshape(-1, d, d)
        A += (noise / variance[part])[:, None, None] * np.eye(d)
        surprise = np.where(inside, y - latent @ out[part].T, 0.0)
        out[part] += np.linalg.solve(A, (surprise.T @ latent)[:, :, None])[:, :, 0]
    return out


def doubt(X: Array, seen: Ids, anchor: Array) -> Array | None:
    """(N,) variance that the embeddings of clients who were folded in leave open; None if there are none.

    A sample settles one direction of d, so what is open falls by 1/d of itself with each that a client was in.
    """
    follower = ~anchor & (seen > 0)
    if not follower.any():
        return None
    spread = np.mean(np.sum(X[anchor] ** 2, axis=1))
    return np.where(follower, spread * (1 - 1 / X.shape[1]) ** seen, 0)


def greedy(
    X: Array,
    p: Array,
    alpha: Array,
    candidates: Ids,
    k: int,
    sigma: float,
    noise: Noise = "diagonal",
    doubt: Array | None = None,
) -> tuple[Ids, Floats]:
    """FedCor's Algorithm 1: k candidates, in order, and the score of each when it was picked.

    With posterior covariance Σ̃ the next is argmax α_k (Σ_i p_i Σ̃_ik) / √Σ̃_kk. Σ̃ = XBXᵀ + σ²I on those not picked, so
    a pick is a rank-one step of the d × d matrix B and one pass over the candidates' rows.

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
    rows, share, factor = X[candidates], p[candidates].astype(X.dtype), alpha[candidates].astype(X.dtype)
    variance = np.einsum("nd,nd->n", rows, rows)
    beside = np.full_like(share, 0.0 if noise == "none" else sigma**2)
    beside += 0 if doubt is None else doubt[candidates]
    spare = factor * share * np.sqrt(variance + sigma**2)  # the rule when gains are exhausted: as if independent
    exhausted = _EXHAUSTED * variance
    own = share * beside if noise == "diagonal" else np.zeros_like(share)
    B, s = np.eye(X.shape[1]), (p.astype(X.dtype) @ X).astype(np.float64)
    gain = rows @ s.astype(X.dtype)
    left, picks, scores = np.ones(len(rows), bool), [], []
    for _ in range(min(k, len(rows))):
        total = np.maximum(variance, 0) + beside
        alive = total > exhausted
        score = np.where(alive, factor * (gain + own) / np.sqrt(np.where(alive, total, 1)), 0)
        if noise == "observation":
            score *= np.sqrt(np.maximum(variance, 0) / total)
        score[~left] = -np.inf
        best = int(np.argmax(score))
        if score[best] == 0:
            best = int(np.argmax(np.where(score == 0, spare, -np.inf)))
        picks.append(best)
        scores.append(float(score[best]))
        left[best] = False
        x = rows[best].astype(np.float64)
        b = B @ x
        scale = float(x @ b) + float(beside[best])
        b /= np.sqrt(scale) if alive[best] else np.inf  # one who is predicted already teaches nothing
        B -= np.outer(b, b)
        s -= float(share[best]) * x  # the picked one's own row of the posterior is zero
        step = rows @ np.stack([B @ s, b], axis=1).astype(X.dtype)
        gain, variance = step[:, 0], variance - step[:, 1] ** 2
    return candidates[np.asarray(picks, np.int64)], np.asarray(scores)

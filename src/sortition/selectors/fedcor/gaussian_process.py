"""A Gaussian process with the linear kernel XXᵀ + σ²I: its likelihood, and how embeddings X are fitted to it.

X is (n, d), a row a client. The covariance is never formed: by Woodbury everything happens in d dimensions.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from sortition.core.arrays import Array, Floats, Ids

_TOGETHER = 8192  # clients whose d × d systems are solved in one go


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
        self.count, self.which, self._observed = sets.sum(axis=1), which.reshape(-1), observed.astype(np.float64)
        self.y, self.w, self.noise = np.where(observed, changes, 0.0), weights, noise
        of, self._members = np.nonzero(sets)  # the clients of each set, one set after the other
        ends = np.cumsum(self.count)
        self._parts = [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        mass = np.bincount(self.which, weights, minlength=len(sets))
        places = (self._members, np.arange(of.size))
        self._weighted_sum = csr_array((mass[of], places), shape=(changes.shape[1], of.size))

    def _solved(self, X: Floats) -> tuple[Floats, Array, Array, Array]:
        """Rows X_O of all sets, (G, d, d) matrices A = σ²I + X_OᵀX_O, their inverses, (H, d) means u = A⁻¹X_Oᵀy."""
        rows = X.take(self._members, axis=0)
        A = np.stack([rows[part].T @ rows[part] for part in self._parts]) + self.noise * np.eye(X.shape[1])
        inverse = np.linalg.inv(A)
        return rows, A, inverse, np.einsum("hij,hj->hi", inverse[self.which], self.y @ X)

    def value(self, X: Floats) -> float:
        """Φ(X)."""
        _, A, _, u = self._solved(X)
        log_det = (self.count - X.shape[1]) * np.log(self.noise) + np.linalg.slogdet(A)[1]
        fit = (np.sum(self.y**2, axis=1) - np.sum(u * (self.y @ X), axis=1)) / self.noise
        return float(-0.5 * self.w @ ((self.count * np.log(2 * np.pi) + log_det)[self.which] + fit))

    def gradient(self, X: Floats) -> Floats:
        """dΦ/dX = Σ_h w_h (Σ⁻¹yyᵀΣ⁻¹ − Σ⁻¹) X, where Σ⁻¹X = XA⁻¹ and Xᵀ Σ⁻¹y = u; (n, d)."""
        rows, _, inverse, u = self._solved(X)
        v = (self.y - self._observed * (u @ X.T)) / self.noise  # Σ⁻¹y
        precise = np.empty_like(rows)  # XA⁻¹ of each set
        for part, matrix in zip(self._parts, inverse, strict=True):
            np.matmul(rows[part], matrix, out=precise[part])
        return np.asarray((v * self.w[:, None]).T @ u - self._weighted_sum @ precise)

    def latent(self, X: Floats) -> Floats:
        """(H, d): what each sample says about the common cause z of y = Xz + noise, its posterior mean."""
        return np.asarray(self._solved(X)[3])


def ascend(likelihood: Likelihood, X: Floats, rate: float, steps: int) -> Floats:
    """X after some steps of Adam (Kingma and Ba 2015, its default moments) uphill from X."""
    X, mean, square = X.copy(), np.zeros_like(X), np.zeros_like(X)
    for step in range(1, steps + 1):
        gradient = likelihood.gradient(X)
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient**2 - square)
        least = np.sqrt(1 - 0.999**step)  # the bias corrections as numbers, not on every entry
        X += (rate * least / (1 - 0.9**step)) * mean / (np.sqrt(square) + 1e-8 * least)
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
        out[part] += _solutions(A, surprise.T @ latent)
    return out


def _solutions(A: Floats, b: Floats) -> Floats:
    """(n, d) x of Ax = b for symmetric A (n, d, d); the shortest x where an A is singular, as of a diverged model."""
    try:
        return np.asarray(np.linalg.solve(A, b[:, :, None])[:, :, 0])
    except np.linalg.LinAlgError:  # σ² is lost beside the squares of huge losses
        return np.asarray((np.linalg.pinv(A, hermitian=True) @ b[:, :, None])[:, :, 0])


def doubt(X: Array, seen: Ids, anchor: Array) -> Array | None:
    """(N,) variance that the embeddings of clients who were folded in leave open; None if there are none.

    A sample settles one direction of d, so what is open falls by 1/d of itself with each that a client was in.
    """
    follower = ~anchor & (seen > 0)
    if not follower.any():
        return None
    spread = np.mean(np.sum(X[anchor] ** 2, axis=1))
    return np.where(follower, spread * (1 - 1 / X.shape[1]) ** seen, 0)

"""A Gaussian process with the linear kernel XXᵀ + σ²I: its likelihood, and how embeddings X are fitted to it.

X is (n, d), a row a client. The covariance is never formed: by Woodbury everything happens in d dimensions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from sortition.core.arrays import Array, Floats, Ids

CHUNK = 8192  # clients whose d × d systems are solved in one go


class _Systems(NamedTuple):
    """The solved systems of all client sets; G is the number of distinct ones.

    Attributes:
        rows: X_O of all sets, one set after the other.
        A: σ²I + X_OᵀX_O, (G, d, d).
        inverse: of A, (G, d, d).
        u: A⁻¹X_Oᵀy of each sample, (H, d).
    """

    rows: Floats
    A: Array
    inverse: Array
    u: Array


class Likelihood:
    """Φ(X) = Σ_h w_h log N(y_h; 0, X_O X_Oᵀ + σ²I), each sample over the clients O that it observed (FedCor eq. 17).

    Samples of one client set share an inverse.

    Args:
        changes: (H, n) loss changes, NaN where not observed.
        weights: (H,) discounts.
        noise: σ² > 0.
    """

    def __init__(self, changes: Floats, weights: Floats, noise: float) -> None:
        observed = ~np.isnan(changes)
        sets, set_of_sample = np.unique(observed, axis=0, return_inverse=True)
        self._set_sizes = sets.sum(axis=1)
        self.set_of_sample = set_of_sample.reshape(-1)
        self.y = np.where(observed, changes, 0.0)
        self.w = weights
        self.noise = noise
        self._observed = observed.astype(np.float64)
        set_of_row, self._client_positions = np.nonzero(sets)  # the clients of each set, one set after the other
        ends = np.cumsum(self._set_sizes)
        self._rows_of_set = [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        set_weights = np.bincount(self.set_of_sample, weights, minlength=len(sets))
        self._weighted_sum = csr_array(
            (set_weights[set_of_row], (self._client_positions, np.arange(set_of_row.size))),
            shape=(changes.shape[1], set_of_row.size),
        )

    def _solve_systems(self, X: Floats) -> _Systems:
        """Solve the system of each client set, and find the latent cause of each sample."""
        rows = X.take(self._client_positions, axis=0)
        A = np.stack([rows[part].T @ rows[part] for part in self._rows_of_set]) + self.noise * np.eye(X.shape[1])
        inverse = np.linalg.inv(A)
        u = np.einsum("hij,hj->hi", inverse[self.set_of_sample], self.y @ X)
        return _Systems(rows=rows, A=A, inverse=inverse, u=u)

    def value(self, X: Floats) -> float:
        """Return Φ(X)."""
        systems = self._solve_systems(X)
        log_det = (self._set_sizes - X.shape[1]) * np.log(self.noise) + np.linalg.slogdet(systems.A)[1]
        fit = (np.sum(self.y**2, axis=1) - np.sum(systems.u * (self.y @ X), axis=1)) / self.noise
        constant = self._set_sizes * np.log(2 * np.pi)
        return float(-0.5 * self.w @ ((constant + log_det)[self.set_of_sample] + fit))

    def gradient(self, X: Floats) -> Floats:
        """Return dΦ/dX = Σ_h w_h (Σ⁻¹yyᵀΣ⁻¹ − Σ⁻¹) X, where Σ⁻¹X = XA⁻¹ and Xᵀ Σ⁻¹y = u; (n, d)."""
        systems = self._solve_systems(X)
        v = (self.y - self._observed * (systems.u @ X.T)) / self.noise  # Σ⁻¹y
        precise = np.empty_like(systems.rows)  # XA⁻¹ of each set
        for part, matrix in zip(self._rows_of_set, systems.inverse, strict=True):
            np.matmul(systems.rows[part], matrix, out=precise[part])
        return np.asarray((v * self.w[:, None]).T @ systems.u - self._weighted_sum @ precise)

    def latent(self, X: Floats) -> Floats:
        """Return the posterior mean of the common cause z of y = Xz + noise in each sample, (H, d)."""
        return np.asarray(self._solve_systems(X).u)


def ascend(likelihood: Likelihood, X: Floats, rate: float, steps: int) -> Floats:
    """Return X after some steps of Adam (Kingma and Ba 2015; β₁ = 0.9, β₂ = 0.999) uphill from X."""
    X = X.copy()
    mean = np.zeros_like(X)
    square = np.zeros_like(X)
    for step in range(1, steps + 1):
        gradient = likelihood.gradient(X)
        mean += 0.1 * (gradient - mean)
        square += 0.001 * (gradient**2 - square)
        # the bias corrections as numbers, not on every entry
        square_correction = np.sqrt(1 - 0.999**step)
        step_size = rate * square_correction / (1 - 0.9**step)
        X += step_size * mean / (np.sqrt(square) + 1e-8 * square_correction)
    return X


def fold_in(X: Array, changes: Floats, latent: Floats, noise: float, variance: Floats) -> Floats:
    """Return rows of clients outside the fit, from the latent z of each sample and their own changes in it.

    Each is the posterior mean of x ~ N(x_before, v I) given y = x·z + noise in all samples at once.

    Args:
        X: (n, d) rows so far.
        changes: (H, n), NaN where a client was not in a sample.
        latent: (H, d).
        noise: σ².
        variance: (n,) v, what is open of a row.
    """
    d = X.shape[1]
    rows = X.astype(np.float64)
    squares = (latent[:, :, None] * latent[:, None, :]).reshape(len(latent), d * d)
    for start in range(0, len(X), CHUNK):
        part = slice(start, start + CHUNK)
        y = changes[:, part]
        observed = ~np.isnan(y)
        A = (observed.T.astype(np.float64) @ squares).reshape(-1, d, d)
        A += (noise / variance[part])[:, None, None] * np.eye(d)
        residual = np.where(observed, y - latent @ rows[part].T, 0.0)
        rows[part] += _solutions(A, residual.T @ latent)
    return rows


def _solutions(A: Floats, b: Floats) -> Floats:
    """Solve Ax = b for symmetric A (n, d, d); return the shortest x where an A is singular, as of a diverged model."""
    try:
        return np.asarray(np.linalg.solve(A, b[:, :, None])[:, :, 0])
    except np.linalg.LinAlgError:  # σ² is lost beside the squares of huge losses
        return np.asarray((np.linalg.pinv(A, hermitian=True) @ b[:, :, None])[:, :, 0])


def remaining_variance(X: Array, samples: Ids, anchor: Array) -> Array | None:
    """Return the variance that the embeddings of clients who were folded in leave open (N,); None if there are none.

    A sample settles one direction of d, so what is open falls by 1/d of itself with each that a client was in.

    Args:
        X: (N, d) embeddings.
        samples: (N,) samples that each client was in.
        anchor: (N,) who was in a fit.
    """
    is_folded_in = ~anchor & (samples > 0)
    if not is_folded_in.any():
        return None
    spread = np.mean(np.sum(X[anchor] ** 2, axis=1))
    return np.where(is_folded_in, spread * (1 - 1 / X.shape[1]) ** samples, 0)

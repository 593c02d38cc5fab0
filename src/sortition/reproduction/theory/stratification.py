"""The theory of stratified client sampling (Tang and Wong 2023) as functions: Lemmas 1 and 3, H², H_k², eq. 22."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Array, Floats, Ids


def bias_of_simple_sampling(groups: Array, available: Array, models: Array) -> Floats:
    """Return the bias of Lemma 1, eq. 7: Σ_k (A^k/(N_k A) − 1/N) Σ_{n∈N_k} ω_n; models are (N,) or (N, d)."""
    groups = np.unique(np.asarray(groups), return_inverse=True)[1]
    members = np.bincount(groups)
    n_available = np.bincount(groups[np.asarray(available)], minlength=members.size)
    factor = n_available / (members * n_available.sum()) - 1.0 / groups.size
    return np.asarray(factor[groups] @ np.asarray(models, np.float64))


def mse(members: Array, seats: Array, variances: Array) -> float:
    """Return eq. 13 of Lemma 3: Σ_k (N_k/N)² (1/S^k − 1/N_k) V_k, V_k the variance of models inside stratum k."""
    N_k = np.asarray(members, np.float64)
    S_k = np.asarray(seats, np.float64)
    N = N_k.sum()
    return float(np.sum((N_k / N) ** 2 * (1 / S_k - 1 / N_k) * np.asarray(variances)))


def mse_bound(members: Array, seats: Array, spreads: Array, *, steps: int, rate: float) -> float:
    """Return eq. 12: 4 (EM)² η² Σ_k (N_k/N)² (1/S^k − 1/N_k) H_k², with EM local ``steps`` at ``rate`` η."""
    return 4.0 * (steps * rate) ** 2 * mse(members, seats, spreads)


@dataclass(frozen=True)
class Dissimilarity:
    """H² of all clients (eq. 21), H_k² (K,) of the strata (eq. 11) and their sizes N_k (K,)."""

    total: float
    inside: Floats
    members: Ids

    @property
    def gain(self) -> float:
        """H² − Σ_k N_k H_k² / N: what stratifying is worth (eq. 22's last factor)."""
        return float(self.total - self.members @ self.inside / self.members.sum())

    def precision(self, budget: int, *, steps: int, rounds: int, beta: float, mu: float) -> float:
        """Return eq. 22, B^AVG − B^SS-P: 8 β (EM)² / (μ² (α₁ + T·EM)) · (1/S − 1/N) · gain, α₁ = max(8β/μ − 1, EM)."""
        alpha = max(8 * beta / mu - 1, steps)
        scale = 8 * beta * steps**2 / (mu**2 * (alpha + rounds * steps))
        return float(scale * (1 / budget - 1 / self.members.sum()) * self.gain)


def dissimilarity(gradients: Array, groups: Array, noise: Array | None = None) -> Dissimilarity:
    """Return H² and H_k² from one gradient per client (N, d) and each client's own gradient noise σ_n (N,).

    For independent mini-batches E[Σ‖h_n − h̄‖²/(N − 1)] is the variance of the clients' mean gradients plus the mean of
    σ_n². Without ``noise`` the gradients are taken as they are. A stratum of one has no variance between clients.
    """
    rows = np.asarray(gradients, np.float64)
    groups = np.unique(np.asarray(groups), return_inverse=True)[1]
    noise_variance = np.zeros(len(rows))
    if noise is not None:
        noise_variance = np.asarray(noise, np.float64) ** 2
    inside = [_variance(rows[groups == k]) + noise_variance[groups == k].mean() for k in range(groups.max() + 1)]
    return Dissimilarity(
        total=_variance(rows) + float(noise_variance.mean()),
        inside=np.array(inside),
        members=np.bincount(groups),
    )


def _variance(rows: Floats) -> float:
    """Return Σ‖x − x̄‖² / (n − 1)."""
    return float(((rows - rows.mean(axis=0)) ** 2).sum() / max(len(rows) - 1, 1))

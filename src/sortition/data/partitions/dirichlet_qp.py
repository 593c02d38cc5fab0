"""Dirichlet labels and sizes from a quadratic programme (FedCor, appendix C.2).

=====  ===========================================================================
paper  here
=====  ===========================================================================
q_k    ~ Dir(α p), p the label prior; Q = [q_1 … q_N], (L, N)
d      (L,) examples of each label
x      (N,) sizes: min xᵀx subject to Q x = d, x ≥ 0
=====  ===========================================================================

The dual has one variable per label: x = max(Qᵀλ, 0) with Q max(Qᵀλ, 0) = d, solved by Newton's method on L unknowns.
Counts are ⌊Q_lk x_k⌋ drawn without replacement; the remaining examples go to random clients, as in the released code.
Where d is outside the cone of Q's columns (few clients, small α) no x exists: Q is redrawn, and after ``redraws``
times the least-squares x ≥ 0 is taken, and a note says so; label counts are then at most those of the data.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field
from scipy.optimize import nnls

from sortition.core.arrays import Floats, Ids
from sortition.data.partitions._rule import PartitionRule, apportion, deal, draw_mixtures


class DirichletQp(PartitionRule):
    """Mixtures are drawn, and sizes follow from them.

    Attributes:
        alpha: the total concentration of the mixtures; the papers use 0.2.
        redraws: how often mixtures are drawn again where no sizes fit.
    """

    alpha: float = Field(0.2, gt=0)
    redraws: int = Field(20, ge=0)

    def owners(self, labels: Ids, clients: int, rng: np.random.Generator, notes: list[str]) -> Ids:
        """Return owners (n,) from Q and x."""
        d = np.bincount(labels)
        for _ in range(self.redraws + 1):
            Q = draw_mixtures(self.alpha, d / len(labels), clients, rng).T
            x = minimum_norm(Q, d / len(labels))
            if x is not None:
                break
        else:
            x = nnls(Q, d / len(labels))[0]
            notes.append(f"no sizes fit the mixtures after {self.redraws} redraws; the nearest were taken.")
        counts = np.floor(Q * x * len(labels) + 1e-9).astype(np.int64)
        for label in np.flatnonzero(counts.sum(axis=1) > d):
            counts[label] = apportion(counts[label].astype(float), int(d[label]))
        owners = deal(counts, labels, rng)
        has_no_owner = owners < 0
        owners[has_no_owner] = rng.integers(clients, size=int(has_no_owner.sum()))
        return owners


def minimum_norm(Q: Floats, d: Floats, *, tolerance: float = 1e-9, steps: int = 100) -> Floats | None:
    """Return argmin xᵀx subject to Q x = d, x ≥ 0, (N,); None if there is no such x.

    It is damped Newton on the concave dual g(λ) = λᵀd − ½‖max(Qᵀλ, 0)‖², whose gradient is d − Q max(Qᵀλ, 0).
    """
    lam = np.linalg.lstsq(Q @ Q.T, d, rcond=None)[0]  # exact where the unconstrained x is already ≥ 0
    x = np.maximum(Q.T @ lam, 0)
    value = lam @ d - x @ x / 2
    gradient = d - Q @ x
    for _ in range(steps):
        if np.abs(gradient).max() <= tolerance:
            return x
        active = Q[:, x > 0]
        hessian = active @ active.T
        hessian[np.diag_indices_from(hessian)] += 1e-12 + 1e-9 * np.trace(hessian)
        direction = np.linalg.solve(hessian, gradient)
        slope = gradient @ direction
        step = 1.0
        while step > 1e-10:
            trial = lam + step * direction
            x = np.maximum(Q.T @ trial, 0)
            trial_value = trial @ d - x @ x / 2
            if trial_value >= value + 1e-4 * step * slope:
                break
            step /= 2
        else:
            return None
        lam = trial
        value = trial_value
        gradient = d - Q @ x
    return None

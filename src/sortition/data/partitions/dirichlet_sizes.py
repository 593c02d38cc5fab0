"""Dirichlet labels and lognormal sizes (FedGS's CIFAR-10): n_k lognormal, p_k ~ Dir(α p*), made to fit the total.

Deviation: the released code reaches the total size by moving 1 % of the data to and fro; we scale the lognormal draws,
which keeps their law exactly. As in the code, the label shares decide at last, so sizes only approximate n_k.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.core.arrays import Floats, Ids
from sortition.data.partitions._rule import PartitionRule, dealt, mixtures, rounded

CANDIDATES = 100  # fresh draws per visit; the released code makes N
VISITS = 300


class DirichletSizes(PartitionRule):
    """``sigma`` is the deviation of log n_k; mixtures are redrawn until ‖Σ n_k p_k / n − p*‖² ≤ tolerance / L."""

    alpha: float = Field(1.75, gt=0)
    sigma: float = Field(1.0, ge=0)
    tolerance: float = Field(0.01, gt=0)

    def owners(self, labels: Ids, clients: int, rng: np.random.Generator, notes: list[str]) -> Ids:
        """(n,) each label is cut in proportion to p_k[l] · n_k."""
        counts = np.bincount(labels)
        prior = counts / len(labels)
        share = rng.lognormal(-(self.sigma**2) / 2, self.sigma, clients)  # mean 1; the paper's ln(n/N) − 0.5 at σ = 1
        share /= share.sum()
        p = self._fitted(share, prior, rng, notes)
        wanted = (p * share[:, None]).T
        lost = wanted.sum(axis=1) <= 0
        wanted[lost] = share  # no client wants this label: by size
        return dealt(np.stack([rounded(row, n) for row, n in zip(wanted, counts, strict=True)]), labels, rng)

    def _fitted(self, share: Floats, prior: Floats, rng: np.random.Generator, notes: list[str]) -> Floats:
        """(N, L) clients are visited in turn; each takes the candidate mixture that brings the mean nearest to p*."""
        p = mixtures(self.alpha, prior, len(share), rng)
        gap = share @ p - prior
        limit = self.tolerance / len(prior)
        for visit in range(VISITS):
            if gap @ gap <= limit:
                return p
            k = visit % len(share)
            fresh = np.vstack([p[k], mixtures(self.alpha, prior, CANDIDATES, rng)])
            gaps = gap + share[k] * (fresh - p[k])
            best = int(np.argmin(np.einsum("cl,cl->c", gaps, gaps)))
            p[k], gap = fresh[best], gaps[best]
        if gap @ gap > limit:
            notes.append(
                f"the mean mixture stayed {np.linalg.norm(gap):.3f} from the global one after {VISITS} redraws."
            )
        return p

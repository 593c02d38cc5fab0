"""Dirichlet labels and lognormal sizes (FedGS's CIFAR-10): n_k lognormal, p_k ~ Dir(α p*), made to fit the total.

Deviation: the released code reaches the total size by moving 1 % of the data to and fro; we scale the lognormal draws,
which keeps their law exactly. As in the code, the label shares decide at last, so sizes only approximate n_k.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from sortition.core.arrays import Floats, Ids
from sortition.data.partitions._rule import PartitionRule, apportion, deal, draw_mixtures

CANDIDATES = 100  # fresh draws per visit; the released code makes N
VISITS = 300


class DirichletSizes(PartitionRule):
    """Sizes and mixtures are drawn; mixtures are redrawn until ‖Σ n_k p_k / n − p*‖² ≤ tolerance / L.

    Attributes:
        alpha: the total concentration of the mixtures.
        sigma: the deviation of log n_k.
        tolerance: of the mean mixture.
    """

    alpha: float = Field(1.75, gt=0)
    sigma: float = Field(1.0, ge=0)
    tolerance: float = Field(0.01, gt=0)

    def owners(self, labels: Ids, clients: int, rng: np.random.Generator, notes: list[str]) -> Ids:
        """Return owners (n,); each label is cut in proportion to p_k[l] · n_k."""
        counts = np.bincount(labels)
        prior = counts / len(labels)
        share = rng.lognormal(-(self.sigma**2) / 2, self.sigma, clients)  # mean 1; the paper's ln(n/N) − 0.5 at σ = 1
        share /= share.sum()
        p = self._fit_mixtures(share, prior, rng, notes)
        shares_by_label = (p * share[:, None]).T
        in_no_mixture = shares_by_label.sum(axis=1) <= 0
        shares_by_label[in_no_mixture] = share  # no client draws this label: it is cut by size
        counts_by_label = [apportion(shares, n) for shares, n in zip(shares_by_label, counts, strict=True)]
        return deal(np.stack(counts_by_label), labels, rng)

    def _fit_mixtures(self, share: Floats, prior: Floats, rng: np.random.Generator, notes: list[str]) -> Floats:
        """Return mixtures (N, L): clients in turn take the candidate that brings the mean nearest to p*."""
        p = draw_mixtures(self.alpha, prior, len(share), rng)
        gap = share @ p - prior
        limit = self.tolerance / len(prior)
        for visit in range(VISITS):
            if gap @ gap <= limit:
                return p
            k = visit % len(share)
            candidates = np.vstack([p[k], draw_mixtures(self.alpha, prior, CANDIDATES, rng)])
            gaps = gap + share[k] * (candidates - p[k])
            best = int(np.argmin(np.einsum("cl,cl->c", gaps, gaps)))
            p[k] = candidates[best]
            gap = gaps[best]
        if gap @ gap > limit:
            notes.append(
                f"the mean mixture stayed {np.linalg.norm(gap):.3f} from the global one after {VISITS} redraws."
            )
        return p

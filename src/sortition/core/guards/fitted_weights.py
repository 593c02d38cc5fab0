"""Fitted weights: a cohort weighs so that its labels, weighted, are as near to the population's as its sizes allow.

The weights of Microcosm (docs/methods/microcosm.md) for a cohort that another method chose, without its ledger:
a = argmin ‖Φ_Sᵀa‖² + λ‖a − p_S‖² over a ≥ 0, Σa = 1, with label shares Φ, centred and scaled, and λ = λ₁/κ.
"""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.mixtures import (
    LABELS_TRADE_OFF,
    LARGEST_TRADE_OFF,
    SMALLEST_SPREAD,
    between_clients,
    label_mixtures,
    spread_of,
    unit_scale,
)
from sortition.core.population import Population
from sortition.core.simplex import fit_simplex


class FittedWeights:
    """What the weights of any cohort are fitted with.

    Attributes:
        label_counts: (N, C) of all clients, as the method is shown them.
        total: examples of all known clients.
        mean: (C,) the population's mixture.
        scale: by which centred label shares are multiplied, so that Σ p_k ‖φ_k‖² = 1; 0 where all clients are alike.
        trade_off: λ.
    """

    def __init__(self, population: Population, label_counts: Array) -> None:
        self.label_counts = label_counts
        known_counts = np.asarray(label_counts[population.known_ids], np.float64)
        examples = known_counts.sum(axis=1)
        self.total = max(float(examples.sum()), 1.0)
        self.mean, spread = spread_of(label_mixtures(known_counts), examples / self.total)
        self.scale = unit_scale(spread)
        kappa = between_clients(self.mean, spread)
        self.trade_off = min(LABELS_TRADE_OFF / max(kappa, SMALLEST_SPREAD), LARGEST_TRADE_OFF)

    def weights(self, ids: Ids) -> Floats:
        """Return the weights of these clients, which sum to 1; that of one may be 0."""
        counts = np.asarray(self.label_counts[ids], np.float64)
        examples = counts.sum(axis=1)
        phi = (label_mixtures(counts) - self.mean) * self.scale
        phi[examples <= 0] = 0.0  # nothing is known of a client without data
        return fit_simplex(phi, np.zeros(phi.shape[1]), examples / self.total, self.trade_off)

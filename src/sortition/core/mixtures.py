"""Mixtures of labels: what share of a client's examples has which label, and how far apart two mixtures are."""

from __future__ import annotations

import numpy as np

from sortition.core.arrays import Array, Floats

SMALLEST_SPREAD = 1e-12  # of features: below, all clients are alike
LABELS_TRADE_OFF = 1.5  # λ₁ of Microcosm with labels, and of fitted weights
LARGEST_TRADE_OFF = 1e6  # λ, and Microcosm's G, at most


def label_mixtures(label_counts: Array) -> Floats:
    """Return (N, C) the share of each label among a client's examples, from counts; zeros for a client without any."""
    sizes = label_counts.sum(axis=1, keepdims=True)
    return np.asarray(label_counts / np.maximum(sizes, 1), np.float64)


def population_mixture(label_counts: Array) -> Floats:
    """Return (C,) the share of each label among all examples; zeros where there is none."""
    return np.asarray(label_counts.sum(axis=0) / max(label_counts.sum(), 1), np.float64)


def total_variation(first: Floats, second: Floats) -> Floats:
    """Return half the sum of absolute differences over the last axis: 0 is the same, 1 has nothing in common."""
    return np.asarray(0.5 * np.abs(first - second).sum(axis=-1), np.float64)


def cohort_mixture(weights: Floats, mixtures: Floats) -> Floats:
    """Return (C,) the labels behind a round's update: the members' mixtures (K, C) by their weights (K,)."""
    return np.asarray(weights @ mixtures / weights.sum(), np.float64)


def spread_of(rows: Floats, p: Floats) -> tuple[Floats, float]:
    """Return the mean Σ p_k φ_k of rows (n, d), and their spread Σ p_k ‖φ_k − mean‖²; p sums to 1 over these rows."""
    mean = p @ rows
    return mean, float(p @ ((rows - mean) ** 2).sum(axis=1))


def unit_scale(spread: float) -> float:
    """Return what centred rows of this spread are multiplied by for a spread of 1; 0 where all clients are alike."""
    if spread > SMALLEST_SPREAD:
        return float(1.0 / np.sqrt(spread))
    return 0.0


def between_clients(mean: Floats, spread: float) -> float:
    """Return κ, the share of the labels' variance that lies between clients: 0 where all have the same mixture.

    Args:
        mean: (C,) the mean mixture of labels.
        spread: of the clients' mixtures around it; at most 1 − ‖mean‖², where each client has one label.
    """
    return spread / max(1.0 - float(mean @ mean), SMALLEST_SPREAD)

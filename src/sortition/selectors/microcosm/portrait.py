"""Choosing clients whose weighted sum portrays everybody's features: rows, a greedy choice, and swaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Floats, Ids
from sortition.core.ties import first_largest

SWAPS, NARROW = 20, 3000  # swaps at most, and only among so many candidates
CLOSE = 1e-8  # an improvement below this, relative to the scale of scores, is none
FLAT = 1e-12  # a spread of features below which all clients are alike


def shares_of(sizes: Floats, known: Ids) -> Floats:
    """p (N,): each client's share of all examples; 0 of unknown clients, equal where nobody has any."""
    p = np.zeros(len(sizes))
    p[known] = np.asarray(sizes, np.float64)[known]
    total = p.sum()
    if total <= 0:
        p[known], total = 1.0, float(known.size)
    return np.asarray(p / total if total else p)


def spread_of(rows: Floats, p: Floats) -> tuple[Floats, float]:
    """The mean Σ p_k φ_k of rows (n, d), and their spread Σ p_k ‖φ_k − mean‖²; p sums to 1 over these rows."""
    mean = p @ rows
    return mean, float(p @ ((rows - mean) ** 2).sum(axis=1))


@dataclass(frozen=True)
class Portrait:
    """What a cohort is chosen by: min over S and a of ‖Φ_Sᵀa − T‖² + λ‖owed − a‖².

    Of candidates that tie the first is taken, so whoever wants ties to go by lot gives them in a random order.

    Attributes:
        phi: (n, d) features Φ of the candidates.
        owed: (n,) p + d, what each should weigh.
        provisional: (n,) c, the weight a candidate would have if chosen.
        trade_off: λ.
        target: (d,) T.
    """

    phi: Floats
    owed: Floats
    provisional: Floats
    trade_off: float
    target: Floats

    def chosen(self, places: int) -> Ids:
        """Positions of ``places`` candidates: greedily, then by the best swaps."""
        c = self.provisional
        own = c * (2 * self.trade_off * self.owed - c * (np.einsum("ij,ij->i", self.phi, self.phi) + self.trade_off))
        doubled = np.asfortranarray(2 * c[:, None] * self.phi)  # columns: a product with few of them reads each once
        rest = self.target.astype(np.float64)
        scale = float(np.abs(own).max(initial=0.0))
        picks: list[int] = []
        for _ in range(min(places, c.size)):
            score = doubled @ rest
            score += own
            score[picks] = -np.inf
            picks.append(first_largest(score, scale))
            rest = rest - c[picks[-1]] * self.phi[picks[-1]]
        return self._swapped(np.array(picks, np.int64), own, doubled, scale)

    def _swapped(self, picks: Ids, own: Floats, doubled: Floats, scale: float) -> Ids:
        """While an exchange of one member improves the objective, the best one."""
        if not picks.size or picks.size == len(self.phi) or len(self.phi) > NARROW:
            return picks
        weighted = self.provisional[:, None] * self.phi
        for _ in range(SWAPS):
            rest = self.target - weighted[picks].sum(axis=0)
            score = own + doubled @ rest
            leaving = own[picks] + np.einsum("ij,ij->i", doubled[picks], rest + weighted[picks])
            gain = score + weighted[picks] @ doubled.T - leaving[:, None]
            gain[:, picks] = -np.inf
            best = gain.max(axis=0)
            if best.max() <= CLOSE * scale:
                break
            new, order = first_largest(best, scale), np.argsort(picks)
            picks[order[first_largest(gain[order, new], scale)]] = new
        return picks


def provisional(owed: Floats, places: int) -> Floats:
    """c (n,): what is owed, and an equal share of what the best ``places`` would leave of 1; at most 1."""
    due = np.maximum(owed, 0.0)
    places = min(places, due.size)
    largest = np.partition(due, due.size - places)[due.size - places :].sum() if places else 0.0
    return np.minimum(1.0, due + max(0.0, 1.0 - largest) / max(places, 1))


def unexplained(phi: Floats, updates: Floats, p: Floats) -> float | None:
    """(1 − R²)/R² with the adjusted R² of regressing updates (n, s) on features (n, d), weighted by p.

    None while fewer than 2·rank + 6 clients are known; infinite where features explain nothing.
    """
    root = np.sqrt(p / max(p.sum(), 1e-300))[:, None]
    design = root * np.column_stack([np.ones(len(phi)), phi])
    centred = root * (updates - root[:, 0] ** 2 @ updates)
    fitted, _, rank, _ = np.linalg.lstsq(design, centred, rcond=1e-9)
    total = float((centred**2).sum())
    n = int((p > 0).sum())
    if n < 2 * (rank - 1) + 6 or total <= 0:
        return None
    left = float(((centred - design @ fitted) ** 2).sum()) / total
    explained = 1.0 - left * (n - 1) / (n - rank)
    return (1.0 - explained) / explained if explained > 0 else float("inf")

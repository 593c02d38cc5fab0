"""Choosing clients whose weighted sum portrays everybody's features: rows, a greedy choice, and swaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortition.core.arrays import Floats, Ids
from sortition.core.cohort import NOBODY
from sortition.core.ties import first_largest

MOST_SWAPS = 20
SWAPPED_UP_TO = 3000  # candidates; among more there are no swaps
CLOSE = 1e-8  # an improvement below this, relative to the scale of scores, is none


@dataclass(frozen=True)
class Portrait:
    """What a cohort is chosen by: min over S and a of ‖Φ_Sᵀa − T‖² + λ‖owed − a‖².

    Of candidates that tie the first is taken, so a caller that wants ties to go by lot gives them in a random order.

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

    def choose(self, places: int, *, required: Ids = NOBODY, swaps: bool = True) -> Ids:
        """Return positions of ``places`` candidates, ``required`` first: a greedy choice, improved by the best swaps.

        With the residual r = T − Σ_{k∈S} c_k φ_k, candidate j improves the objective by
        c_j (2λ owed_j − c_j (‖φ_j‖² + λ)) + 2 c_j φ_j·r.
        """
        c = self.provisional
        square = np.einsum("ij,ij->i", self.phi, self.phi)
        single = c * (2 * self.trade_off * self.owed - c * (square + self.trade_off))
        doubled = np.asfortranarray(2 * c[:, None] * self.phi)  # columns: a product with few of them reads each once
        residual = self.target.astype(np.float64)
        scale = float(np.abs(single).max(initial=0.0))
        picks: list[int] = required.tolist()
        residual = residual - c[picks] @ self.phi[picks]
        for _ in range(min(places, c.size) - required.size):
            score = doubled @ residual
            score += single
            score[picks] = -np.inf
            pick = first_largest(score, scale)
            picks.append(pick)
            residual = residual - c[pick] * self.phi[pick]
        chosen = np.array(picks, np.int64)
        n = len(self.phi)
        if not swaps or chosen.size == required.size or chosen.size == n or n > SWAPPED_UP_TO:
            return chosen
        return self._swap(chosen, single, doubled, scale, n_required=required.size)

    def _swap(self, picks: Ids, single: Floats, doubled: Floats, scale: float, *, n_required: int) -> Ids:
        """Make the best exchange of one member while one improves the objective; the first ``n_required`` stay."""
        weighted = self.provisional[:, None] * self.phi
        for _ in range(MOST_SWAPS):
            residual = self.target - weighted[picks].sum(axis=0)
            joining = single + doubled @ residual
            leaving = single[picks] + np.einsum("ij,ij->i", doubled[picks], residual + weighted[picks])
            gain = joining + weighted[picks] @ doubled.T - leaving[:, None]
            gain[:, picks] = -np.inf
            gain[:n_required] = -np.inf
            best_gain = gain.max(axis=0)
            if best_gain.max() <= CLOSE * scale:
                break
            newcomer = first_largest(best_gain, scale)
            order = np.argsort(picks)
            place = order[first_largest(gain[order, newcomer], scale)]
            picks[place] = newcomer
        return picks


def provisional_weights(owed: Floats, places: int) -> Floats:
    """Return c (n,): what is owed, and an equal share of what the best ``places`` would leave of 1; at most 1."""
    due = np.maximum(owed, 0.0)
    places = min(places, due.size)
    if places == 0:
        return np.asarray(np.minimum(1.0, due + 1.0))
    largest = np.partition(due, due.size - places)[due.size - places :].sum()
    return np.asarray(np.minimum(1.0, due + max(0.0, 1.0 - largest) / places))


def unexplained_ratio(features: Floats, updates: Floats, data_shares: Floats) -> float | None:
    """Return (1 − R²)/R² with the adjusted R² of regressing updates (n, s) on features (n, d), weighted by data shares.

    It is infinite where the features explain nothing. It is None where the updates do not vary, and while fewer than
    2·(rank − 1) + 6 clients have data; the rank is that of the features and the intercept.
    """
    root = np.sqrt(data_shares / max(data_shares.sum(), 1e-300))[:, None]
    design = root * np.column_stack([np.ones(len(features)), features])
    centred = root * (updates - root[:, 0] ** 2 @ updates)
    coefficients, _, rank, _ = np.linalg.lstsq(design, centred, rcond=1e-9)
    total = float((centred**2).sum())
    n = int((data_shares > 0).sum())
    if n < 2 * (rank - 1) + 6 or total <= 0:
        return None
    residual_share = float(((centred - design @ coefficients) ** 2).sum()) / total
    r_squared = float(1.0 - residual_share * (n - 1) / (n - rank))
    if r_squared <= 0:
        return float("inf")
    return (1.0 - r_squared) / r_squared

"""Two-state Markov chains that can be entered at any round, without walking there from round 0.

The state at multiples of B comes from a coarse chain whose step is B steps of the fine one. With λ = 1 − leave − join
its eigenvalue λ^B is ≥ 0 (B is even), so a step may be read as: with probability 1 − λ^B forget and draw from the
stationary law, else keep. Looking back, only those who kept are still open, and they become few at once: it ends after
about ln N / (B · −ln |λ|) steps.

Any other round t lies halfway between t − l and t + l, l being its lowest set bit: its state is drawn given these two,
P(on | x, z) = P^l(x → on) P^l(on → z) / P^2l(x → z). So every round has the exact joint law, needs at most
log₂ B other rounds, and costs one draw per client when rounds are asked in order.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sortition.availability._mode import Mask, Masks
from sortition.core.arrays import Floats
from sortition.core.streams import stream

B = 256


def path(n: int, leave: float, join: float, seed: int, purpose: str) -> Masks:
    """The function t ↦ (n,) bool of n independent stationary chains; 0 < leave + join."""
    on, keep = join / (leave + join), (1 - leave - join) ** B
    halfway = _bridges(leave, join)

    def coarse(t: int) -> Mask:
        state, open_ = np.zeros(n, dtype=bool), np.ones(n, dtype=bool)
        for s in range(t, -1, -B):
            u = stream(seed, purpose, s).random(n)
            forget = 1 - keep if s else 1.0  # round 0 is stationary
            state |= open_ & (u < forget * on)
            open_ &= u >= forget
            if not open_.any():
                break
        return state

    @lru_cache(maxsize=24)  # the rounds that the next one is drawn from; changes no answer
    def state(t: int) -> Mask:
        if t % B == 0:
            return coarse(t)
        l = t & -t  # noqa: E741 (the docstring's letter)
        pair = state(t - l).view(np.uint8) << 1 | state(t + l).view(np.uint8)
        return np.asarray(stream(seed, purpose, t).random(n) < halfway[l].take(pair))

    return lambda t: state(t).copy()


def _bridges(leave: float, join: float) -> dict[int, Floats]:
    """By l: P(on halfway | x before, z after) at index 2x + z."""
    P = np.array([[1 - join, join], [leave, 1 - leave]])
    tables, l = {}, 1  # noqa: E741
    while l < B:
        once, twice = np.linalg.matrix_power(P, l), np.linalg.matrix_power(P, 2 * l)
        with np.errstate(invalid="ignore", divide="ignore"):
            chance = once[:, 1][:, None] * once[1][None, :] / twice
        tables[l] = np.nan_to_num(chance, nan=0.0, posinf=0.0).ravel()  # 0/0: a pair that cannot occur
        l *= 2  # noqa: E741
    return tables

"""Two-state Markov chains that can be entered at any round, without walking there from round 0.

The state at multiples of B comes from a coarse chain whose step is B steps of the fine one. With λ = 1 − leave − join
its eigenvalue λ^B is ≥ 0 (B is even), so a step may be read as: with probability 1 − λ^B forget and draw from the
stationary law, else keep. Looking back, only those who kept are still undecided, and they become few at once: it ends
after about ln N / (B · −ln |λ|) steps.

Any other round t lies halfway between t − h and t + h, where h is its lowest set bit: its state is drawn given these
two, P(on | x, z) = P^h(x → on) P^h(on → z) / P^2h(x → z). So every round has the exact joint law, needs at most
log₂ B other rounds, and costs one draw per client when rounds are asked in order.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sortition.availability._mode import Mask, Masks
from sortition.core.arrays import Floats
from sortition.core.streams import stream

B = 256


def markov_path(n: int, *, leave: float, join: float, seed: int, purpose: str) -> Masks:
    """Return the function t ↦ (n,) bool of n independent stationary chains; leave + join must be > 0."""
    stationary_rate = join / (leave + join)
    keep_chance = (1 - leave - join) ** B
    on_halfway = _bridges(leave, join)

    def coarse_state(t: int) -> Mask:
        state = np.zeros(n, dtype=bool)
        undecided = np.ones(n, dtype=bool)
        for earlier in range(t, -1, -B):
            u = stream(seed, purpose, earlier).random(n)
            forget_chance = 1 - keep_chance if earlier else 1.0  # round 0 is stationary
            state |= undecided & (u < forget_chance * stationary_rate)
            undecided &= u >= forget_chance
            if not undecided.any():
                break
        return state

    @lru_cache(maxsize=24)  # the rounds that the next one is drawn from; changes no answer
    def state(t: int) -> Mask:
        if t % B == 0:
            return coarse_state(t)
        h = t & -t
        pair = state(t - h).view(np.uint8) << 1 | state(t + h).view(np.uint8)
        return np.asarray(stream(seed, purpose, t).random(n) < on_halfway[h].take(pair))

    return lambda t: state(t).copy()


def _bridges(leave: float, join: float) -> dict[int, Floats]:
    """Return, by h, P(on halfway | x before, z after) at index 2x + z."""
    P = np.array([[1 - join, join], [leave, 1 - leave]])
    tables = {}
    h = 1
    while h < B:
        P_h = np.linalg.matrix_power(P, h)
        P_2h = np.linalg.matrix_power(P, 2 * h)
        with np.errstate(invalid="ignore", divide="ignore"):
            chance = P_h[:, 1][:, None] * P_h[1][None, :] / P_2h
        tables[h] = np.nan_to_num(chance, nan=0.0, posinf=0.0).ravel()  # 0/0: a pair that cannot occur
        h *= 2
    return tables

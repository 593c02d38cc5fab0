"""Optimal client sampling: Chen, Horváth, Richtárik 2022, *Optimal client sampling for federated learning*.

Clients train first and say how long their update is; then each sends it with a probability of its own, chosen such that
the sum that arrives varies least around the sum of all.

| paper | here |
|---|---|
| the n clients that train in a round | ``pool`` of the available ones; by default all |
| U_i, w_i (Σ w_i = 1), ũ_i = ‖w_i U_i‖ | the question ``UPDATE_NORM`` times the weight (``weigh``) |
| S: each i independently with probability p_i, Σ p_i ≤ m | one uniform number a client; m is the budget |
| G = Σ_{i∈S} (w_i / p_i) U_i, unbiased | the weights, ``mass="expected"``; ``expected_size`` is Σ p_i |
| eq. 7: p_i = (m + l − n) ũ_i / Σ_{j≤l} ũ_(j) for the l smallest, 1 for the others | :func:`optimal_probabilities` |
| l: the largest with 0 < m + l − n ≤ Σ_{i≤l} ũ_(i) / ũ_(l) | the same, without the division |
| Algorithm 2 (AOCS): p_i = min(1, m ũ_i / Σ ũ), then at most j_max rescalings by C | ``rule="sums"`` |
| C = (m − n + I) / P over the I clients with p_i < 1, whose p_i add up to P | the same |
| α = Σ (1 − p_i)/p_i ũ_i² over that of p_i = m/n, the improvement factor | ``notes["improvement"]`` |

Numbers of equations and algorithms are from memory. AOCS needs only sums over clients, which secure aggregation can
give; then the clients compute p_i and draw by themselves.

Deviations: here the server asks for the norms and draws, with either rule, so the norms are visible to it. The released
code divides by zero where all p_i are 1 or all norms are 0: here those with p_i = 1 stay, and equal norms give m/n.
Clients that do not answer have not trained: the weights are shares among those who did. If nobody answers, norms count
as equal.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import UPDATE_NORM, Cohort, Measure, Needs, Round, Selector, State, method
from sortition.core.arrays import Floats
from sortition.core.sampling import draw_uniformly
from sortition.core.selector import Asking
from sortition.core.ties import TIE_TOLERANCE, round_to_tie_grid
from sortition.selectors._parts.shares import weight_shares


@method
class OCS(Selector[State]):
    """Lets all clients train; those whose update is longer send it with a higher probability.

    Attributes:
        rule: the "exact" probabilities, or the approximation by "sums" that secure aggregation allows (AOCS).
        iterations: j_max, how often ``rule="sums"`` rescales at most.
        pool: n, how many of the available clients train in a round, drawn uniformly; None: all.
        weigh: w_i by "size", or the same for all ("equal").
    """

    rule: Literal["exact", "sums"] = "exact"
    iterations: Annotated[int, Field(ge=0, le=1000)] = 4
    pool: Annotated[int, Field(ge=1)] | None = None
    weigh: Literal["size", "equal"] = "size"

    cite = """@article{chen2022optimal,
  title = {Optimal Client Sampling for Federated Learning},
  author = {Chen, Wenlin and Horv{\\'a}th, Samuel and Richt{\\'a}rik, Peter},
  journal = {Transactions on Machine Learning Research}, year = {2022}
}"""

    @property
    def needs(self) -> Needs:
        """Ask every client that trains for the length of its update; read the sizes, if they are the weights."""
        if self.weigh == "size":
            return Needs(reads=("sizes",), asks=(UPDATE_NORM,))
        return Needs(asks=(UPDATE_NORM,))

    def select(self, state: State, round: Round) -> Asking:
        """Let the pool train, ask for the norms of its updates, and draw who sends."""
        m = round.budget
        pool = round.available
        if self.pool is not None:
            pool = np.sort(draw_uniformly(round.available, self.pool, round.rng))
        norms = np.zeros(round.n_clients)
        answer = yield Measure(UPDATE_NORM, pool)
        if len(answer):
            pool = np.sort(answer.ids)
            norms[answer.ids] = answer.values
        w = weight_shares(round.population, pool, self.weigh)
        lengths = w * norms[pool]  # ũ_i
        p = self._probabilities(lengths, m)
        sends = round.rng.random(pool.size) < p
        notes = {"trained": int(pool.size), "improvement": variance_ratio(lengths, p, m)}
        return Cohort(
            pool[sends],
            w[sends] / p[sends],
            mass="expected",
            expected_size=float(p.sum()),
            notes=notes,
        )

    def _probabilities(self, lengths: Floats, m: int) -> Floats:
        """Return p_i by ``rule``."""
        if self.rule == "exact":
            return optimal_probabilities(lengths, m)
        return approximate_probabilities(lengths, m, self.iterations)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover the exact probabilities, and AOCS on a part of the available clients."""
        return [{}, {"rule": "sums", "iterations": 2, "pool": 12, "weigh": "equal"}]


def optimal_probabilities(lengths: Floats, m: int) -> Floats:
    """Return the probabilities (n,) that minimise Σ (1 − p_i)/p_i ũ_i² subject to Σ p_i ≤ m (eq. 7)."""
    n = lengths.size
    if n <= m:
        return np.ones(n)
    if not lengths.any():
        return np.full(n, m / n)
    p = np.zeros(n)
    positive = np.flatnonzero(lengths > 0)
    if positive.size <= m:
        p[positive] = 1.0
        return p
    order = positive[np.argsort(round_to_tie_grid(lengths[positive]), kind="stable")]
    ascending = lengths[order]  # ũ_(1) ≤ ũ_(2) ≤ …
    total = np.cumsum(ascending)  # Σ_{i≤l} ũ_(i) of every l
    places = m + np.arange(1, ascending.size + 1) - ascending.size  # m + l − n
    allowed = (places > 0) & (places * ascending <= total)
    last = int(np.flatnonzero(allowed)[-1])  # l − 1
    p[order] = 1.0
    p[order[: last + 1]] = places[last] * ascending[: last + 1] / total[last]
    return np.minimum(p, 1.0)


def approximate_probabilities(lengths: Floats, m: int, iterations: int) -> Floats:
    """Approximate the same probabilities (n,) with sums over clients alone (Algorithm 2)."""
    n = lengths.size
    total = float(lengths.sum())
    if n <= m:
        return np.ones(n)
    if total == 0:
        return np.full(n, m / n)
    p = np.minimum(1.0, m * lengths / total)
    for _ in range(iterations):
        below_one = p < 1 - TIE_TOLERANCE
        count = int(below_one.sum())  # I
        mass = float(p[below_one].sum())  # P
        if mass == 0:
            break
        C = (m - n + count) / mass
        p[below_one] = np.minimum(1.0, C * p[below_one])
        if C <= 1:
            break
    return p


def variance_ratio(lengths: Floats, p: Floats, m: int) -> float:
    """Return α: the variance of the sum that arrives over that of independent draws with p_i = m/n.

    It is 0 where the latter is 0.
    """
    n = lengths.size
    squares = lengths**2
    uniform_variance = (n / m - 1) * float(squares.sum())
    if n <= m or uniform_variance <= 0:
        return 0.0
    positive = p > 0
    variance = float(((1 - p[positive]) / p[positive] * squares[positive]).sum())
    return variance / uniform_variance

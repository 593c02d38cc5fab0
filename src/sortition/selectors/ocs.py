"""Optimal client sampling: Chen, Horváth, Richtárik 2022, *Optimal client sampling for federated learning*.

Clients train first and say how long their update is; then each sends it with a probability of its own, chosen such that
the sum that arrives varies least around the sum of all.

| paper | here |
|---|---|
| the n clients that train in a round | ``pool`` of the available ones; by default all |
| U_i, w_i (Σ w_i = 1), ũ_i = ‖w_i U_i‖ | the question ``UPDATE_NORM`` times the weight (``weigh``) |
| S: each i independently with probability p_i, Σ p_i ≤ m | one uniform number a client; m is the budget |
| G = Σ_{i∈S} (w_i / p_i) U_i, unbiased | the weights, ``mass="expected"``; ``expected_size`` is Σ p_i |
| eq. 7: p_i = (m + l − n) ũ_i / Σ_{j≤l} ũ_(j) for the l smallest, 1 for the others | :func:`optimal` |
| l: the largest with 0 < m + l − n ≤ Σ_{i≤l} ũ_(i) / ũ_(l) | the same, without the division |
| Algorithm 2 (AOCS): p_i = min(1, m ũ_i / Σ ũ), then at most j_max rescalings by C | ``rule="sums"``, :func:`by_sums` |
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
from sortition.core.arrays import Floats, Ids
from sortition.core.sampling import uniformly
from sortition.core.selector import Asking
from sortition.core.ties import TOLERANCE, rounded
from sortition.selectors._parts.shares import shares


@method
class OCS(Selector[State]):
    """All train, and those whose update is longer send it with a higher probability.

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
        """The length of the update of every client that trains; sizes, if they are the weights."""
        return Needs(reads=("sizes",) if self.weigh == "size" else (), asks=(UPDATE_NORM,))

    def select(self, state: State, round: Round) -> Asking:
        """Train, ask for norms, draw."""
        pool = round.available if self.pool is None else np.sort(uniformly(round.available, self.pool, round.rng))
        answer = yield Measure(UPDATE_NORM, pool)
        norms = np.zeros(round.n_clients)
        if len(answer):
            pool, norms[answer.ids] = np.sort(answer.ids), answer.values
        w = self._shares(round, pool)
        lengths = w * norms[pool]
        p = optimal(lengths, round.budget) if self.rule == "exact" else by_sums(lengths, round.budget, self.iterations)
        sent = round.rng.random(pool.size) < p
        notes = {"trained": int(pool.size), "improvement": improvement(lengths, p, round.budget)}
        ids, weights = pool[sent], w[sent] / p[sent]
        return Cohort(ids, weights, mass="expected", expected_size=float(p.sum()), notes=notes)

    def _shares(self, round: Round, pool: Ids) -> Floats:
        """w_i, shares of those who trained."""
        return shares(np.asarray(round.population.sizes[pool], float) if self.weigh == "size" else np.ones(pool.size))

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """The exact probabilities, and AOCS on a part of the available clients."""
        return [{}, {"rule": "sums", "iterations": 2, "pool": 12, "weigh": "equal"}]


def optimal(lengths: Floats, m: int) -> Floats:
    """The probabilities (n,) of which Σ (1 − p_i)/p_i ũ_i² is least, subject to Σ p_i ≤ m."""
    n = lengths.size
    if n <= m:
        return np.ones(n)
    if not lengths.any():
        return np.full(n, m / n)
    p, some = np.zeros(n), np.flatnonzero(lengths > 0)
    if some.size <= m:
        p[some] = 1.0
        return p
    order = some[np.argsort(rounded(lengths[some]), kind="stable")]
    up, total = lengths[order], np.cumsum(lengths[order])
    places = m + np.arange(1, up.size + 1) - up.size  # m + l − n
    last = int(np.flatnonzero((places > 0) & (places * up <= total))[-1])
    p[order] = 1.0
    p[order[: last + 1]] = places[last] * up[: last + 1] / total[last]
    return np.minimum(p, 1.0)


def by_sums(lengths: Floats, m: int, iterations: int) -> Floats:
    """The same (n,), approximated with sums over clients alone."""
    n, total = lengths.size, float(lengths.sum())
    if n <= m:
        return np.ones(n)
    if total == 0:
        return np.full(n, m / n)
    p = np.minimum(1.0, m * lengths / total)
    for _ in range(iterations):
        below = p < 1 - TOLERANCE
        count, mass = int(below.sum()), float(p[below].sum())
        if mass == 0:
            break
        c = (m - n + count) / mass
        p[below] = np.minimum(1.0, c * p[below])
        if c <= 1:
            break
    return p


def improvement(lengths: Floats, p: Floats, m: int) -> float:
    """α: the variance of the sum that arrives over that of independent draws with p_i = m/n; 0 where that is 0."""
    squares, n = lengths**2, lengths.size
    uniform = (n / m - 1) * float(squares.sum())
    some = p > 0
    return float(((1 - p[some]) / p[some] * squares[some]).sum()) / uniform if n > m and uniform > 0 else 0.0

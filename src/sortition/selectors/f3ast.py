"""F3AST: Ribero et al. 2023, *Federated learning under intermittent client availability and time-varying …*.

Each client's long-run rate of participation is tracked, and the clients are taken that are furthest behind the rates
that minimise the variance of the average.

| paper | here |
|---|---|
| p_k, share of the data | ``data_shares``: of the known clients |
| H(r) = Σ_k p_k² / r_k, to be minimised over achievable rates | never formed |
| S_t: the min(K_t, abs(A_t)) available clients with the largest −∂H/∂r_k = p_k² / r_k² | the largest p_k / r_k |
| r ← (1 − β) r + β·1[k ∈ S_t], for all clients | ``state.rate``, β = ``beta`` |
| w ← w + Σ_{k∈S_t} (p_k / r_k) Δ_k, r after the update | the weights, ``mass="expected"`` |
| r(0) | ``start``: min(1, K p_k), or p_k as released |

The weights sum to 1 in expectation only, so nothing rescales them. The choice is deterministic given A_t and r; chance
comes from availability.

Deviations: with ``start="share"`` and ``divide=True`` the released code begins like a plain mean, but its rates add up
to K in time and its steps shrink to 1/K of the unbiased ones; the default starts at rates that add up to K and divides
by nothing. The released code trains unavailable clients where fewer than K are available; here all available ones
train. A round that was skipped because nobody was available lowers all rates, as S_t = ∅ does. Ties go to the lowest
id. A client that joins starts at r(0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import Cohort, Needs, Round, Selector, State, method, per_client, shared
from sortition.core.arrays import Floats, Ids
from sortition.core.sampling import take_largest
from sortition.selectors._parts.shares import data_shares


@dataclass
class Memory(State):
    """The estimated rate of participation of each client; NaN before it is known."""

    rate: Floats = per_client(np.nan)
    last_round: int = shared(-1)  # index of the last round in which somebody was available


@method
class F3AST(Selector[Memory]):
    """Chooses the available clients that are furthest behind the rates at which the average varies least.

    Attributes:
        beta: β, the step of the moving average of participation.
        start: r(0): "budget" (min(1, K p_k), so that rates add up to K) or "share" (p_k, as released).
        divide: divide the weights by the budget, as released.
    """

    beta: Annotated[float, Field(gt=0, le=1)] = 0.01
    start: Literal["budget", "share"] = "budget"
    divide: bool = False

    memory = Memory
    counts_rounds = True
    cite = """@article{ribero2023federated,
  title = {Federated Learning Under Intermittent Client Availability and Time-Varying Communication Constraints},
  author = {Ribero, M{\\'o}nica and Vikalo, Haris and de Veciana, Gustavo},
  journal = {IEEE Journal of Selected Topics in Signal Processing}, volume = {17}, number = {1}, pages = {98--111},
  year = {2023}
}"""

    @property
    def needs(self) -> Needs:
        """Read the sizes."""
        return Needs(reads=("sizes",))

    def select(self, state: Memory, round: Round) -> Cohort:
        """Choose, update the rates, and weigh by p_k / r_k.

        The clients of the largest p_k / r_k are chosen, which are those of the largest marginals.
        """
        known_ids = round.population.known_ids
        p = data_shares(round.population)
        self._start_rates(state, round, p)
        n_skipped = round.index - state.last_round - 1
        state.rate[known_ids] *= (1 - self.beta) ** n_skipped
        state.last_round = round.index
        chosen = take_largest(round.available, _shares_over_rates(p, state.rate, round.available), round.budget)
        state.rate[known_ids] *= 1 - self.beta
        state.rate[chosen] += self.beta
        weights = _shares_over_rates(p, state.rate, chosen)
        if self.divide:
            weights = weights / round.budget
        notes = {"expected_size": float(state.rate[known_ids].sum())}
        return Cohort(chosen, weights, mass="expected", notes=notes)

    def _start_rates(self, state: Memory, round: Round, p: Floats) -> None:
        """Set r(0) of clients that are known for the first time."""
        known_ids = round.population.known_ids
        newcomers = known_ids[np.isnan(state.rate[known_ids])]
        start = p[newcomers]
        if self.start == "budget":
            start = start * round.budget
        state.rate[newcomers] = np.minimum(start, 1.0)

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover the unbiased rule, and the released code's."""
        return [{}, {"beta": 0.1, "start": "share", "divide": True}]


def _shares_over_rates(p: Floats, rate: Floats, ids: Ids) -> Floats:
    """Return p_k / r_k of these clients; 0 of a client without data, however small its rate is."""
    ratio = p[ids] / np.maximum(rate[ids], np.finfo(float).tiny)
    return np.asarray(np.where(p[ids] > 0, ratio, 0.0))

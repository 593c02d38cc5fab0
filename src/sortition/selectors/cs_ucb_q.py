"""CS-UCB-Q: Xia et al. 2020, *Multi-armed bandit-based client scheduling for federated learning*.

Clients are arms whose reward is a short latency, and a virtual queue per client makes sure that each takes part in its
required share of the rounds.

| paper | here |
|---|---|
| τ_k, clipped at τ_max | the report ``DURATION``; ``latency_limit``, None for the longest seen so far |
| r_k = 1 − τ_k / τ_max, its mean ȳ_k over z_k plays | from ``state.latency`` and ``state.plays`` |
| ŷ_k = min(ȳ_k + √(2 ln t / z_k), 1), 1 if z_k = 0 | ``_optimistic_rewards`` |
| c_k, required share of rounds | ``fraction`` · m / N, or · m n_k / n with ``rate="size"`` |
| D_k ← max(D_k + c_k − b_k(t − 1), 0) | ``state.queue``, ``state.chosen`` |
| S_t: the m largest (1 − β) ŷ_k + β D_k | ``take_largest`` over the available clients only |
| weights n_k / Σ_S n_k | ``Cohort.by_size`` |

Deviations: without a ``latency_limit`` the reward is relative to the longest latency so far. Ties go to the lowest
id. A round that was skipped because nobody was there fills the queues as well. Those who fell silent were chosen
(their queue is served) but teach nothing about their latency. c_k is cut at 1; Σ c_k ≤ m and c_k ≤ the client's
availability are needed for the queues to stay bounded, and cannot be checked here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import DURATION, Cohort, Feedback, Needs, Round, Selector, State, method, per_client, shared
from sortition.core.arrays import Floats, Ids
from sortition.core.sampling import take_largest
from sortition.core.ties import round_to_tie_grid
from sortition.selectors._parts.shares import weight_shares


@dataclass
class Memory(State):
    """What each client's plays taught, what it is owed, and whether it was chosen last."""

    latency: Floats = per_client(0.0)  # mean over its plays, in seconds
    plays: Ids = per_client(0, dtype=int)  # z_k
    queue: Floats = per_client(0.0)  # D_k
    chosen: Ids = per_client(0, dtype=int)  # b_k(t − 1)
    longest: float = shared(0.0)  # the longest latency so far, in seconds
    last: int = shared(-1)  # index of the last round in which somebody chose


@method
class CSUCBQ(Selector[Memory]):
    """Chooses the fastest clients by upper confidence bounds; queues bring the others back.

    Attributes:
        beta: β, weight of the queues against the bandit; 1 leaves the queues alone.
        fraction: the required share of an even (or data-sized) participation, φ.
        rate: c_k equal for all, or in proportion to data size.
        latency_limit: τ_max in seconds; None for the longest latency seen so far.
    """

    beta: Annotated[float, Field(ge=0, le=1)] = 0.5
    fraction: Annotated[float, Field(ge=0, le=1)] = 1.0
    rate: Literal["equal", "size"] = "equal"
    latency_limit: Annotated[float, Field(gt=0)] | None = None

    memory = Memory
    counts_rounds = True
    cite = """@article{xia2020multi,
  title = {Multi-Armed Bandit-Based Client Scheduling for Federated Learning},
  author = {Xia, Wenchao and Quek, Tony Q. S. and Guo, Kun and Wen, Wanli and Yang, Howard H. and Zhu, Hongbo},
  journal = {IEEE Transactions on Wireless Communications}, volume = {19}, number = {11}, pages = {7108--7123},
  year = {2020}
}"""

    @property
    def needs(self) -> Needs:
        """Read the sizes; take from the cohort how long it took."""
        return Needs(reads=("sizes",), reports=(DURATION,))

    def select(self, state: Memory, round: Round) -> Cohort:
        """Add to the queues what is required, then choose by the largest sums of optimistic reward and queue."""
        required = self._required_rates(round)
        n_skipped = round.index - state.last - 1
        state.queue = np.maximum(state.queue + required - state.chosen, 0.0) + n_skipped * required
        ids = round.available
        reward = self._optimistic_rewards(state, ids, round.index + 1)
        score = (1 - self.beta) * reward + self.beta * state.queue[ids]
        score = round_to_tie_grid(score, 1.0)  # D_k sums small steps: near 0 its bits are noise
        members = take_largest(ids, score, round.budget)
        state.chosen[:] = 0
        state.chosen[members] = 1
        state.last = round.index
        return Cohort.by_size(members, round.population.sizes, notes={"longest_queue": float(state.queue.max())})

    def _required_rates(self, round: Round) -> Floats:
        """Return c_k of all clients (N,); 0 for unknown ones."""
        known_ids = round.population.known_ids
        share = np.zeros(round.n_clients)
        share[known_ids] = weight_shares(round.population, known_ids, self.rate)
        return np.minimum(self.fraction * round.budget * share, 1.0)

    def _optimistic_rewards(self, state: Memory, ids: Ids, t: int) -> Floats:
        """Return ŷ_k of these clients; 1 before the first play, since the latency is 0 then."""
        longest = self.latency_limit or state.longest  # τ_max
        reward = np.ones(ids.size)  # ȳ_k
        if longest > 0:
            reward = 1.0 - state.latency[ids] / longest
        confidence_radius = np.sqrt(2.0 * math.log(t) / np.maximum(state.plays[ids], 1))
        return np.minimum(reward + confidence_radius, 1.0)

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Update the mean latency of the clients that answered."""
        durations = feedback.report(DURATION)
        if not len(durations):
            return
        ids = durations.ids
        latency = durations.values
        state.longest = max(state.longest, float(latency.max()))
        if self.latency_limit is not None:
            latency = np.minimum(latency, self.latency_limit)
        state.plays[ids] += 1
        state.latency[ids] += (latency - state.latency[ids]) / state.plays[ids]

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover the default, the bandit almost alone with a limit, and queues by size."""
        return [{}, {"beta": 1e-5, "latency_limit": 2.0}, {"beta": 0.9, "fraction": 0.5, "rate": "size"}]

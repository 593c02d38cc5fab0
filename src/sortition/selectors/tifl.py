"""TiFL: Chai et al. 2020, *TiFL: a tier-based federated learning system*.

A round is as slow as its slowest member, so clients of similar speed train together: latencies are profiled once,
clients are split into tiers, and each round draws one tier and its members. Tiers on which the model is bad get larger
chances, and credits bound how often a slow tier is used.

| paper | here |
|---|---|
| sync_rounds of profiling, RT_i += min(T_i, T_max) | ``profile_rounds``, ``latency_limit``; the question ``DURATION`` |
| RT_i ≥ sync_rounds · T_max: excluded | ``_tiers`` |
| m tiers of latency | ``tiers``; as many clients in each, from fast to slow |
| abs(C) clients of the tier, uniformly without replacement | the places of the round |
| static policies: P_j of the tiers | ``policy``: "uniform", "random", "fast", "slow", "fast1" to "fast3" |
| Algorithm 2: every I rounds, if A_current^r ≤ A_current^{r−I}, P ← ChangeProbs(A) | "adaptive", ``interval`` |
| A_t: accuracy of the model on the test data of tier t | the question ``ACCURACY``; mean over the tier by size |
| Credits_t | ``credits``; None for ⌈rounds / m⌉ each |
| ChangeProbs: P_t = (n − i) / (n(n − 1)/2), i the rank by accuracy from 1 | ``ranks="printed"``, :func:`chances` |
| Σ s_c w_c / Σ s_c | weights by size |

Deviations: as printed, the best tier gets probability 0; the default counts ranks from 0 and divides by n(n + 1)/2, as
public implementations do. A tier is drawn among those with credits that have a member at hand. When no tier at hand
has credits, all get theirs anew. A tier whose accuracy was never measured counts as having none right. Accuracies are
asked in the rounds in which they are compared, not in every round. A client is profiled when it is first available; one
that does not answer took T_max, or is asked again where there is no limit. Until somebody is profiled, cohorts are
uniform.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import (
    ACCURACY,
    DURATION,
    Cohort,
    Measure,
    Needs,
    Reading,
    Round,
    Selector,
    State,
    method,
    per_client,
    shared,
)
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import bad
from sortition.core.sampling import uniformly, with_replacement
from sortition.core.selector import Asking
from sortition.core.ties import rounded

POLICIES = {  # chances of five tiers, from fast to slow
    "random": (0.7, 0.1, 0.1, 0.05, 0.05),
    "fast1": (0.225, 0.225, 0.225, 0.225, 0.1),
    "fast2": (0.2375, 0.2375, 0.2375, 0.2375, 0.05),
    "fast3": (0.25, 0.25, 0.25, 0.25, 0.0),
}


@dataclass
class Memory(State):
    """The profile of each client; of each tier its chance, its credits and its last accuracy."""

    total: Floats = per_client(0.0)  # RT_i
    profiles: Ids = per_client(0, dtype=int)
    chance: Array = shared()  # (m,) P
    credits: Array = shared()  # (m,)
    accuracy: Array = shared()  # (m,) A, when it was measured last
    tier: int = shared(-1)  # the current one
    looked: int = shared(-1)  # the round in which accuracies were asked last


@method
class TiFL(Selector[Memory]):
    """One tier of clients of similar speed a round; tiers on which the model is bad more often, within their credits.

    Attributes:
        tiers: m, number of tiers.
        policy: "adaptive" (Algorithm 2) or fixed chances; "random" and "fast1" to "fast3" are for five tiers.
        profile_rounds: how often the latency of a client is measured.
        latency_limit: T_max in seconds, where a latency is cut; who always reaches it is left out. None for no limit.
        reprofile: rounds after which all clients are profiled anew; None for never.
        interval: I, rounds between two looks at the accuracy of the tiers.
        credits: how many rounds each tier may be used; None for an equal share, where the number of rounds is known.
        ranks: chances by rank that are all "positive", or as "printed", with 0 for the tier of the best accuracy.
    """

    tiers: Annotated[int, Field(ge=1)] = 5
    policy: Literal["adaptive", "uniform", "random", "fast", "slow", "fast1", "fast2", "fast3"] = "adaptive"
    profile_rounds: Annotated[int, Field(ge=1)] = 1
    latency_limit: Annotated[float, Field(gt=0)] | None = None
    reprofile: Annotated[int, Field(ge=1)] | None = None
    interval: Annotated[int, Field(ge=1)] = 10
    credits: Annotated[int, Field(ge=1)] | None = None
    ranks: Literal["positive", "printed"] = "positive"

    memory = Memory
    counts_rounds = True
    cite = """@inproceedings{chai2020tifl,
  title = {{TiFL}: A Tier-based Federated Learning System},
  author = {Chai, Zheng and Ali, Ahsan and Zawad, Syed and Truex, Stacey and Anwar, Ali and Baracaldo, Nathalie and
            Zhou, Yi and Ludwig, Heiko and Yan, Feng and Cheng, Yue},
  booktitle = {International Symposium on High-Performance Parallel and Distributed Computing (HPDC)},
  pages = {125--136}, year = {2020}
}"""

    @property
    def needs(self) -> Needs:
        """Sizes; how long each client takes to train; accuracies, where chances adapt."""
        return Needs(reads=("sizes",), asks=(DURATION, ACCURACY) if self.policy == "adaptive" else (DURATION,))

    def init(self, n_clients: int, rng: np.random.Generator) -> Memory:
        """The chances of the policy; nobody is profiled."""
        if self.policy in POLICIES and self.tiers != 5:
            raise bad("TiFL.tiers", f"5 where policy = {self.policy!r}", self.tiers)
        state = Memory(n_clients)
        even, first = np.full(self.tiers, 1.0 / self.tiers), np.eye(self.tiers)[0]
        state.chance = np.asarray(
            POLICIES.get(self.policy, {"fast": first, "slow": first[::-1]}.get(self.policy, even))
        )
        return state

    def select(self, state: Memory, round: Round) -> Asking:
        """Profile who is new, look at the tiers, draw one, draw its members."""
        yield from self._profile(state, round)
        tier_of = self._tiers(state)
        ids, own = round.available, tier_of[round.available]
        if state.credits is None:
            state.credits = self._credits(round)
        if self.policy == "adaptive" and (state.looked < 0 or round.index - state.looked >= self.interval):
            self._adapt(state, round, tier_of, (yield Measure(ACCURACY, ids[own >= 0])))
        there = np.bincount(own[own >= 0], minlength=self.tiers) > 0
        if not there.any():
            return Cohort.by_size(uniformly(ids, round.budget, round.rng), round.population.sizes, notes={"tier": None})
        state.tier = self._draw(state, there, round)
        chosen = np.sort(uniformly(ids[own == state.tier], round.budget, round.rng))
        notes = {"tier": state.tier, "chances": np.round(state.chance, 6).tolist()}
        return Cohort.by_size(chosen, round.population.sizes, notes=notes)

    def _profile(self, state: Memory, round: Round) -> Generator[Measure, Reading, None]:
        """RT_i of the available clients that were not measured often enough."""
        if self.reprofile is not None and round.index and round.index % self.reprofile == 0:
            state.total[:], state.profiles[:] = 0.0, 0
        new = round.available[state.profiles[round.available] < self.profile_rounds]
        if not new.size:
            return
        took = yield Measure(DURATION, new)
        limit = math.inf if self.latency_limit is None else self.latency_limit
        if len(took):
            state.total[took.ids] += np.minimum(took.values, limit)
            state.profiles[took.ids] += 1
        if self.latency_limit is not None:
            silent = np.setdiff1d(new, took.ids)
            state.total[silent] += limit
            state.profiles[silent] += 1

    def _tiers(self, state: Memory) -> Ids:
        """(N,) the tier of each client, 0 the fastest; −1 for who is not profiled or always too slow."""
        done = state.profiles >= self.profile_rounds
        if self.latency_limit is not None:
            done &= rounded(state.total) < rounded(state.profiles * self.latency_limit)
        ids, tier_of = np.flatnonzero(done), np.full(state.n_clients, -1)
        ranked = ids[np.argsort(rounded(state.total[ids] / state.profiles[ids]), kind="stable")]
        tier_of[ranked] = np.arange(ids.size) * self.tiers // max(ids.size, 1)
        return tier_of

    def _credits(self, round: Round) -> Floats:
        """Credits of each tier before the first round; fixed chances have no limit."""
        if self.policy != "adaptive" or (self.credits is None and round.horizon is None):
            return np.full(self.tiers, math.inf)
        return np.full(self.tiers, float(self.credits or math.ceil((round.horizon or 1) / self.tiers)))

    def _adapt(self, state: Memory, round: Round, tier_of: Ids, reading: Reading) -> None:
        """Algorithm 2: other chances where the current tier has not become better since the last look."""
        before = np.zeros(self.tiers) if state.accuracy is None else state.accuracy
        now = self._accuracies(before, round, tier_of, reading)
        if state.tier >= 0 and rounded(now)[state.tier] <= rounded(before)[state.tier]:
            state.chance = chances(now, state.credits > 0, self.ranks)
        state.accuracy, state.looked = now, round.index

    def _accuracies(self, before: Floats, round: Round, tier_of: Ids, reading: Reading) -> Floats:
        """A_t: the mean over the members that answered, by size; of a tier that is silent the last one."""
        if not len(reading):
            return before.copy()
        sizes = np.asarray(round.population.sizes[reading.ids], np.float64)
        at = tier_of[reading.ids]
        mass = np.bincount(at, weights=sizes, minlength=self.tiers)
        right = np.bincount(at, weights=sizes * reading.values, minlength=self.tiers)
        return np.divide(right, mass, out=before.copy(), where=mass > 0)

    def _draw(self, state: Memory, there: Array, round: Round) -> int:
        """A tier with credits and members at hand, by chance; it pays a credit."""
        if not (there & (state.credits > 0)).any():
            state.credits = self._credits(round)
        weight = np.where(there & (state.credits > 0), state.chance, 0.0)
        if weight.sum() <= 0:
            weight = (there & (state.credits > 0)).astype(np.float64)
        tier = int(with_replacement(np.arange(self.tiers), weight, 1, round.rng)[0])
        state.credits[tier] -= 1
        return tier

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """The default, one in which everything acts early, and fixed chances."""
        early = {"tiers": 3, "interval": 1, "credits": 2, "profile_rounds": 2, "latency_limit": 1.5, "ranks": "printed"}
        return [{}, early, {"policy": "random", "reprofile": 3}]


def chances(accuracy: Floats, open_tiers: Array, ranks: str) -> Floats:
    """ChangeProbs: the lower the accuracy of a tier with credits, the larger its chance."""
    ids = np.flatnonzero(open_tiers)
    worst_first, n = ids[np.argsort(rounded(accuracy[ids]), kind="stable")], ids.size
    found = np.zeros(accuracy.size)
    if ranks == "printed" and n > 1:
        found[worst_first] = (n - 1 - np.arange(n)) / (n * (n - 1) / 2)
    else:
        found[worst_first] = (n - np.arange(n)) / max(n * (n + 1) / 2, 1)
    return found

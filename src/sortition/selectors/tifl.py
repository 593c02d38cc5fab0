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
| ChangeProbs: P_t = (n − i) / (n(n − 1)/2), i the rank by accuracy from 1 | ``ranks="printed"`` |
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
from sortition.core.sampling import draw_uniformly, draw_with_replacement
from sortition.core.selector import Asking, Conditions
from sortition.core.ties import round_to_tie_grid

POLICIES = {  # chances of five tiers, from fast to slow
    "random": (0.7, 0.1, 0.1, 0.05, 0.05),
    "fast1": (0.225, 0.225, 0.225, 0.225, 0.1),
    "fast2": (0.2375, 0.2375, 0.2375, 0.2375, 0.05),
    "fast3": (0.25, 0.25, 0.25, 0.25, 0.0),
}


@dataclass
class Memory(State):
    """The profile of each client; of each tier its chance, its credits and its last accuracy."""

    total: Floats = per_client(0.0)  # RT_i, in seconds
    profiles: Ids = per_client(0, dtype=int)  # how often the latency was measured
    chance: Array = shared()  # (m,) P
    credits: Array = shared()  # (m,) Credits; infinite without a limit
    accuracy: Array = shared()  # (m,) A, when it was measured last
    tier: int = shared(-1)  # the tier that was drawn last
    looked: int = shared(-1)  # the round in which accuracies were asked last


@method
class TiFL(Selector[Memory]):
    """Draws one tier of clients of similar speed a round; tiers on which the model is bad more often, within credits.

    Attributes:
        tiers: m, number of tiers.
        policy: "adaptive" (Algorithm 2) or fixed chances; "random" and "fast1" to "fast3" are for five tiers.
        profile_rounds: how often the latency of a client is measured.
        latency_limit: T_max in seconds, where a latency is cut; who always reaches it is left out. None for the
            server's deadline, where it has one.
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
        """Read the sizes; ask how long clients take to train and, where chances adapt, how accurate the model is."""
        if self.policy == "adaptive":
            return Needs(reads=("sizes",), asks=(DURATION, ACCURACY))
        return Needs(reads=("sizes",), asks=(DURATION,))

    def init(self, n_clients: int, rng: np.random.Generator) -> Memory:
        """Start with the chances of the policy; nobody is profiled."""
        if self.policy in POLICIES and self.tiers != 5:
            raise bad("TiFL.tiers", f"5 where policy = {self.policy!r}", self.tiers)
        state = Memory(n_clients)
        state.chance = self._first_chances()
        return state

    def _first_chances(self) -> Floats:
        """Return P (m,) before the first round."""
        if self.policy in POLICIES:
            return np.asarray(POLICIES[self.policy])
        if self.policy == "fast":
            return np.asarray(np.eye(self.tiers)[0])
        if self.policy == "slow":
            return np.asarray(np.eye(self.tiers)[-1])
        return np.full(self.tiers, 1.0 / self.tiers)

    def select(self, state: Memory, round: Round) -> Asking:
        """Profile newcomers, look at the tiers, draw one, and draw its members."""
        limit = self.latency_limit or round.deadline
        yield from self._profile(state, round, limit)
        ids = round.available
        tier_of = self._tiers(state, limit)
        tiers = tier_of[ids]
        if state.credits is None:
            state.credits = self._full_credits(round)
        if self.policy == "adaptive" and (state.looked < 0 or round.index - state.looked >= self.interval):
            accuracies = yield Measure(ACCURACY, ids[tiers >= 0])
            self._adapt(state, round, tier_of, accuracies)
        has_members = np.bincount(tiers[tiers >= 0], minlength=self.tiers) > 0
        if not has_members.any():
            chosen = draw_uniformly(ids, round.budget, round.rng)
            return Cohort.by_size(chosen, round.population.sizes, notes={"tier": None})
        state.tier = self._draw_tier(state, has_members, round)
        chosen = np.sort(draw_uniformly(ids[tiers == state.tier], round.budget, round.rng))
        notes = {"tier": state.tier, "chances": np.round(state.chance, 6).tolist()}
        if self.latency_limit is None and round.deadline is not None:
            notes["latency_limit"] = round.deadline
        return Cohort.by_size(chosen, round.population.sizes, notes=notes)

    def remarks(self, conditions: Conditions) -> tuple[str, ...]:
        """Say where tiers are cut at the server's deadline, and where they mean nothing."""
        sentences = []
        if self.latency_limit is None and conditions.deadline is not None:
            sentences.append(
                f"TiFL leaves out who trains longer than the server's deadline, {conditions.deadline:g} s."
            )
        if self.latency_limit is None and conditions.deadline_follows:
            sentences.append(
                "TiFL leaves out who trains longer than the server's deadline, which follows the trainings."
            )
        if conditions.devices_differ is False:
            sentences.append("TiFL's tiers are of data sizes alone here: all devices are equally fast.")
        return tuple(sentences)

    def _profile(self, state: Memory, round: Round, latency_limit: float | None) -> Generator[Measure, Reading, None]:
        """Add to RT_i of the available clients that were not measured often enough."""
        if self.reprofile is not None and round.index and round.index % self.reprofile == 0:
            state.total[:] = 0.0
            state.profiles[:] = 0
        unprofiled = round.available[state.profiles[round.available] < self.profile_rounds]
        if not unprofiled.size:
            return
        latencies = yield Measure(DURATION, unprofiled)
        limit = math.inf if latency_limit is None else latency_limit
        if len(latencies):
            state.total[latencies.ids] += np.minimum(latencies.values, limit)
            state.profiles[latencies.ids] += 1
        if latency_limit is not None:
            silent = np.setdiff1d(unprofiled, latencies.ids)
            state.total[silent] += limit
            state.profiles[silent] += 1

    def _tiers(self, state: Memory, latency_limit: float | None) -> Ids:
        """Return the tier of each client (N,), 0 the fastest; −1 of clients not profiled or always too slow."""
        profiled = state.profiles >= self.profile_rounds
        if latency_limit is not None:
            profiled &= round_to_tie_grid(state.total) < round_to_tie_grid(state.profiles * latency_limit)
        ids = np.flatnonzero(profiled)
        fastest_first = ids[np.argsort(round_to_tie_grid(state.total[ids] / state.profiles[ids]), kind="stable")]
        tier_of = np.full(state.n_clients, -1)
        tier_of[fastest_first] = np.arange(ids.size) * self.tiers // max(ids.size, 1)
        return tier_of

    def _full_credits(self, round: Round) -> Floats:
        """Return the credits of each tier before the first round (m,); fixed chances have no limit."""
        if self.policy != "adaptive":
            return np.full(self.tiers, math.inf)
        if self.credits is not None:
            return np.full(self.tiers, float(self.credits))
        if round.horizon is None:
            return np.full(self.tiers, math.inf)
        return np.full(self.tiers, float(math.ceil(round.horizon / self.tiers)))

    def _adapt(self, state: Memory, round: Round, tier_of: Ids, reading: Reading) -> None:
        """Change the chances where the current tier has not become better since the last look (Algorithm 2)."""
        previous = np.zeros(self.tiers) if state.accuracy is None else state.accuracy
        current = self._accuracies(previous, round, tier_of, reading)
        if state.tier >= 0 and round_to_tie_grid(current)[state.tier] <= round_to_tie_grid(previous)[state.tier]:
            state.chance = adapt_chances(current, state.credits > 0, self.ranks)
        state.accuracy = current
        state.looked = round.index

    def _accuracies(self, previous: Floats, round: Round, tier_of: Ids, reading: Reading) -> Floats:
        """Return A_t (m,): the mean over the members that answered, by size; of a silent tier the previous one."""
        if not len(reading):
            return previous.copy()
        sizes = np.asarray(round.population.sizes[reading.ids], np.float64)
        tiers = tier_of[reading.ids]
        examples = np.bincount(tiers, weights=sizes, minlength=self.tiers)
        right = np.bincount(tiers, weights=sizes * reading.values, minlength=self.tiers)
        return np.divide(right, examples, out=previous.copy(), where=examples > 0)

    def _draw_tier(self, state: Memory, has_members: Array, round: Round) -> int:
        """Draw one of the tiers with credits and available members, by their chances; it pays a credit."""
        if not (has_members & (state.credits > 0)).any():
            state.credits = self._full_credits(round)
        usable = has_members & (state.credits > 0)
        weight = np.where(usable, state.chance, 0.0)
        if weight.sum() <= 0:
            weight = usable.astype(np.float64)
        tier = int(draw_with_replacement(np.arange(self.tiers), weight, 1, round.rng)[0])
        state.credits[tier] -= 1
        return tier

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover the default, one in which everything acts early, and fixed chances."""
        early = {"tiers": 3, "interval": 1, "credits": 2, "profile_rounds": 2, "latency_limit": 1.5, "ranks": "printed"}
        return [{}, early, {"policy": "random", "reprofile": 3}]


def adapt_chances(accuracy: Floats, open_tiers: Array, ranks: str) -> Floats:
    """Return P_t by ChangeProbs (m,): the lower the accuracy of a tier with credits, the larger its chance."""
    ids = np.flatnonzero(open_tiers)
    n = ids.size
    worst_first = ids[np.argsort(round_to_tie_grid(accuracy[ids]), kind="stable")]
    chance = np.zeros(accuracy.size)
    if ranks == "printed" and n > 1:
        chance[worst_first] = (n - 1 - np.arange(n)) / (n * (n - 1) / 2)
    else:
        chance[worst_first] = (n - np.arange(n)) / max(n * (n + 1) / 2, 1)
    return chance

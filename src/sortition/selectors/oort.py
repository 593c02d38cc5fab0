"""Oort: Lai et al. 2021, *Oort: efficient federated learning via guided participant selection*.

Clients whose samples have large losses teach more, and clients that are slow delay everybody. Oort takes the clients
with the largest product of both, and a shrinking share of clients that it has never tried.

| paper | here |
|---|---|
| U(i) = abs(B_i) √(1/abs(B_i) Σ_k Loss(k)²), eq. 1, first factor | size times the report ``RMS_LOSSES[utility]`` |
| clipped at the 95th percentile | ``clip`` |
| + √(0.1 ln R / L(i)), L(i) the round in which i took part last | ``staleness``; R = t = index + 1 |
| · (T/t_i)^{α 1[T < t_i]}, eq. 1, second factor | ``alpha``, the report ``DURATION`` |
| pacer: T ← T + Δ if ΣU(R−2W…R−W) > ΣU(R−W…R) | ``pacer_step``, ``window``, ``_pace`` |
| ε: 0.9, times 0.98 a round, at least 0.2 | ``exploration``, ``decay``, ``least_exploration`` |
| (1−ε)K from {i: Util(i) ≥ c · Util of rank (1−ε)K}, in proportion to Util | ``cutoff``, :func:`exploit` |
| εK from those who were never tried, by speed | the optional fact ``speed``; without it uniformly |
| clients that were picked more than 10 times are left out | ``most_picks`` |
| (1−f) Util(i) + f fairness(i) | ``fairness``; (largest number of picks − own) / largest |

Over-commitment (1.3 K are invited, the first K count) belongs to the driver: ``overselect``.

Deviations: as in the released code, clipped utilities are scaled to [0, 1] over the tried clients at hand before the
bonus is added (``normalise``; as printed, a bonus of less than 1 has no effect on utilities in the hundreds); here the
largest is the clipped one, and clients that were never tried do not enter. Of all clients at most 30 % are left out for
having been picked often, those with most picks, as the released code means to; the removal is against outliers, so
places that would stay empty go to the removed clients who are available, the least often picked first. Without
``pacer_step`` T is the duration that covers the fastest W · K clients of those whose duration is known, and a step of
the pacer adds as many. A client whose duration is not known counts as fast enough. Where too few were tried, more are
explored, and vice versa. A client that was picked and has never answered counts as tried, with U(i) = 0 and at least
the duration of the slowest answer of its round, until it answers. The paper does not say; the released code counts it
as tried, too, with the mean utility of the round and its true duration, which only a simulator knows.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import (
    DURATION,
    RMS_LOSSES,
    Cohort,
    Feedback,
    Needs,
    Round,
    Selector,
    State,
    method,
    per_client,
    shared,
)
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.sampling import draw_weighted, take_largest, take_largest_unsorted
from sortition.core.selector import Conditions
from sortition.core.ties import round_to_tie_grid

LARGEST_LEFT_OUT = 0.3  # of all clients, at most, are left out for having been picked often
SMALLEST_RANGE = 1e-4  # utilities that differ by less are not stretched to [0, 1]


@dataclass
class Memory(State):
    """What each client's participations taught, and the utility of past cohorts for the pacer."""

    utility: Floats = per_client(np.nan)  # U(i); NaN: never picked
    duration: Floats = per_client(np.nan)  # t_i in seconds; NaN: not known
    last_participation: Ids = per_client(0, dtype=int)  # L(i), from 1
    picks: Ids = per_client(0, dtype=int)
    utility_history: Array = shared()  # ΣU of the last 2 W rounds, the newest last
    steps: int = shared(0)  # of the pacer


@method
class Oort(Selector[Memory]):
    """Chooses clients with large losses that answer fast, and a shrinking share of clients that were never tried.

    Attributes:
        utility: losses of "all" mini-batches of a training, of the "first" epoch's, or of the "last" mini-batch.
        exploration: ε, the share of untried clients in the first round.
        decay: factor on ε in every round.
        least_exploration: the smallest ε.
        cutoff: c, share of the utility at rank (1−ε)K that lets a client into the draw.
        clip: the quantile at which utilities are clipped.
        alpha: α, exponent of the penalty of slow clients; 0 for none.
        staleness: factor in the bonus of clients that took part long ago.
        pacer_step: Δ in seconds; None for the duration of the next W · K clients.
        window: W, rounds that the pacer compares.
        most_picks: a client that was picked more often is left out while others fill the places; None for no limit.
        fairness: f, weight of having been picked seldom against utility.
        normalise: whether utilities are scaled to [0, 1] before the bonus (released code) or not (as printed).
        speed: whether untried clients are drawn by the fact ``speed``; None where all known clients give it.
    """

    utility: Literal["all", "first", "last"] = "all"
    exploration: Annotated[float, Field(ge=0, le=1)] = 0.9
    decay: Annotated[float, Field(gt=0, le=1)] = 0.98
    least_exploration: Annotated[float, Field(ge=0, le=1)] = 0.2
    cutoff: Annotated[float, Field(ge=0, le=1)] = 0.95
    clip: Annotated[float, Field(ge=0, le=1)] = 0.95
    alpha: Annotated[float, Field(ge=0)] = 2.0
    staleness: Annotated[float, Field(ge=0)] = 0.1
    pacer_step: Annotated[float, Field(gt=0)] | None = None
    window: Annotated[int, Field(ge=1)] = 20
    most_picks: Annotated[int, Field(ge=1)] | None = 10
    fairness: Annotated[float, Field(ge=0, le=1)] = 0.0
    normalise: bool = True
    speed: bool | None = None

    memory = Memory
    counts_rounds = True
    cite = """@inproceedings{lai2021oort,
  title = {Oort: Efficient Federated Learning via Guided Participant Selection},
  author = {Lai, Fan and Zhu, Xiangfeng and Madhyastha, Harsha V. and Chowdhury, Mosharaf},
  booktitle = {USENIX Symposium on Operating Systems Design and Implementation (OSDI)}, pages = {19--35}, year = {2021}
}"""

    @property
    def needs(self) -> Needs:
        """Read sizes, and speeds where they are known; take one number of the cohort's losses and its durations."""
        reports = (RMS_LOSSES[self.utility], DURATION)
        if self.speed is None:
            return Needs(reads=("sizes",), reports=reports, optional=("speed",))
        if self.speed:
            return Needs(reads=("sizes", "speed"), reports=reports)
        return Needs(reads=("sizes",), reports=reports)

    def remarks(self, conditions: Conditions) -> tuple[str, ...]:
        """Say where durations differ by the clients' sizes alone."""
        if conditions.devices_differ is False and self.alpha:
            return ("Oort's preference for fast clients sees data sizes alone here: all devices are equally fast.",)
        return ()

    def resolve(self, facts: Collection[str]) -> Oort:
        """Settle whether speeds are used, by whether they are among the facts."""
        if self.speed is not None:
            return self
        return replace(self, speed="speed" in facts)

    def select(self, state: Memory, round: Round) -> Cohort:
        """Exploit, then explore; places that are left go to clients that were picked too often."""
        ids = round.available
        t = round.index + 1
        was_tried = ~np.isnan(state.utility[ids])
        tried_ids = ids[was_tried]
        untried_ids = ids[~was_tried]
        too_often = self._picked_too_often(state)[tried_ids]
        candidates = tried_ids[~too_often]
        overused = tried_ids[too_often]
        n_explore = min(math.floor(self._epsilon(t) * round.places + 0.5), untried_ids.size)
        n_exploit = min(round.places - n_explore, candidates.size)
        T = self._preferred_duration(state, round.budget)
        exploited, pool_size = exploit(
            ids=candidates,
            scores=self._scores(state, candidates, T, t),
            k=n_exploit,
            cutoff=self.cutoff,
            rng=round.rng,
        )
        explored = self._explore(untried_ids, min(round.places - n_exploit, untried_ids.size), round)
        readmitted = take_largest(overused, -state.picks[overused], round.places - exploited.size - explored.size)
        notes: dict[str, int | float] = {
            "exploited": int(exploited.size),
            "explored": int(explored.size),
            "pool": pool_size,
        }
        if readmitted.size:
            notes["readmitted"] = int(readmitted.size)
        if math.isfinite(T):
            notes["preferred_duration"] = T
        return Cohort.uniform(np.concatenate([exploited, explored, readmitted]), notes=notes)

    def _explore(self, untried: Ids, k: int, round: Round) -> Ids:
        """Draw k clients that were never tried, by speed where it is known."""
        weight = np.ones(untried.size)
        if self.speed:
            weight = np.asarray(round.population.speed[untried], np.float64)
        return draw_weighted(untried, np.maximum(weight, 0.0), k, round.rng)

    def _epsilon(self, t: int) -> float:
        """Return ε of round t, from 1."""
        smallest = min(self.least_exploration, self.exploration)
        return max(self.exploration * self.decay ** (t - 1), smallest)

    def _picked_too_often(self, state: Memory) -> Array:
        """Return a mask (N,) of clients that were picked too often: at most 30 % of all, those with most picks."""
        mask = np.zeros(state.n_clients, bool)
        if self.most_picks is not None:
            often = np.flatnonzero(state.picks > self.most_picks)
            mask[take_largest_unsorted(often, state.picks[often], int(LARGEST_LEFT_OUT * state.n_clients))] = True
        return mask

    def _preferred_duration(self, state: Memory, budget: int) -> float:
        """Return T in seconds; infinite where no duration is known."""
        durations = state.duration[~np.isnan(state.duration)]
        if durations.size == 0:
            return math.inf
        if self.pacer_step is not None:
            return self.pacer_step * (1 + state.steps)
        rank = min(self.window * budget * (1 + state.steps), durations.size)
        return float(np.partition(durations, rank - 1)[rank - 1])

    def _scores(self, state: Memory, ids: Ids, T: float, t: int) -> Floats:
        """Return Util(i) of clients that were tried (n,), with the preferred duration T in round t."""
        if ids.size == 0:
            return np.empty(0)
        utility = np.minimum(state.utility[ids], np.quantile(state.utility[ids], self.clip))
        if self.normalise:
            smallest = 0.999 * utility.min()
            utility = (utility - smallest) / max(utility.max() - smallest, SMALLEST_RANGE)
        score = utility + np.sqrt(self.staleness * math.log(t) / np.maximum(state.last_participation[ids], 1))
        slow = state.duration[ids] > T
        score[slow] *= (T / state.duration[ids][slow]) ** self.alpha
        if self.fairness:
            most_picks = max(int(state.picks.max()), 1)
            score = (1 - self.fairness) * score + self.fairness * (most_picks - state.picks[ids]) / most_picks
        return np.asarray(score)

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Remember picks, durations and utilities, and tell the pacer what utility the cohort achieved."""
        state.picks[feedback.cohort.ids] += 1
        state.last_participation[feedback.ids] = feedback.round.index + 1
        durations = feedback.report(DURATION)
        durations.scatter(state.duration)
        losses = feedback.report(RMS_LOSSES[self.utility])
        sizes = np.asarray(feedback.round.population.sizes[losses.ids], np.float64)
        utilities = sizes * losses.values
        state.utility[losses.ids] = utilities
        silent = np.setdiff1d(feedback.cohort.ids, losses.ids)
        never_answered = silent[np.isnan(state.utility[silent])]
        self._count_as_tried(state, never_answered, durations.values, feedback.round)
        self._pace(state, float(utilities.sum()))

    @staticmethod
    def _count_as_tried(state: Memory, ids: Ids, answer_durations: Floats, round: Round) -> None:
        """Count clients that were picked and have never answered as tried: they taught nothing, U(i) = 0.

        They took longer than the slowest answer of the round or, where there is none, than its deadline.
        """
        state.utility[ids] = 0.0
        state.last_participation[ids] = round.index + 1
        if answer_durations.size:
            state.duration[ids] = answer_durations.max()
        elif round.deadline is not None:
            state.duration[ids] = round.deadline

    def _pace(self, state: Memory, round_utility: float) -> None:
        """Let T grow where the utility of the last W rounds is below that of the W rounds before."""
        history = np.empty(0) if state.utility_history is None else state.utility_history
        history = np.append(history, round_utility)[-2 * self.window :]
        state.utility_history = history
        if history.size == 2 * self.window:
            earlier = np.asarray(history[: self.window].sum())
            recent = np.asarray(history[self.window :].sum())
            state.steps += bool(round_to_tie_grid(earlier) > round_to_tie_grid(recent))

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover the paper's defaults, and a run in which everything acts early."""
        early = {"utility": "last", "exploration": 0.4, "pacer_step": 0.7, "window": 1, "most_picks": 2}
        return [{}, early, {"utility": "first", "decay": 0.5, "fairness": 0.5, "normalise": False, "speed": False}]


def exploit(ids: Ids, scores: Floats, k: int, cutoff: float, rng: np.random.Generator) -> tuple[Ids, int]:
    """Draw k of the ids that reach the share ``cutoff`` of the k-th score, by score; return how many reach it, too."""
    if k == 0:
        return ids[:0], 0
    rank = scores.size - k
    kth_score = np.partition(scores, rank)[rank : rank + 1]
    threshold = round_to_tie_grid(cutoff * kth_score)[0]
    reaches = round_to_tie_grid(scores) >= threshold
    return draw_weighted(ids[reaches], scores[reaches], k, rng), int(reaches.sum())

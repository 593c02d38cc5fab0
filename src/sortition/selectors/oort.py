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
| (1−ε)K from {i: Util(i) ≥ c · Util of rank (1−ε)K}, in proportion to Util | ``cutoff``, ``exploited`` |
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
explored, and vice versa.
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
from sortition.core.sampling import leading, top, weighted
from sortition.core.ties import rounded

LEFT_OUT = 0.3  # of all clients, at most, for having been picked often
RANGE = 1e-4  # of utilities, at least


@dataclass
class Memory(State):
    """What each client's participations taught, and the utility of past cohorts for the pacer."""

    utility: Floats = per_client(np.nan)  # U(i); NaN: never tried
    duration: Floats = per_client(np.nan)
    last: Ids = per_client(0, dtype=int)  # L(i), from 1
    picks: Ids = per_client(0, dtype=int)
    achieved: Array = shared()  # ΣU of the last 2 W rounds, the newest last
    steps: int = shared(0)  # of the pacer


@method
class Oort(Selector[Memory]):
    """Clients with large losses that answer fast, and a shrinking share of clients that were never tried.

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
        """Sizes; of the cohort one number of its losses and how long it took; speeds, where they are known."""
        reads, reports = ("sizes", "speed") if self.speed else ("sizes",), (RMS_LOSSES[self.utility], DURATION)
        return Needs(reads=reads, reports=reports, optional=("speed",) if self.speed is None else ())

    def resolved(self, facts: Collection[str]) -> Oort:
        """With or without speeds."""
        return self if self.speed is not None else replace(self, speed="speed" in facts)

    def select(self, state: Memory, round: Round) -> Cohort:
        """Exploit, then explore; places that are left go to those who were picked often."""
        ids, t = round.available, round.index + 1
        tried = ~np.isnan(state.utility[ids])
        known, new = ids[tried], ids[~tried]
        often = self._left_out(state)[known]
        known, spare = known[~often], known[often]
        explore = min(math.floor(self._epsilon(t) * round.places + 0.5), new.size)
        exploit = min(round.places - explore, known.size)
        limit = self._preferred_duration(state, round.budget)
        chosen, pool = exploited(known, self._scores(state, known, limit, t), exploit, self.cutoff, round.rng)
        weight = np.asarray(round.population.speed[new], np.float64) if self.speed else np.ones(new.size)
        drawn = weighted(new, np.maximum(weight, 0.0), min(round.places - exploit, new.size), round.rng)
        back = top(spare, -state.picks[spare], round.places - chosen.size - drawn.size)
        notes: dict[str, Any] = {"exploited": int(chosen.size), "explored": int(drawn.size), "pool": pool}
        if back.size:
            notes["readmitted"] = int(back.size)
        if math.isfinite(limit):
            notes["preferred_duration"] = limit
        return Cohort.uniform(np.concatenate([chosen, drawn, back]), notes=notes)

    def _epsilon(self, t: int) -> float:
        """ε of round t, from 1."""
        return max(self.exploration * self.decay ** (t - 1), min(self.least_exploration, self.exploration))

    def _left_out(self, state: Memory) -> Array:
        """Mask (N,) of those who were picked too often: at most 30 % of all, those with most picks."""
        mask = np.zeros(state.n_clients, bool)
        if self.most_picks is not None:
            often = np.flatnonzero(state.picks > self.most_picks)
            mask[leading(often, state.picks[often], int(LEFT_OUT * state.n_clients))] = True
        return mask

    def _preferred_duration(self, state: Memory, budget: int) -> float:
        """T; infinite where no duration is known."""
        known = state.duration[~np.isnan(state.duration)]
        if known.size == 0:
            return math.inf
        if self.pacer_step is not None:
            return self.pacer_step * (1 + state.steps)
        rank = min(self.window * budget * (1 + state.steps), known.size)
        return float(np.partition(known, rank - 1)[rank - 1])

    def _scores(self, state: Memory, ids: Ids, limit: float, t: int) -> Floats:
        """Util(i) of clients that were tried."""
        if ids.size == 0:
            return np.empty(0)
        clipped = np.minimum(state.utility[ids], np.quantile(state.utility[ids], self.clip))
        if self.normalise:
            least = 0.999 * clipped.min()
            clipped = (clipped - least) / max(clipped.max() - least, RANGE)
        score = clipped + np.sqrt(self.staleness * math.log(t) / np.maximum(state.last[ids], 1))
        slow = state.duration[ids] > limit
        score[slow] *= (limit / state.duration[ids][slow]) ** self.alpha
        if self.fairness:
            most = max(int(state.picks.max()), 1)
            score = (1 - self.fairness) * score + self.fairness * (most - state.picks[ids]) / most
        return np.asarray(score)

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Remember losses, durations and picks, and let the pacer look back."""
        state.picks[feedback.cohort.ids] += 1
        state.last[feedback.ids] = feedback.round.index + 1
        feedback.report(DURATION).scatter(state.duration)
        losses = feedback.report(RMS_LOSSES[self.utility])
        state.utility[losses.ids] = np.asarray(feedback.round.population.sizes[losses.ids], np.float64) * losses.values
        self._pace(state, float(state.utility[losses.ids].sum()))

    def _pace(self, state: Memory, achieved: float) -> None:
        """T grows where the utility of the last W rounds is below that of the W rounds before."""
        past = np.empty(0) if state.achieved is None else state.achieved
        state.achieved = np.append(past, achieved)[-2 * self.window :]
        if state.achieved.size == 2 * self.window:
            before, after = state.achieved[: self.window].sum(), state.achieved[self.window :].sum()
            state.steps += bool(rounded(np.asarray(before)) > rounded(np.asarray(after)))

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """The paper's defaults, and a run in which everything acts early."""
        early = {"utility": "last", "exploration": 0.4, "pacer_step": 0.7, "window": 1, "most_picks": 2}
        return [{}, early, {"utility": "first", "decay": 0.5, "fairness": 0.5, "normalise": False, "speed": False}]


def exploited(ids: Ids, scores: Floats, k: int, cutoff: float, rng: np.random.Generator) -> tuple[Ids, int]:
    """k of ``ids``, drawn by score from those that reach the share ``cutoff`` of the k-th score; and how many do."""
    if k == 0:
        return ids[:0], 0
    bar = rounded(cutoff * np.partition(scores, scores.size - k)[scores.size - k : scores.size - k + 1])[0]
    pool = rounded(scores) >= bar
    return weighted(ids[pool], scores[pool], k, rng), int(pool.sum())

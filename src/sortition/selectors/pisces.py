"""Pisces: Jiang et al. 2022, *Pisces: efficient federated learning via guided asynchronous training*.

Where steps overlap, a slow client costs no waiting, but its update is stale when it arrives. Pisces takes the clients
with large losses whose updates were fresh so far, and a shrinking share of clients that were never tried.

| paper and released code | here |
|---|---|
| U_i = abs(B_i) √(1/abs(B_i) Σ Loss(k)²), as Oort's | size times the report ``RMS_LOSSES[utility]`` |
| · 1 / (τ_i + 1)^β, τ_i the mean of the client's last 5 lags | ``beta``, ``lags``; a lag is ``feedback.staleness`` |
| explorers ~ Binomial(m, ε), of clients that were never tried, uniformly | ``select`` |
| ε: 0.9, times 0.98 a selection, at least 0.3 | ``exploration``, ``decay``, ``least_exploration`` |
| the others: the largest scores, ties shuffled | ``take_largest`` with the round's randomness |
| released: · latency^(−0.5 (1 − m / concurrency)) | ``speed_penalty``; 0, as in the paper |
| outliers of losses by DBSCAN (radius 0.5) over the last 5 versions lose a credit; barred after 5 | ``outliers`` |

When a step is made is the pace's matter: ``kind = "buffered"`` with ``buffer = "adaptive"`` is the paper's own rule
(elapsed time ≥ largest latency of those at work / concurrency).

Deviations: a client that was chosen and has never answered counts as tried, with utility 0; in the
released code it stays unexplored. Where only barred clients are left, places stay empty. Concurrency is the places to
fill plus the clients at work. Weights are by size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import RMS_LOSSES, Cohort, Feedback, Needs, Round, Selector, State, method, per_client
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.sampling import draw_uniformly, take_largest

RADIUS = 0.5  # of DBSCAN, in units of the loss
RECENT = 5  # versions whose losses are looked at together
NEVER = -(2**40)


@dataclass
class Memory(State):
    """What each client's participations taught."""

    utility: Floats = per_client(np.nan)  # U_i; NaN: never chosen
    lags: Floats = per_client(np.nan, width=0)  # (N, lags) staleness of the last updates, the newest first
    seconds: Floats = per_client(np.nan)  # of the last training
    loss: Floats = per_client(np.nan)  # the last report
    version: Ids = per_client(NEVER, dtype=int)  # of the model with which the last update was trained
    strikes: Ids = per_client(0, dtype=int)


@method
class Pisces(Selector[Memory]):
    """Chooses clients with large losses whose updates arrive fresh, and a shrinking share that was never tried.

    Attributes:
        utility: losses of "all" mini-batches of a training, of the "first" epoch's, or of the "last" mini-batch.
        beta: β, exponent of the discount of clients whose updates are stale; 0 for none.
        lags: how many of a client's last updates its expected staleness is the mean of.
        exploration: ε, the probability that a place of the first selection goes to an untried client.
        decay: factor on ε in every selection.
        least_exploration: the smallest ε.
        speed_penalty: exponent of the penalty of long trainings in the released code, 0.5; 0 as in the paper.
        outliers: whether clients whose losses DBSCAN calls outliers are barred after some strikes.
        most_strikes: how often a client may be an outlier before it is barred.
    """

    utility: Literal["all", "first", "last"] = "all"
    beta: Annotated[float, Field(ge=0)] = 0.5
    lags: Annotated[int, Field(ge=1, le=1000)] = 5
    exploration: Annotated[float, Field(ge=0, le=1)] = 0.9
    decay: Annotated[float, Field(gt=0, le=1)] = 0.98
    least_exploration: Annotated[float, Field(ge=0, le=1)] = 0.3
    speed_penalty: Annotated[float, Field(ge=0)] = 0.0
    outliers: bool = False
    most_strikes: Annotated[int, Field(ge=1)] = 5

    memory = Memory
    cite = """@inproceedings{jiang2022pisces,
  title = {Pisces: Efficient Federated Learning via Guided Asynchronous Training},
  author = {Jiang, Zhifeng and Wang, Wei and Li, Baochun and Li, Bo},
  booktitle = {ACM Symposium on Cloud Computing (SoCC)}, pages = {370--385}, year = {2022}
}"""

    @property
    def needs(self) -> Needs:
        """Read the sizes; take one number of the cohort's losses."""
        return Needs(reads=("sizes",), reports=(RMS_LOSSES[self.utility],))

    def select(self, state: Memory, round: Round) -> Cohort:
        """Draw how many places explore, fill the others by score, and let each side fill what the other cannot."""
        ids = round.available
        if self.outliers:
            ids = ids[state.strikes[ids] < self.most_strikes]
        was_tried = ~np.isnan(state.utility[ids])
        tried_ids = ids[was_tried]
        untried_ids = ids[~was_tried]
        m = min(round.budget, ids.size)
        n_explorers = min(int(round.rng.binomial(m, self._epsilon(round.index))), untried_ids.size)
        n_exploited = min(m - n_explorers, tried_ids.size)
        exploited = take_largest(tried_ids, self._scores(state, tried_ids, round), n_exploited, round.rng)
        explored = draw_uniformly(untried_ids, m - n_exploited, round.rng)
        notes = {"exploited": int(exploited.size), "explored": int(explored.size)}
        if ids.size < round.available.size:
            notes["barred"] = int(round.available.size - ids.size)
        return Cohort.by_size(np.concatenate([exploited, explored]), round.population.sizes, notes=notes)

    def _epsilon(self, selection: int) -> float:
        """Return ε of a selection, from 0."""
        return max(self.exploration * self.decay**selection, min(self.least_exploration, self.exploration))

    def _scores(self, state: Memory, ids: Ids, round: Round) -> Floats:
        """Return U_i / (τ_i + 1)^β of clients that were tried (n,)."""
        score = state.utility[ids] / (expected_lag(state.lags[ids]) + 1.0) ** self.beta
        if self.speed_penalty:
            concurrency = round.budget + round.in_flight.size
            exponent = self.speed_penalty * (1.0 - round.budget / concurrency)
            seconds = np.nan_to_num(state.seconds[ids], nan=1.0)
            score = score * np.maximum(seconds, np.finfo(float).tiny) ** -exponent
        return np.asarray(score)

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Remember losses, lags and durations; who was chosen and has never answered was tried."""
        silent = np.setdiff1d(feedback.cohort.ids, feedback.ids)
        state.utility[silent[np.isnan(state.utility[silent])]] = 0.0
        losses = feedback.report(RMS_LOSSES[self.utility])
        losses.scatter(state.loss)
        state.utility[losses.ids] = np.asarray(feedback.round.population.sizes[losses.ids], float) * losses.values
        if not state.lags.shape[1]:
            state.lags = np.full((state.n_clients, self.lags), np.nan)
        state.lags[feedback.ids, 1:] = state.lags[feedback.ids, :-1]
        state.lags[feedback.ids, 0] = feedback.staleness
        state.version[feedback.ids] = feedback.round.version - feedback.staleness
        has_duration = ~np.isnan(feedback.durations)
        state.seconds[feedback.ids[has_duration]] = feedback.durations[has_duration]
        if self.outliers:
            self._strike(state, feedback)

    def _strike(self, state: Memory, feedback: Feedback) -> None:
        """Give a strike to every client whose last loss is an outlier among those of the last versions."""
        round = feedback.round
        concurrency = round.budget + round.in_flight.size
        is_recent = (state.version > round.version - RECENT) & ~np.isnan(state.loss)
        ids = np.flatnonzero(is_recent)
        if ids.size >= concurrency:
            is_far = is_outlier(state.loss[ids], max(1, concurrency // 2))
            state.strikes[ids[is_far]] += 1

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover the default, and one in which everything acts early."""
        early = {"utility": "last", "exploration": 0.4, "decay": 0.5, "lags": 2, "outliers": True, "most_strikes": 2}
        return [{}, {**early, "speed_penalty": 0.5, "beta": 1.0}]


def expected_lag(lags: Floats) -> Floats:
    """Return the mean of each row (n,) over what is known; 0 where nothing is."""
    is_known = ~np.isnan(lags)
    total = np.where(is_known, lags, 0.0).sum(axis=1)
    return np.asarray(total / np.maximum(is_known.sum(axis=1), 1))


def is_outlier(losses: Floats, neighbours: int) -> Array:
    """Return a mask of the losses that DBSCAN puts in no cluster, with so many neighbours within 0.5, itself included.

    On a line, a point is in a cluster if it, or a point within the radius, has enough neighbours.
    """
    is_near = np.abs(losses[:, None] - losses[None, :]) <= RADIUS
    is_core = is_near.sum(axis=1) >= neighbours
    return np.asarray(~(is_near & is_core[None, :]).any(axis=1))

"""FedDance, after the selector ``feddance`` of flame (2026): availability, loss and progress in one product.

Clients that will probably be there in the next rounds, whose loss is large and whose accuracy still grows come first.
Clients that took part long ago have a small bonus.

| flame | here |
|---|---|
| U_m = V_m · I_m · A_m · (1 + log₁₀(R + 1) / (10 (1 + J_m))) | ``_utilities``; R = index + 1 |
| V_m = 1 − e^(−λ_m K), λ_m: share of the last K_h rounds in which m was there | ``window`` = K, ``history`` = K_h |
| I_m: mean loss of the last training | the report ``TRAINING_LOSS`` |
| A_m: slope of the accuracy over the last β participations, ≥ 10⁻⁶ | the report ``ACCURACY``, ``participations`` |
| J_m: the last round in which m took part; 0 for none | ``state.last_participation`` |
| clients without I or A: the mean of the round before; 1 at first | ``state.mean_loss``, ``state.mean_slope`` |
| the N largest U | ``take_largest``; ties by chance |

Deviations: λ_m is over the rounds since the client was first there, if these are fewer than K_h; flame divides by K_h,
so that nobody differs at first. A client that was never there before has λ = 0.5, as in flame. In place of an unknown
slope stands the mean slope of the last round that had one; flame takes the mean accuracy, which is far larger. I_m is
the loss, as flame's header says; its program takes Oort's utility. Clients at work are there. A client that was chosen
and did not answer took part. Weights are by size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from sortition.core import (
    ACCURACY,
    TRAINING_LOSS,
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
from sortition.core.arrays import Floats, Ids
from sortition.core.sampling import take_largest

SMALLEST_SLOPE = 1e-6
UNSEEN_RATE = 0.5  # λ of a client that was never there before
MOST_ROUNDS = 62  # of the history, which is kept as bits of a number


@dataclass
class Memory(State):
    """When each client was there and took part, and what its participations taught."""

    there: Ids = per_client(0, dtype=int)  # bit r: whether it was there r + 1 rounds ago
    rounds: Ids = per_client(0, dtype=int)  # since it was there first
    last_participation: Ids = per_client(0, dtype=int)  # J_m, from 1
    loss: Floats = per_client(np.nan)  # I_m
    accuracies: Floats = per_client(np.nan, width=0)  # (N, participations), the newest first
    mean_loss: float = shared(1.0)
    mean_slope: float = shared(1.0)


@method
class FedDance(Selector[Memory]):
    """Chooses by the product of expected availability, loss and growth of accuracy.

    Attributes:
        history: K_h, rounds over which availability is counted.
        window: K, rounds ahead in which a client should be there.
        participations: β, a client's last accuracies between whose ends the slope is taken.
        falling: what an accuracy that falls counts: "floor" (next to nothing) or "size" (as if it grew).
    """

    history: Annotated[int, Field(ge=1, le=MOST_ROUNDS)] = 50
    window: Annotated[int, Field(ge=1)] = 5
    participations: Annotated[int, Field(ge=2, le=1000)] = 5
    falling: Literal["floor", "size"] = "floor"

    memory = Memory
    counts_rounds = True
    cite = """@misc{flame2026feddance,
  title = {{FedDance} selector of flame},
  author = {{Cisco Systems, Inc.}}, howpublished = {cisco-open/flame, lib/python/flame/selector/feddance.py},
  year = {2026}
}"""

    @property
    def needs(self) -> Needs:
        """Read the sizes; take from the cohort its training loss and the accuracy of the model that it got."""
        return Needs(reads=("sizes",), reports=(TRAINING_LOSS, ACCURACY))

    def select(self, state: Memory, round: Round) -> Cohort:
        """Take the clients of the largest utilities, then note who was there."""
        ids = round.available
        utility = self._utilities(state, ids, round.index + 1)
        chosen = take_largest(ids, utility, round.budget, round.rng)
        self._check_in(state, np.union1d(ids, round.in_flight))
        return Cohort.by_size(chosen, round.population.sizes)

    def _utilities(self, state: Memory, ids: Ids, R: int) -> Floats:
        """Return U_m of these clients (n,) in round R."""
        V = 1.0 - np.exp(-self._rate(state, ids) * self.window)
        loss = np.where(np.isnan(state.loss[ids]), state.mean_loss, state.loss[ids])
        A = self._slopes(state, ids)
        A = np.where(np.isnan(A), state.mean_slope, A)
        bonus = 1.0 + math.log10(R + 1) / (10.0 * (1.0 + state.last_participation[ids]))
        return np.asarray(V * loss * A * bonus)

    def _rate(self, state: Memory, ids: Ids) -> Floats:
        """Return λ_m (n,): the share of its rounds in which a client was there."""
        counted = count_bits(state.there[ids])
        rounds = np.minimum(state.rounds[ids], self.history)
        return np.where(rounds > 0, counted / np.maximum(rounds, 1), UNSEEN_RATE)

    def _slopes(self, state: Memory, ids: Ids) -> Floats:
        """Return A_m (n,): the mean step between a client's last accuracies; NaN where there are fewer than two."""
        rows = state.accuracies[ids]
        counts = (~np.isnan(rows)).sum(axis=1)
        slopes = np.full(ids.size, np.nan)
        rows_with_two = np.flatnonzero(counts >= 2)
        if not rows_with_two.size:
            return slopes
        oldest = rows[rows_with_two, counts[rows_with_two] - 1]
        slopes[rows_with_two] = (rows[rows_with_two, 0] - oldest) / (counts[rows_with_two] - 1)
        if self.falling == "size":
            slopes = np.abs(slopes)
        return np.where(np.isnan(slopes), np.nan, np.maximum(slopes, SMALLEST_SLOPE))

    def _check_in(self, state: Memory, ids: Ids) -> None:
        """Note that a round has passed, and who was there."""
        is_there = np.zeros(state.n_clients, np.int64)
        is_there[ids] = 1
        state.rounds[(state.rounds > 0) | (is_there > 0)] += 1
        state.there = ((state.there << 1) | is_there) & ((1 << self.history) - 1)

    def observe(self, state: Memory, feedback: Feedback) -> None:
        """Remember losses, accuracies and who took part, and the means that stand for what is unknown."""
        state.last_participation[feedback.cohort.ids] = feedback.round.index + 1
        losses = feedback.report(TRAINING_LOSS)
        losses.scatter(state.loss)
        if len(losses):
            state.mean_loss = float(losses.values.mean())
        accuracies = feedback.report(ACCURACY)
        if not state.accuracies.shape[1]:
            state.accuracies = np.full((state.n_clients, self.participations), np.nan)
        state.accuracies[accuracies.ids, 1:] = state.accuracies[accuracies.ids, :-1]
        state.accuracies[accuracies.ids, 0] = accuracies.values
        slopes = self._slopes(state, accuracies.ids)
        if not np.isnan(slopes).all():
            state.mean_slope = float(np.nanmean(slopes))

    @classmethod
    def examples(cls) -> list[dict[str, Any]]:
        """Cover the default, and one with a short memory."""
        return [{}, {"history": 3, "window": 1, "participations": 2, "falling": "size"}]


def count_bits(numbers: Ids) -> Ids:
    """Return how many bits of each number are set (n,)."""
    octets = np.ascontiguousarray(numbers).view(np.uint8).reshape(numbers.size, 8)
    return np.asarray(np.unpackbits(octets, axis=1).sum(axis=1), np.int64)

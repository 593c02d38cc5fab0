"""What a strategy is given of a cohort's weights: ``num-examples``, or one model where those cannot say it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord

from sortition.aggregation import CombineRule
from sortition.clients.models import Model
from sortition.core.arrays import Floats, Ids
from sortition.core.errors import InputError
from sortition.core.rounds import Cohort
from sortition.flower.base_strategy import BaseStrategy
from sortition.flower.updates import moved

Combined = Callable[[Mapping[int, Model], Ids, Floats], Model]  # models by client, who answered, weights → a model
CLOSE = 1e-6  # how far a sum of weights may be from 1


def sums_to_one(cohort: Cohort) -> bool:
    """Whether a weighted mean says it all; a mass that is 1 only in expectation is kept as it is."""
    said = getattr(cohort, "mass", "one") == "one"
    return said and (not cohort.weights.size or abs(float(cohort.weights.sum()) - 1) <= CLOSE)


def check_mass(cohort: Cohort, base: BaseStrategy, rule: CombineRule, owner: str) -> None:
    """Refuse a cohort, before it trains, whose mass the rule or the strategy cannot keep: Flower rescales weights."""
    if cohort.ids.size:
        rule.check_mass(cohort.mass)
    if cohort.ids.size and not (sums_to_one(cohort) or base.kind.linear):
        raise InputError(
            f"{owner} weighs this cohort {float(cohort.weights.sum()):g} in all, and {type(base.strategy).__name__} "
            "rescales weights to 1. Use FedAvg, FedProx, FedAvgM, FedAdam, FedAdagrad or FedYogi with it."
        )


@dataclass
class Weighing:
    """Who answered, in the cohort's order, and what each weighs."""

    base: BaseStrategy
    done: Ids
    weights: Floats
    whole: bool  # the weights sum to 1, so that the strategy's own mean keeps them
    notes: dict[str, Any] = field(default_factory=dict)
    combined: Combined | None = None  # by a rule of ours, in place of a weighted sum
    errors: Sequence[Message] = ()  # of those who failed

    def aggregate(
        self, server_round: int, replies: Mapping[int, Message], model: Model, models: Mapping[int, Model]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The strategy's next model and metrics; None where nobody has a weight."""
        counts = {k: a for k, a in zip(self.done.tolist(), self.weights.tolist(), strict=True) if a > 0}
        if not counts:
            return None, None
        used = {client: replies[client] for client in counts}
        if self.combined is not None:
            return self.base.step(server_round, self.combined(models, self.done, self.weights), used, counts)
        if self.whole:
            return self.base.aggregate(server_round, used, counts, self.errors)
        ids = np.array(list(counts), np.int64)
        target = moved(model, models, ids, np.array(list(counts.values())))
        return self.base.step(server_round, target, used, counts)


def weigh(cohort: Cohort, done: Ids, base: BaseStrategy, errors: Sequence[Message] = ()) -> Weighing:
    """The weights of those who answered; equal ones where the strategy's noise counts on them."""
    weights, notes = cohort.weights_of(done)
    if base.kind.equal:
        if done.size < base.kind.equal:
            return Weighing(base, done[:0], weights[:0], True, {**notes, "too_few_for_noise": int(done.size)})
        return Weighing(base, done, np.full(done.size, 1 / max(done.size, 1)), True, notes)
    return Weighing(base, done, weights, sums_to_one(cohort), notes, errors=errors)

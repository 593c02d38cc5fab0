"""Updates combined by a rule of ours (robust, or with a memory) into one, from which the strategy makes its step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message

from sortition.aggregation import CombineRule, UpdateMemory
from sortition.clients.app_training import RATES
from sortition.clients.models import Model, as_vector, from_vector, shared_update
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import bad
from sortition.flower.updates import moved


@dataclass(frozen=True)
class CombineRound:
    """What a rule is given of a round: how many clients there are, their learning rate, and the mass of the weights."""

    clients: int
    rate: float
    mass: str


@dataclass
class Combining:
    """The rule, and what it remembers of earlier rounds."""

    rule: CombineRule
    memory: UpdateMemory | None = None

    @classmethod
    def by(cls, rule: CombineRule | str) -> Combining:
        """Of a rule, or of its name."""
        if not isinstance(rule, CombineRule | str):
            raise bad("SelectorStrategy.combine", "a rule's name or a CombineRule", rule)
        return cls(CombineRule(rule) if isinstance(rule, str) else rule)

    @property
    def own(self) -> bool:
        """Whether the strategy's own weighted mean is not what is wanted."""
        return self.rule.name != "mean"

    @property
    def identity(self) -> dict[str, Any]:
        """The rule's parameters, by which a checkpoint knows it."""
        return {f"combine.{name}": value for name, value in asdict(self.rule).items()}

    def check_memory(self, size: int, clients: int) -> None:
        """Refuse, before anybody trains, a federation whose updates the server may not keep."""
        self.rule.init(size, clients)

    def target(
        self, model: Model, about: CombineRound, models: Mapping[int, Model], done: Ids, weights: Floats
    ) -> Model:
        """w + the combined update, over the arrays that were sent; whole numbers are averaged."""
        sent = models[int(done[0])]
        before = {name: model.get(name, np.zeros_like(value)) for name, value in sent.items()}
        start = as_vector(before)
        updates = np.stack([shared_update(models[k], before) for k in done.tolist()])
        updates = updates.astype(np.result_type(updates, np.float32), copy=False)
        if self.memory is None or self.memory.total.size != start.size:
            self.memory = self.rule.init(start.size, about.clients)
        update, self.memory = self.rule.apply(
            done, weights, updates, self.memory, clients=about.clients, rate=about.rate, mass=about.mass
        )
        counters = {k: {n: v for n, v in models[k].items() if before[n].dtype.kind != "f"} for k in done.tolist()}
        return from_vector(start + update, before) | moved(model, counters, done, weights)

    def export(self) -> dict[str, Array]:
        """The memory as arrays, for a checkpoint."""
        return {} if self.memory is None else self.memory.export()

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take over what :meth:`export` gave."""
        if not arrays or not self.rule.remembers:
            return
        ids, rows, total = (arrays[name] for name in ("ids", "rows", "total"))
        if ids.dtype.kind != "i" or rows.shape != (ids.size, total.size) or ids.ndim != 1 or total.ndim != 1:
            raise ValueError(f"remembered updates of shape {rows.shape} for {ids.shape} clients")
        if not (np.isfinite(rows).all() and np.isfinite(total).all()):
            raise ValueError("remembered updates that are not finite")
        self.memory = UpdateMemory.restore(arrays)


def rate_of(sent: Mapping[int, Message], key: str) -> float:
    """The learning rate of this round's train config, where it says one; else 1, which keeps updates as they are."""
    config = next((message.content.get(key) for message in sent.values()), None)
    found = [config[name] for name in RATES if name in config] if isinstance(config, ConfigRecord) else []
    rate = found[0] if found else 1.0
    return float(rate) if isinstance(rate, int | float) and math.isfinite(rate) and rate > 0 else 1.0

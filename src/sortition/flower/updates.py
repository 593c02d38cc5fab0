"""Which of the models that clients sent can be used, and what they weigh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from flwr.app import ArrayRecord, RecordDict

from sortition.aggregation import weighted_sum
from sortition.clients.models import Model
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.guards.screening import norms
from sortition.core.guards.settings import Guards
from sortition.flower import wire

BLOCK = 1 << 15  # numbers that are compared at once: a block and its difference stay in the cache


@dataclass
class ModelCheck:
    """Holds what clients send to the model that they were sent, and to the guards.

    Clients may send some of the arrays only (personal layers stay at home), or others, if most replies of the first
    round agree on that; a reply that comes alone decides nothing. ``free_shapes`` is for models that are no vectors,
    such as trees; ``several`` for rules of one's own, whose replies may hold further ArrayRecords beside the model.
    """

    guards: Guards = field(default_factory=Guards)
    free_shapes: bool = False
    several: bool = False
    names: frozenset[str] | None = None

    def usable(
        self, contents: Mapping[int, RecordDict], model: Model, key: str = "arrays"
    ) -> tuple[dict[int, Model], dict[int, str]]:
        """The models that can be used, by client, and what is wrong with the others; ``key`` is the model's record."""
        records = {client: model_records(content) for client, content in contents.items()}
        sent = {
            client: wire.received_arrays(contents[client], key if self.several and key in names else names[0])
            for client, names in records.items()
            if len(names) == 1 or (self.several and key in names)
        }
        models, faults = self.judge(sent | {client: {} for client in records if client not in sent}, model)
        many = {client: names for client, names in records.items() if client not in sent and names}
        return models, faults | {k: f"{len(names)} ArrayRecords in place of one" for k, names in many.items()}

    def judge(self, sent: Mapping[int, Model], model: Model) -> tuple[dict[int, Model], dict[int, str]]:
        """The same of models that are read already."""
        if self.names is None and len(sent) > 1:
            self.names = usual_names(sent, model)
        faults = {client: fault for client, arrays in sent.items() if (fault := self._fault(arrays, model))}
        models = {client: arrays for client, arrays in sent.items() if client not in faults}
        for client, reason in self._too_far(models, model).items():
            faults[client] = not_finite(models.pop(client), model) or f"update: {reason}"
        return models, faults

    def _too_far(self, models: Mapping[int, Model], model: Model) -> dict[int, str]:
        """Whose update the guards refuse. Where norms and a few coordinates show that none is, no more is computed."""
        clients, start = sorted(models), length(model, model)
        most = np.array([length(models[client], model) + start for client in clients])  # ≥ ‖w_k − w‖
        least = np.array([distance(models[client], model, first_block=True) for client in clients])  # ≤ ‖w_k − w‖
        limit = min(self.guards.bound or np.inf, (self.guards.norm or np.inf) * _median(least))
        if (most <= limit).all():
            return {}
        far = np.array([distance(models[client], model) for client in clients])
        return {clients[at]: reason for at, reason in self.guards.absurd(far).items()}

    def _fault(self, arrays: Model, model: Model) -> str:
        if not arrays:
            return "no model"
        expected = self.names or frozenset(model)
        if expected and (strange := sorted(arrays.keys() ^ expected)):
            alone = "; alone, a reply must have the arrays that start() was given" if self.names is None else ""
            return f"arrays {strange[:3]} missing or unknown{alone}"
        for name, value in arrays.items():
            before = model.get(name, value)
            if value.dtype.kind not in "fiub":
                return f"{name} holds no numbers"
            if value.shape != before.shape and not self.free_shapes:
                return f"{name} of shape {value.shape} in place of {before.shape}"
            if before.dtype.kind != "f" and value.dtype.kind != before.dtype.kind:
                return f"{name} of type {value.dtype} in place of {before.dtype}"
            if value.dtype.itemsize > before.dtype.itemsize and not_finite({name: value}, model):
                return f"{name} is not finite"  # finite as it was sent, infinite as it is kept
        return ""


def model_records(content: RecordDict) -> list[str]:
    """The names of a reply's ArrayRecords, without ours."""
    return [name for name, record in content.items() if isinstance(record, ArrayRecord) and name != wire.ROWS]


def usual_names(sent: Mapping[int, Model], model: Model) -> frozenset[str] | None:
    """The names of the arrays that most replies have; those of the model where that is not decided."""
    counts = Counter(frozenset(arrays) for arrays in sent.values() if arrays)
    if not counts:
        return None
    names, count = counts.most_common(1)[0]
    return names if 2 * count > counts.total() else frozenset(model)


def not_finite(arrays: Model, model: Model) -> str:
    """The first array that is not finite in the type that it is kept in, in words; empty if there is none."""
    for name, value in arrays.items():
        kind = model.get(name, value).dtype
        with np.errstate(over="ignore"):
            if value.dtype.kind == "f" and not np.isfinite(value.astype(kind, copy=False)).all():
                return f"{name} is not finite"
    return ""


def distance(sent: Model, model: Model, *, first_block: bool = False) -> float:
    """‖w_k − w‖ over the floating arrays, or over the first block of each; not finite where one is not."""
    pairs = [(sent[name], before) for name, before in model.items() if name in sent and before.dtype.kind == "f"]
    pairs = [(value.reshape(-1), before.reshape(-1)) for value, before in pairs if value.size == before.size]
    if first_block:
        pairs = [(value[:BLOCK], before[:BLOCK]) for value, before in pairs]
    with np.errstate(all="ignore"):
        total = sum(_squared(value, before) for value, before in pairs)
        if np.isfinite(total):
            return float(np.sqrt(total))
        parts = [norms((value.astype(np.float64) - before).reshape(1, -1))[0] for value, before in pairs if value.size]
        return float(np.hypot.reduce(parts))


def length(arrays: Model, model: Model) -> float:
    """‖w‖ over the model's floating arrays; not finite where one is not, or where its type does not hold the square."""
    floating = [name for name, before in model.items() if before.dtype.kind == "f" and name in arrays]
    flat = [arrays[name].reshape(-1) for name in floating]
    with np.errstate(all="ignore"):
        squares = [np.dot(value, value) if value.dtype.kind == "f" else (value * 1.0) @ (value * 1.0) for value in flat]
        return float(np.sqrt(sum(float(square) for square in squares)))


def _median(values: Array) -> float:
    return float(np.median(values)) if values.size else 0.0


def _squared(value: Array, before: Array) -> float:
    """‖value − before‖², block by block."""
    kind = np.result_type(value, before, np.float32)
    total = 0.0
    for start in range(0, value.size, BLOCK):
        part = np.subtract(value[start : start + BLOCK], before[start : start + BLOCK], dtype=kind)
        total += float(np.dot(part, part))
    return total


def with_counters(arrays: ArrayRecord, model: Model) -> ArrayRecord:
    """The same arrays, but whole numbers (``num_batches_tracked``) stay what they were: Flower averages to floats.

    PyTorch cuts them to whole numbers when it loads them; signals would change their length with them.
    """
    counters = [name for name, before in model.items() if name in arrays and before.dtype.kind in "iub"]
    averaged = {name: value for name in counters if (value := arrays[name].numpy()).dtype.kind == "f"}
    cut = wire.to_record({name: value.astype(model[name].dtype) for name, value in averaged.items()})
    return ArrayRecord({**arrays, **cut}) if cut else arrays


def moved(model: Model, models: Mapping[int, Model], done: Ids, weights: Floats) -> Model:
    """w + Σ a_k (w_k − w) over the arrays that were sent, every array in its own type; counters are averaged too."""
    out = {}
    for name, first in models[int(done[0])].items():
        before = model.get(name, np.zeros_like(first))
        kind = before.dtype if before.dtype.kind == "f" else np.dtype(np.float64)
        updates = np.stack([np.subtract(models[k][name], before, dtype=kind).reshape(-1) for k in done.tolist()])
        out[name] = (before + weighted_sum(weights, updates).reshape(before.shape)).astype(before.dtype)
    return out

"""Which of the models that clients sent can be used, and the rows that they reported with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sortition.aggregation import weighted_sum
from sortition.clients.models import Model, shared_update
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.guards.screening import norms
from sortition.core.guards.settings import Guards
from sortition.core.intake import UpdateVerdict
from sortition.core.signals import UPDATE, Signal
from sortition.federation.messages import Reply

BLOCK = 1 << 15  # numbers that are compared at once: a block and its difference stay in the cache


class Judge(Protocol):
    """Who judges updates by their lengths: a turn, or a registrar where work outlives a step."""

    def judge_updates(self, ids: Ids, norms: Floats) -> UpdateVerdict:
        """Say which updates are refused, by row, and how long the others may be."""
        ...


@dataclass
class ModelCheck:
    """Holds what clients send to the model that they were sent, and to the guards.

    Clients may send some of the arrays only (personal layers stay at home), or others, if most replies of the first
    round agree on that; a reply that comes alone decides nothing. ``free_shapes`` is for models that are no vectors,
    such as trees.

    Attributes:
        guards: how far clients are trusted.
        free_shapes: whether arrays may have other shapes than those of the model.
        names: the arrays that clients send, once that is decided.
        longest: the largest length that an update of the round that was judged last may have.
    """

    guards: Guards = field(default_factory=Guards)
    free_shapes: bool = False
    names: frozenset[str] | None = None
    longest: float = np.inf

    def judge(
        self, sent: Mapping[int, Model], model: Model, turn: Judge | None = None
    ) -> tuple[dict[int, Model], dict[int, str]]:
        """The models that can be used, by client, and what is wrong with the others.

        Updates of a ``turn`` are held against the scale that its registrar remembers, where the guards ask for it.
        """
        if self.names is None and len(sent) > 1:
            self.names = usual_names(sent, model)
        faults = {client: fault for client, arrays in sent.items() if (fault := self.fault(arrays, model))}
        models = {client: arrays for client, arrays in sent.items() if client not in faults}
        if turn is None or not self.guards.remember:
            refused = self._too_far(models, model)
        else:
            refused = self._judged_by(turn, models, model)
        for client, reason in refused.items():
            faults[client] = not_finite(models.pop(client), model) or f"update: {reason}"
        return models, faults

    def _judged_by(self, turn: Judge, models: Mapping[int, Model], model: Model) -> dict[int, str]:
        """Whose update a turn refuses; how long the others may be is kept."""
        ids = np.array(sorted(models), np.int64)
        norms = np.array([distance(models[client], model) for client in ids.tolist()])
        refused, self.longest = turn.judge_updates(ids, norms)
        return {int(ids[row]): reason for row, reason in refused.items()}

    def _too_far(self, models: Mapping[int, Model], model: Model) -> dict[int, str]:
        """Whose update the guards refuse. Where norms and a few coordinates show that none is, no more is computed."""
        clients = sorted(models)
        start = length(model, model)
        at_most = np.array([length(models[client], model) + start for client in clients])  # ≥ ‖w_k − w‖
        at_least = np.array([distance(models[client], model, first_block=True) for client in clients])  # ≤ ‖w_k − w‖
        limit = min(self.guards.bound or np.inf, (self.guards.norm or np.inf) * _median(at_least))
        if (at_most <= limit).all():
            return {}
        norms = np.array([distance(models[client], model) for client in clients])
        return {clients[row]: reason for row, reason in self.guards.refused(norms).items()}

    def shortened(self, models: Mapping[int, Model], model: Model) -> dict[int, Model]:
        """The models of the round that was judged last, none further from ``model`` than the guards allow."""
        return {client: no_further(arrays, model, self.longest) for client, arrays in models.items()}

    def fault(self, arrays: Model, model: Model) -> str:
        """What is wrong with a model by itself, without comparison with others; empty if nothing is."""
        if not arrays:
            return "no model"
        expected = self.names or frozenset(model)
        if expected and (strange := sorted(arrays.keys() ^ expected)):
            alone = "; alone, a reply must have the arrays of the first model" if self.names is None else ""
            return f"arrays {strange[:3]} missing or unknown{alone}"
        for name, value in arrays.items():
            sent_out = model.get(name, value)
            if value.dtype.kind not in "fiub":
                return f"{name} holds no numbers"
            if value.shape != sent_out.shape and not self.free_shapes:
                return f"{name} of shape {value.shape} in place of {sent_out.shape}"
            if sent_out.dtype.kind != "f" and value.dtype.kind != sent_out.dtype.kind:
                return f"{name} of type {value.dtype} in place of {sent_out.dtype}"
            if value.dtype.itemsize > sent_out.dtype.itemsize and not_finite({name: value}, model):
                return f"{name} is not finite"  # finite as it was sent, infinite as it is kept
        return ""


def different(saved: Model, given: Model) -> str:
    """In what a saved model differs from the one that is to be trained, in words; empty if in nothing."""
    shared = {name: value for name, value in given.items() if name in saved}
    if given and not shared:
        return f"arrays {sorted(saved.keys() ^ given.keys())[:3]} missing or unknown"
    _, faults = ModelCheck(names=frozenset(saved)).judge({0: saved}, given)
    return faults.get(0, "")


def reported_rows(
    signals: Sequence[Signal], replies: Mapping[int, Reply], models: Mapping[int, Model], model: Model, done: Ids
) -> dict[str, dict[int, Array]]:
    """Rows by signal and client; the update is the difference of the models themselves."""
    reported: dict[str, dict[int, Array]] = {}
    for signal in signals:
        if signal == UPDATE:
            reported[signal.name] = {client: shared_update(models[client], model) for client in done.tolist()}
            continue
        rows = {client: replies[client].rows for client in done.tolist()}
        reported[signal.name] = {client: sent[signal.name] for client, sent in rows.items() if signal.name in sent}
    return reported


def moved(model: Model, models: Mapping[int, Model], done: Ids, weights: Floats) -> Model:
    """w + Σ a_k (w_k − w) over the arrays that were sent, every array in its own type; counters are averaged too."""
    after = {}
    for name, first in models[int(done[0])].items():
        before = model.get(name, np.zeros_like(first))
        kind = before.dtype if before.dtype.kind == "f" else np.dtype(np.float64)
        updates = np.stack([np.subtract(models[k][name], before, dtype=kind).reshape(-1) for k in done.tolist()])
        after[name] = (before + weighted_sum(weights, updates).reshape(before.shape)).astype(before.dtype)
    return after


def no_further(arrays: Model, model: Model, longest: float) -> Model:
    """The arrays on the way from ``model`` to themselves, at most ``longest`` from it; whole numbers stay."""
    if np.isinf(longest):
        return arrays
    norm = distance(arrays, model)
    if norm <= longest:
        return arrays
    nearer = dict(arrays)
    for name, value in arrays.items():
        if name in model and model[name].dtype.kind == "f" and value.shape == model[name].shape:
            nearer[name] = (model[name] + (value - model[name]) * (longest / norm)).astype(model[name].dtype)
    return nearer


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

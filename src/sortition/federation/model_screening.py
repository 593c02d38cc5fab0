"""Which of the models that clients sent can be used, and the rows that they reported with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sortition.aggregation import weighted_sum
from sortition.clients.named_arrays import Model, shared_update
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.guards.answer_screening import row_norms
from sortition.core.guards.settings import Guards
from sortition.core.intake import UpdateVerdict
from sortition.core.signals import UPDATE, Signal
from sortition.core.validation import is_whole
from sortition.federation.messages import Reply

Judge = Callable[[Ids, Floats], UpdateVerdict]  # of updates, by their norms: of a turn, or of a registrar
LEAST_VOTES = 2  # of clients that send the same arrays: a client alone decides nothing
BLOCK = 1 << 15  # numbers that are compared at once: a block and its difference stay in the cache


@dataclass
class ModelCheck:
    """Checks models that clients send against the model that they were sent, and against the guards.

    Clients may send only some of the arrays (personal layers stay at home), or others, if most clients agree on that.
    Each client has one vote, the arrays that it sent last; a client alone decides nothing, and what the first ones
    agreed on is replaced once more clients send other arrays. Where updates are clipped, arrays that the model does
    not have are refused, since they cannot be shortened. ``free_shapes`` is for models such as trees, which are no
    vectors.

    Attributes:
        guards: how far clients are trusted.
        free_shapes: whether arrays may have other shapes than those of the model.
        names: the arrays that clients send, once that is decided; a checkpoint holds them.
        votes: the arrays that each client sent last, by client; a checkpoint holds them, too.
        norm_limit: the largest norm that an update of the round that was judged last may have.
    """

    guards: Guards = field(default_factory=Guards)
    free_shapes: bool = False
    names: frozenset[str] | None = None
    votes: dict[int, frozenset[str]] = field(default_factory=dict)
    norm_limit: float = np.inf

    def screen(
        self, received: Mapping[int, Model], model: Model, judge: Judge | None = None
    ) -> tuple[dict[int, Model], dict[int, str]]:
        """Return the models that can be used, by client, and what is wrong with the others.

        A ``judge`` holds updates against the scale that the registrar remembers, where the guards ask for it.
        """
        self._count_votes(received, model)
        models: dict[int, Model] = {}
        faults: dict[int, str] = {}
        for client, arrays in received.items():
            fault = self.fault(arrays, model)
            if fault:
                faults[client] = fault
            else:
                models[client] = arrays
        if judge is None or not self.guards.remember:
            refused = self._too_far(models, model)
        else:
            refused = self._judged_by(judge, models, model)
        for client, reason in refused.items():
            faults[client] = not_finite(models.pop(client), model) or f"update: {reason}"
        return models, faults

    def _count_votes(self, received: Mapping[int, Model], model: Model) -> None:
        """Note which arrays clients sent, and decide by most votes which ones they send."""
        is_unanimous = self.names is not None
        for client, arrays in received.items():
            if not arrays or self._unclippable(arrays, model):
                continue
            names = frozenset(arrays)
            if names == self.names:
                names = self.names  # one set for all who agree
            else:
                is_unanimous = False
            self.votes[client] = names
        counts = Counter(self.votes.values())
        if is_unanimous or counts.total() < LEAST_VOTES:
            return
        names, count = counts.most_common(1)[0]
        if self.names is None:
            if 2 * count > counts.total():
                self.names = names
            else:
                self.names = frozenset(model)
        elif count >= LEAST_VOTES and count > counts[self.names]:
            self.names = names

    def _unclippable(self, arrays: Model, model: Model) -> list[str]:
        """Return the arrays that the model does not have, where all updates must be clipped."""
        if not (self.guards.clip and model):
            return []
        return sorted(arrays.keys() - model.keys())

    def export_names(self) -> dict[str, object]:
        """Return what is decided on the arrays that clients send, and the votes, for a checkpoint."""
        voters: dict[frozenset[str], list[int]] = {}
        for client, names in self.votes.items():
            voters.setdefault(names, []).append(client)
        return {
            "names": None if self.names is None else sorted(self.names),
            "votes": [{"names": sorted(names), "clients": clients} for names, clients in voters.items()],
        }

    def restore_names(self, stored: object) -> None:
        """Take over what :meth:`export_names` gave; raise ValueError where that cannot be."""
        if not isinstance(stored, dict) or not isinstance(stored.get("votes"), list):
            raise ValueError("the arrays that clients send are no table of names and votes")
        votes: dict[int, frozenset[str]] = {}
        for vote in stored["votes"]:
            if not (isinstance(vote, dict) and isinstance(vote.get("clients"), list)):
                raise ValueError("votes on the arrays that clients send are no tables of names and clients")
            names = _names(vote.get("names"))
            for client in vote["clients"]:
                if not is_whole(client, 0):
                    raise ValueError("votes on the arrays that clients send are not those of clients")
                votes[client] = names
        self.votes = votes
        self.names = None
        if stored.get("names") is not None:
            self.names = _names(stored["names"])

    def _judged_by(self, judge: Judge, models: Mapping[int, Model], model: Model) -> dict[int, str]:
        """Return whose update a judge refuses; remember how long the others may be."""
        ids = np.array(sorted(models), np.int64)
        norms = np.array([distance(models[client], model) for client in ids.tolist()])
        refused_rows, self.norm_limit = judge(ids, norms)
        return {int(ids[row]): reason for row, reason in refused_rows.items()}

    def _too_far(self, models: Mapping[int, Model], model: Model) -> dict[int, str]:
        """Return whose update the guards refuse.

        Where norms and a few coordinates show that none is, no more is computed.
        """
        clients = sorted(models)
        start = norm(model, model)
        at_most = np.array([norm(models[client], model) + start for client in clients])  # ≥ ‖w_k − w‖
        at_least = np.array([distance(models[client], model, first_block=True) for client in clients])  # ≤ ‖w_k − w‖
        limit = min(self.guards.bound or np.inf, (self.guards.norm or np.inf) * _median(at_least))
        if (at_most <= limit).all():
            return {}
        norms = np.array([distance(models[client], model) for client in clients])
        return {clients[row]: reason for row, reason in self.guards.find_refused(norms).items()}

    def shortened(self, models: Mapping[int, Model], model: Model) -> dict[int, Model]:
        """Return the models of the round that was judged last, none further from ``model`` than the guards allow."""
        return {client: no_further(arrays, model, self.norm_limit) for client, arrays in models.items()}

    def fault(self, arrays: Model, model: Model) -> str:
        """Say what is wrong with a model by itself, without comparison with others; empty if nothing is."""
        if not arrays:
            return "no model"
        fault = self._misnamed(arrays, model)
        if fault:
            return fault
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

    def _misnamed(self, arrays: Model, model: Model) -> str:
        """Name the arrays that are missing or unknown; empty if there are none."""
        if unclippable := self._unclippable(arrays, model):
            return f"arrays {unclippable[:3]} are not in the model, and cannot be clipped"
        expected = self.names or frozenset(model)
        misfits = sorted(arrays.keys() ^ expected)
        if not (expected and misfits):
            return ""
        fault = f"arrays {misfits[:3]} missing or unknown"
        if self.names is None:
            fault += "; alone, a reply must have the arrays of the first model"
        return fault


def different(saved: Model, model: Model) -> str:
    """Say in what a saved model differs from the one that is to be trained; empty if in nothing."""
    if model and not saved.keys() & model.keys():
        return f"arrays {sorted(saved.keys() ^ model.keys())[:3]} missing or unknown"
    _, faults = ModelCheck(names=frozenset(saved)).screen({0: saved}, model)
    return faults.get(0, "")


def reported_rows(
    signals: Sequence[Signal],
    ids: Ids,
    *,
    replies: Mapping[int, Reply],
    models: Mapping[int, Model],
    model: Model,
) -> dict[str, dict[int, Array]]:
    """Return what these clients reported, by signal and client; the update is the difference of the models."""
    reported: dict[str, dict[int, Array]] = {}
    for signal in signals:
        if signal == UPDATE:
            reported[signal.name] = {client: shared_update(models[client], model) for client in ids.tolist()}
            continue
        rows = {client: replies[client].rows for client in ids.tolist()}
        reported[signal.name] = {client: row[signal.name] for client, row in rows.items() if signal.name in row}
    return reported


def move_model(model: Model, models: Mapping[int, Model], ids: Ids, weights: Floats) -> Model:
    """Return w + Σ a_k (w_k − w) over the arrays that were sent, every array in its own type.

    Counters are averaged, too.
    """
    moved_arrays = {}
    for name, first in models[int(ids[0])].items():
        start = model.get(name, np.zeros_like(first))
        dtype = np.dtype(np.float64)
        if start.dtype.kind == "f":
            dtype = start.dtype
        updates = np.stack(
            [np.subtract(models[client][name], start, dtype=dtype).reshape(-1) for client in ids.tolist()]
        )
        moved_arrays[name] = (start + weighted_sum(weights, updates).reshape(start.shape)).astype(start.dtype)
    return moved_arrays


def no_further(arrays: Model, model: Model, norm_limit: float) -> Model:
    """Move arrays towards ``model`` until they are at most ``norm_limit`` from it; whole numbers stay."""
    if np.isinf(norm_limit):
        return arrays
    norm = distance(arrays, model)
    if norm <= norm_limit:
        return arrays
    nearer = dict(arrays)
    for name, value in arrays.items():
        if name in model and model[name].dtype.kind == "f" and value.shape == model[name].shape:
            nearer[name] = (model[name] + (value - model[name]) * (norm_limit / norm)).astype(model[name].dtype)
    return nearer


def _names(listed: object) -> frozenset[str]:
    """Return the names of a checkpoint's list; raise ValueError where it is none."""
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise ValueError("the arrays that clients send are not a list of names")
    return frozenset(listed)


def not_finite(arrays: Model, model: Model) -> str:
    """Name the first array that is not finite in the type that it is kept in; empty if there is none."""
    for name, value in arrays.items():
        dtype = model.get(name, value).dtype
        with np.errstate(over="ignore"):
            if value.dtype.kind == "f" and not np.isfinite(value.astype(dtype, copy=False)).all():
                return f"{name} is not finite"
    return ""


def distance(arrays: Model, model: Model, *, first_block: bool = False) -> float:
    """Return ‖w_k − w‖ over the floating arrays, or over the first block of each; not finite where one is not."""
    pairs = []
    for name, start in model.items():
        if name in arrays and start.dtype.kind == "f" and arrays[name].size == start.size:
            pairs.append((arrays[name].reshape(-1), start.reshape(-1)))
    if first_block:
        pairs = [(value[:BLOCK], start[:BLOCK]) for value, start in pairs]
    with np.errstate(all="ignore"):
        total = sum(_squared_distance(value, start) for value, start in pairs)
        if np.isfinite(total):
            return float(np.sqrt(total))
        # the squares overflowed, or an array is not finite: join the norms of arrays without squaring them
        differences = [value.astype(np.float64) - start for value, start in pairs if value.size]
        array_norms = [row_norms(difference.reshape(1, -1))[0] for difference in differences]
        return float(np.hypot.reduce(array_norms))


def norm(arrays: Model, model: Model) -> float:
    """Return ‖w‖ over the model's floating arrays.

    It is not finite where an array is not, or where its type does not hold the square.
    """
    total = 0.0
    with np.errstate(all="ignore"):
        for name, start in model.items():
            if start.dtype.kind != "f" or name not in arrays:
                continue
            flat = arrays[name].reshape(-1)
            if flat.dtype.kind != "f":
                flat = flat * 1.0
            total += float(np.dot(flat, flat))
        return float(np.sqrt(total))


def _median(values: Array) -> float:
    """Return the median; 0 of nothing."""
    if not values.size:
        return 0.0
    return float(np.median(values))


def _squared_distance(value: Array, start: Array) -> float:
    """Return ‖value − start‖², block by block."""
    dtype = np.result_type(value, start, np.float32)
    total = 0.0
    for first in range(0, value.size, BLOCK):
        block = slice(first, first + BLOCK)
        difference = np.subtract(value[block], start[block], dtype=dtype)
        total += float(np.dot(difference, difference))
    return total

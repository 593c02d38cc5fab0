"""The user's strategy as the engine that owns the model: it aggregates the replies of a cohort by the cohort's weights.

Where the weights sum to 1, they stand in the replies as ``num-examples``, and the strategy's own mean keeps them. Where
they do not, or where another rule combines the updates, the strategy is given one model, w + Σ a_k Δ_k, to step from.
"""

from __future__ import annotations

from collections.abc import Mapping
from logging import WARNING

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.common.logger import log
from flwr.serverapp.strategy import Strategy

from sortition.clients.app_training import RATES
from sortition.clients.named_arrays import Model, as_vector, from_vector, shared_update
from sortition.core.arrays import Array
from sortition.core.cohort import Cohort, Notes
from sortition.core.errors import InputError
from sortition.core.storage.snapshot import StoredTable, add_prefix, take_part
from sortition.federation.members import Members
from sortition.federation.messages import Reply
from sortition.federation.model_engine import Combining, Engine, Step, learning_rate_of
from sortition.federation.model_screening import move_model, no_further
from sortition.flower import codec
from sortition.flower.averaged_metrics import first_metrics, is_amount, usable_metrics
from sortition.flower.base_strategy import Aggregate, BaseStrategy
from sortition.flower.strategy_traits import PRIVATE, layers

ADAPTED = "clipping_norm"  # a number that adaptive clipping changes from round to round
SUM_TOLERANCE = 1e-6  # how far a sum of weights may be from 1
RATIO_TOLERANCE = 0.01  # how far reported and declared numbers of examples may be apart, in proportion to others'


class FlowerEngine(Engine):
    """Keeps the model by the user's strategy.

    Args:
        user_strategy: configures, aggregates and evaluates.
        combining: the rule that makes one update of all, where it is not the strategy's own mean.
    """

    def __init__(self, user_strategy: BaseStrategy, combining: Combining) -> None:
        super().__init__({}, combining)
        self.user_strategy = user_strategy
        self.free_shapes = user_strategy.traits.trees
        self.server_round = 0
        self.config: Mapping[str, object] = {}
        self.result: Aggregate = (None, None)  # what aggregate_train returns to Flower's loop

    def set_model(self, arrays: ArrayRecord) -> None:
        """Take the arrays that Flower's loop holds: a strategy may have changed them between rounds."""
        self._model = codec.view_arrays(arrays)

    @property
    def identity(self) -> dict[str, object]:
        """Strategy and combining rule, by which a checkpoint knows them."""
        strategy = self.user_strategy.strategy
        inside = "/".join(type(layer).__name__ for layer in layers(strategy)[1:])
        identity: dict[str, object] = {"strategy": type(strategy).__name__}
        if inside:
            identity["strategy.inside"] = inside
        return identity | self.combining.identity

    def objections(self, replies: Mapping[int, Reply]) -> Mapping[int, str]:
        """Return whose metrics cannot be used, where the strategy computes the model from them."""
        if not self.user_strategy.traits.reads_metrics:
            return {}
        contents = {client: reply.native.content for client, reply in replies.items()}
        return usable_metrics(contents, ignored=[self.user_strategy.weighted], complete=True)[1]

    def rebase(self, reply: Reply, model: Model) -> Reply:
        """Put this model in place of a stale reply's own, in the message, too; return the reply."""
        message: Message = reply.native
        records = [name for name, record in message.content.items() if isinstance(record, ArrayRecord)]
        model_records = [name for name in records if name != codec.ROWS]
        key = model_records[0]
        if self.user_strategy.model in model_records:
            key = self.user_strategy.model
        message.content = RecordDict({**message.content, key: codec.to_record(model)})
        return super().rebase(reply, model)

    def step(self, step: Step) -> Notes:
        """Take the strategy's next model and metrics; none where nobody has a weight."""
        ids = step.ids
        weights = step.weights
        notes: Notes = {}
        replies_for_noise = self.user_strategy.traits.replies_for_noise
        if 0 < ids.size < replies_for_noise:
            notes = {"too_few_for_noise": int(ids.size)}
            weights = np.zeros(ids.size)
        elif replies_for_noise and ids.size:
            weights = np.full(ids.size, 1 / ids.size)  # the noise counts on equal weights
        is_positive = weights > 0
        weight_of = dict(zip(ids[is_positive].tolist(), weights[is_positive].tolist(), strict=True))
        self.result = (None, None)
        if weight_of:
            self.result = self._aggregated(step, weight_of)
        arrays, metrics = self.result
        if arrays is not None:
            arrays = with_integer_dtypes(arrays, self._model)
            self.result = (arrays, metrics)
            self._model = codec.view_arrays(arrays)
        return notes

    def _aggregated(self, step: Step, weight_of: Mapping[int, float]) -> Aggregate:
        """Let the strategy aggregate the replies of these clients, or step to a model that we combined."""
        replies = {client: step.replies[client].native for client in weight_of}
        if self.combining.own:
            target = self._combined(step)
            return self.user_strategy.step(self.server_round, target, replies, weight_of)
        as_sent = np.isinf(step.norm_limit)  # otherwise a reply's own model may be longer than the guards allow
        if self.user_strategy.traits.replies_for_noise or (sums_to_one(step.cohort) and as_sent):
            errors = [reply.native for reply in step.replies.values() if reply.outcome != "ok"]
            return self.user_strategy.aggregate(self.server_round, replies, weight_of, errors)
        ids = np.array(list(weight_of), np.int64)
        target = move_model(self._model, step.models, ids, np.array(list(weight_of.values())))
        target = no_further(target, self._model, step.norm_limit)
        return self.user_strategy.step(self.server_round, target, replies, weight_of)

    def _combined(self, step: Step) -> Model:
        """Return w + the combined update, over the arrays that were sent; whole numbers are averaged."""
        models = step.models
        clients = step.ids.tolist()
        arrays_of_first = models[clients[0]]
        model = {name: self._model.get(name, np.zeros_like(value)) for name, value in arrays_of_first.items()}
        updates = np.stack([shared_update(models[client], model) for client in clients])
        updates = updates.astype(np.result_type(updates, np.float32), copy=False)
        update = self.combining.combined(step, updates, learning_rate_of(self.config, RATES))
        counter_names = [name for name, value in model.items() if value.dtype.kind != "f"]
        counters = {client: {name: models[client][name] for name in counter_names} for client in clients}
        averaged_counters = move_model(self._model, counters, step.ids, step.weights)
        return from_vector(as_vector(model) + update, model) | averaged_counters

    def export(self) -> tuple[dict[str, Array], dict[str, object]]:
        """Return the strategy's memory, and the combining rule's."""
        memory, kinds = export_memory(self.user_strategy.strategy)
        return add_prefix("server.", memory) | add_prefix("combine.", self.combining.export()), {"server": kinds}

    def restore(self, model: Model, arrays: Mapping[str, Array], header: StoredTable) -> None:
        """Go on with this model and what :meth:`export` gave."""
        self.combining.restore(take_part(arrays, "combine."))
        restore_memory(self.user_strategy.strategy, take_part(arrays, "server."), header["server"])
        self._model = dict(model)


def train_config(messages: Mapping[int, Message], key: str) -> Mapping[str, object]:
    """Return the config of a round's train messages; empty where there is none."""
    for message in messages.values():
        config = message.content.get(key)
        if isinstance(config, ConfigRecord):
            return config
        break  # all messages of a round have the same records
    return {}


def sums_to_one(cohort: Cohort) -> bool:
    """Tell whether a weighted mean says it all; a mass that is 1 only in expectation is kept as it is."""
    if cohort.mass != "one":
        return False
    if not cohort.weights.size:
        return True
    return abs(float(cohort.weights.sum()) - 1) <= SUM_TOLERANCE


def check_mass(cohort: Cohort, engine: FlowerEngine, method_name: str) -> None:
    """Refuse a cohort, before it trains, whose mass the strategy cannot keep: Flower rescales weights."""
    if cohort.ids.size and not (sums_to_one(cohort) or engine.user_strategy.traits.linear):
        raise InputError(
            f"{method_name} weighs this cohort {float(cohort.weights.sum()):g} in all, and "
            f"{type(engine.user_strategy.strategy).__name__} rescales weights to 1. Use FedAvg, FedProx, FedAvgM, "
            "FedAdam, FedAdagrad or FedYogi with it."
        )


def log_other_examples(replies: Mapping[int, Reply], members: Members, user_strategy: BaseStrategy) -> None:
    """Say whose reported examples are not those of its facts: Flower's own average goes by those."""
    if "sizes" not in members.reads or not user_strategy.traits.weighs:
        return
    ratios = []
    for client, reply in replies.items():
        if reply.outcome != "ok":
            continue
        reported = first_metrics(reply.native.content)[1].get(user_strategy.weighted)
        declared = float(members[client].facts["sizes"])
        if is_amount(reported) and declared > 0:
            ratios.append((float(reported) / declared, client, float(reported), declared))
    if not ratios or max(ratios)[0] <= (1 + RATIO_TOLERANCE) * min(ratios)[0]:
        return
    for _, client, reported, declared in (min(ratios), max(ratios)):
        words = "Client %s reports %s = %g and has %g by its facts: weights are the selector's, which reads the facts."
        log(WARNING, words, members[client].name, user_strategy.weighted, reported, declared)


def with_integer_dtypes(arrays: ArrayRecord, model: Model) -> ArrayRecord:
    """Cast integer arrays (``num_batches_tracked``) back from the floats that Flower's average makes.

    Left as floats they would be joined into update vectors (``as_vector``), whose length would change.
    """
    integer_arrays = {}
    for name, current in model.items():
        if name not in arrays or current.dtype.kind not in "iub":
            continue
        averaged = arrays[name].numpy()
        if averaged.dtype.kind == "f":
            integer_arrays[name] = averaged.astype(current.dtype)
    if not integer_arrays:
        return arrays
    return ArrayRecord({**arrays, **codec.to_record(integer_arrays)})


# -- what a strategy remembers, for checkpoints: any attribute made of arrays, in every layer --------------------------


def export_memory(strategy: Strategy) -> tuple[dict[str, Array], dict[str, object]]:
    """Return memory as named arrays, and a header that says how they were held; of a wrapper, the inner one's too."""
    arrays: dict[str, Array] = {}
    header: dict[str, object] = {}
    for name, value in vars(strategy).items():
        if isinstance(value, Strategy):
            inner_arrays, inner_header = export_memory(value)
            arrays |= {f"{name}/{key}": array for key, array in inner_arrays.items()}
            header |= {f"{name}/{key}": entry for key, entry in inner_header.items()}
            continue
        is_adapted = isinstance(strategy, PRIVATE) and name == ADAPTED
        memory = _as_arrays(value, adapted=is_adapted)
        if memory is not None:
            header[name] = {"kind": type(value).__name__, "keys": list(memory)}
            arrays |= {f"{name}.{row}": array for row, array in enumerate(memory.values())}
    return arrays, header


def restore_memory(strategy: Strategy, arrays: Mapping[str, Array], header: StoredTable) -> None:
    """Take over what :func:`export_memory` gave."""
    for path, entry in header.items():
        *outer, name = path.split("/")
        owner = strategy
        for attribute in outer:
            owner = getattr(owner, attribute)
        current = getattr(owner, name, None)
        if current is not None and not isinstance(current, dict | list | ArrayRecord | np.ndarray) and name != ADAPTED:
            raise ValueError(f"{path} of {type(strategy).__name__} is no memory")
        memory = {key: arrays[f"{path}.{row}"] for row, key in enumerate(entry["keys"])}
        setattr(owner, name, _as_it_was(entry["kind"], memory))


def _as_it_was(kind: str, memory: dict[str, Array]) -> object:
    """Return the attribute as the strategy held it."""
    if kind == "list":
        return list(memory.values())
    if kind == "ArrayRecord":
        return codec.to_record(memory)
    if kind == "ndarray":
        return memory["0"]
    if kind == "float":
        return float(memory["0"])
    return memory


def _as_arrays(value: object, adapted: bool) -> dict[str, Array] | None:
    """Return an attribute as named arrays; None where it is no memory."""
    if isinstance(value, ArrayRecord):
        return codec.to_arrays(value)
    if adapted and isinstance(value, float):
        return {"0": np.asarray(value)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return {"0": value}
    if isinstance(value, list) and value:
        value = {str(row): item for row, item in enumerate(value)}
    if isinstance(value, dict) and value and all(isinstance(item, np.ndarray | np.generic) for item in value.values()):
        return {str(name): np.asarray(item) for name, item in value.items()}  # counters become numpy scalars there
    return None

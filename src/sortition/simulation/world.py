"""The simulator's clients: a data set split over them, a model and a local rule. They answer questions and train.

``measure(params, question, t) -> Reading`` answers a question; ``train(params, ids, signals, t) -> CohortReturn``
trains a cohort and computes what it reports. Models are flat float32 vectors: params (P,), deltas (k, P). Everything
random depends on (seed, t, client); a client costs nothing until it is asked or selected. ``world.costs`` says what
work costs (examples, SGD steps, simulated seconds), ``world.evaluator`` how good a model is.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from sortition.aggregation import weighted_sum
from sortition.core.arrays import Floats, Ids
from sortition.core.cohort import NOBODY, Cohort
from sortition.core.cost import BYTES_PER_NUMBER
from sortition.core.errors import bad, unknown
from sortition.core.inputs import Inputs
from sortition.core.population import Population
from sortition.core.questions import Measure, Reading
from sortition.core.signals import BATCH_LOSS, Signal
from sortition.data import Dataset
from sortition.learning import LocalRule
from sortition.learning.evaluation import Passes
from sortition.learning.fitting import learner_for, trains_on_one
from sortition.learning.objective import Objective
from sortition.learning.task import TaskRule
from sortition.learning.vector import Vector
from sortition.simulation.adaptive_attacks import adversaries_of
from sortition.simulation.attacks import Adversaries, Attacks
from sortition.simulation.devices import FORWARD, ClientData, Devices, Fleet
from sortition.simulation.holdings import Holdings, means
from sortition.simulation.local_states import LocalStates
from sortition.simulation.round_cache import (
    PendingTraining,
    RoundCache,
    group_by_block,
    joined_readings,
    tracked_by,
    updates_of,
)
from sortition.simulation.task_data import data_for, is_multi_label

MEASURED = ("train", "holdout")
EXAMPLES_OF_A_BLOCK = 4096  # whose outputs are in memory together
OF_LABELS = ("histogram", "adaptive")  # attacks that forge label counts


@dataclass(frozen=True, slots=True)
class CohortReturn:
    """What came back from a cohort, one row per id.

    Attributes:
        ids: (k,) who trained.
        deltas: (k, P) updates.
        reports: what clients report, by signal.
        durations: (k,) simulated seconds.
        losses: (k,) mean batch losses while training.
        states: (k, S) what the optimisers remember, where the rule keeps it.
    """

    ids: Ids
    deltas: Vector
    reports: dict[str, Reading]
    durations: Floats
    losses: npt.NDArray[np.float32]
    states: Vector | None = None


@dataclass(frozen=True)
class Costs:
    """The costs of training and of answering, for clients with their data and devices; nothing is computed for them.

    Attributes:
        rule: local training.
        training_parts: who trains on which examples.
        measured_parts: who measures losses on which examples.
        fleet: the clients' devices.
        n_parameters: how many numbers the model has.
    """

    rule: LocalRule
    training_parts: Holdings
    measured_parts: Holdings
    fleet: Fleet
    n_parameters: int

    @property
    def model_bytes(self) -> int:
        """Return the bytes of the model."""
        return BYTES_PER_NUMBER * self.n_parameters

    def examples(self, ids: Ids) -> Ids:
        """Return on how many examples ``ids`` compute forward and backward when they train (k,)."""
        return self._examples_of_size[self._size_index[ids]]

    def steps(self, ids: Ids) -> Ids:
        """Return the SGD steps of ``ids`` in one round (k,)."""
        return self._steps_of_size[self._size_index[ids]]

    @cached_property
    def _unique_sizes(self) -> tuple[Ids, Ids]:
        """Return the sizes that occur (u,), and for each client the position of its own among them (N,)."""
        return np.unique(self.training_parts.sizes, return_inverse=True)

    @property
    def _size_index(self) -> Ids:
        return self._unique_sizes[1]

    @cached_property
    def _examples_of_size(self) -> Ids:
        return np.array([self.rule.examples_of(size) for size in self._unique_sizes[0].tolist()], np.int64)

    @cached_property
    def _steps_of_size(self) -> Ids:
        return np.array([self.rule.steps_of(size) for size in self._unique_sizes[0].tolist()], np.int64)

    def seconds(self, ids: Ids, t: int) -> Floats:
        """Return the time in which ``ids`` receive the model, train and answer (k,)."""
        return self.fleet.seconds(ids, t, self.examples(ids), down=self.model_bytes, up=self.model_bytes)

    @property
    def quiet_seconds(self) -> Floats:
        """Return the seconds (N,) in which each client receives, trains and answers, at quiet hours, without jitter."""
        fleet = self.fleet
        everybody = np.arange(fleet.n_clients)
        sending = self.model_bytes / fleet.bandwidth_down + self.model_bytes / fleet.bandwidth_up
        return np.asarray(self.examples(everybody) / fleet.speed + sending, np.float64)

    def resources(self, client: int, t: int) -> Floats:
        """Return the time (2,) in which a client trains, and in which it sends the model once."""
        n_examples = int(self.examples(np.array([client]))[0])
        return self.fleet.seconds(np.array([client, client]), t, [n_examples, 0], up=[0, self.model_bytes])

    def examples_read(self, signal: Signal, ids: Ids) -> Ids:
        """Return on how many examples ``ids`` compute when they answer a signal of the model (k,)."""
        if signal.backward:  # a gradient is that of the training part
            return self.training_parts.sizes[ids]
        sizes = self.measured_parts.sizes[ids]
        if signal.compute is BATCH_LOSS.compute and self.rule.batch is not None:
            return np.minimum(sizes, self.rule.batch)
        return sizes

    def seconds_read(self, signal: Signal, ids: Ids, t: int) -> Floats:
        """Return the time in which ``ids`` receive the model and answer a signal of it (k,)."""
        n_bytes = BYTES_PER_NUMBER * (self.n_parameters + signal.floats_down)
        cost_of_pass = 1.0 if signal.backward else FORWARD
        return self.fleet.seconds(ids, t, cost_of_pass * self.examples_read(signal, ids), down=n_bytes)


def is_evaluation_due(t: int, every: int, *, is_last: bool) -> bool:
    """Tell whether round t is evaluated where every so many rounds are, and the last one; 0: none is."""
    return every > 0 and (is_last or (t + 1) % every == 0)


@dataclass(frozen=True)
class Evaluator:
    """Passes over the test examples and over the clients' own.

    Attributes:
        test: passes over the test set.
        client_passes: passes over all clients' examples.
        parts: which of these each client is evaluated on.
    """

    test: Passes
    client_passes: Passes
    parts: Holdings

    @property
    def higher_is_better(self) -> bool:
        """Tell whether a higher score of a client is a better one."""
        return self.test.objective is None or bool(self.test.objective.rule.higher_is_better)

    def score(self, params: Vector) -> dict[str, float]:
        """Return the loss on the test set, and the accuracy or the task's metric."""
        objective = self.test.objective
        if objective is None:
            losses, hits = self.test.losses_and_hits(params)
            return {"loss": float(losses.mean(dtype=np.float64)), "accuracy": float(hits.mean())}
        judged = self.test.judge(params)
        scores = {"loss": float(judged.losses.mean(dtype=np.float64))}
        if not objective.judges_by_loss:
            scores[objective.rule.metric_name] = objective.metric(judged.outputs, judged.targets)
        return scores

    def client_scores(self, params: Vector) -> Floats:
        """Return the accuracy, or the task's metric, of each client (N,), on its hold-out or its training part."""
        objective = self.client_passes.objective
        if objective is not None and not objective.judges_by_loss:
            return self._client_metrics(objective, params)
        losses, hits = self.client_passes.losses_and_hits(params)
        index, sizes = self.parts.gather(np.arange(len(self.parts)))
        if objective is not None:
            return means(losses[index], sizes)
        return means(hits.astype(np.float32)[index], sizes)

    def _client_metrics(self, objective: Objective, params: Vector) -> Floats:
        """Return the task's metric of each client (N,); the outputs of one block of clients are in memory at a time."""
        scores = []
        block: list[int] = []
        n_examples = 0
        for client, size in enumerate(self.parts.sizes.tolist()):
            if block and n_examples + size > EXAMPLES_OF_A_BLOCK:
                scores += self._metrics_of(block, objective, params)
                block = []
                n_examples = 0
            block.append(client)
            n_examples += size
        scores += self._metrics_of(block, objective, params)
        return np.array(scores)

    def _metrics_of(self, clients: list[int], objective: Objective, params: Vector) -> list[float]:
        index, sizes = self.parts.gather(np.array(clients))
        judged = self.client_passes.judge(params, index)
        outputs = judged.outputs.split(sizes.tolist())
        targets = judged.targets.split(sizes.tolist())
        return [
            objective.metric(client_outputs, client_targets)
            for client_outputs, client_targets in zip(outputs, targets, strict=True)
        ]


class World:
    """Clients that can be asked and trained.

    Args:
        data: the examples; images of bytes are scaled to [0, 1].
        clients: index arrays into the training examples, one per client.
        model: the model with its initial weights; its outputs are logits, or what the loss of another task takes.
        rule: the rule of local training.
        holdout: index arrays that are kept out of training, one per client (may be empty).
        validation: indices of training examples that the server has and no client, for signals of the server.
        measured_on: where the loss signals are taken: on the ``train`` part or on the ``holdout`` (FedCor's code); a
            client without a hold-out is measured on its training part.
        seed: the seed of batches, dropout masks and devices.
        device: any name that torch knows.
        engine: ``stacked``, ``vmapped``, ``sequential``, or ``auto`` for the one of the rule in docs/engine.md.
        precision: of the passes of a training: ``float32``, or ``bf16`` where clients are not stacked.
        devices: the clients' hardware.
        attacks: how some of the clients attack.
        task: loss and metric; None for classification by cross-entropy and accuracy.
    """

    def __init__(
        self,
        data: Dataset,
        clients: Sequence[npt.ArrayLike],
        model: nn.Module,
        rule: LocalRule,
        *,
        holdout: Sequence[npt.ArrayLike] | None = None,
        validation: npt.ArrayLike | None = None,
        measured_on: str = "train",
        seed: int = 0,
        device: str = "cpu",
        engine: str = "auto",
        precision: str = "float32",
        devices: Devices | None = None,
        attacks: Attacks | None = None,
        task: TaskRule | None = None,
    ) -> None:
        if measured_on not in MEASURED:
            raise unknown("measured_on", measured_on, MEASURED, "World")
        if measured_on == "holdout" and holdout is None:
            raise bad("World.holdout", "given where losses are measured on it", None)
        data = data_for(_as_models_take(data), task)
        train_inputs, test_inputs = data.inputs
        self.y = data.y_train
        self.classes = data.classes
        self.seed = seed
        self.targets = data.describe_targets()
        self._is_multi_label = is_multi_label(data)
        self.training_parts = Holdings(clients, len(self.y), "World.clients")
        if self.training_parts.sizes.min() < 1:
            raise bad(
                "World.clients", "≥ 1 training example each", f"client {self.training_parts.sizes.argmin()} with none"
            )
        self.evaluation_parts = self.training_parts
        if holdout is not None:
            self.evaluation_parts = self._evaluation_parts(clients, holdout)
        self.measured_parts = self.evaluation_parts if measured_on == "holdout" else self.training_parts
        self.validation: Ids | None = None
        if validation is not None:
            self.validation = self._server_examples(validation)
        self.learner = learner_for(
            model,
            train_inputs,
            data.y_train,
            rule,
            classes=data.classes,
            device=device,
            engine=engine,
            precision=precision,
            white=data.white,
            objective=None if task is None else Objective(task),
        )
        self._test = self.learner.passes_over(test_inputs, data.y_test)
        self.adversaries: Adversaries | None = None
        if attacks is not None:
            self._check_attacks(attacks)
            self.adversaries = adversaries_of(attacks, self.n_clients, seed)
        if self.adversaries is not None and self.adversaries.owners is not None:
            self._reassign(self.adversaries.owners)
        self._prepare(rule, self._fleet(devices or Devices()))

    def _check_attacks(self, attacks: Attacks) -> None:
        """Refuse attacks that forge label counts where there are none."""
        if attacks.kind in OF_LABELS and not self.has_label_counts:
            requirement = "one that forges no label counts where the task has no labels (classification only)"
            raise bad("Attacks.kind", requirement, attacks.kind)

    def _server_examples(self, validation: npt.ArrayLike) -> Ids:
        """Return the examples of the server; refuse those that a client holds."""
        examples = Holdings([validation], len(self.y), "World.validation").order
        clients_examples = np.concatenate([self.training_parts.order, self.evaluation_parts.order])
        if examples.size == 0 or np.isin(examples, clients_examples).any():
            raise bad("World.validation", "examples that no client holds, one at least", f"{examples.size} examples")
        return examples

    def _evaluation_parts(self, clients: Sequence[npt.ArrayLike], holdout: Sequence[npt.ArrayLike]) -> Holdings:
        """Return what each client is evaluated on: its hold-out, or its training part where it has none."""
        if len(holdout) != len(clients):
            raise bad("World.holdout", f"one index array per client, {len(clients)} in all", len(holdout))
        parts = []
        for train_part, holdout_part in zip(clients, holdout, strict=True):
            parts.append(holdout_part if np.size(holdout_part) else train_part)
        return Holdings(parts, len(self.y), "World.holdout")

    def _check_batches(self, rule: LocalRule) -> None:
        """Refuse batches of one example where batch normalisation needs a variance: torch would raise during a run."""
        modules = self.learner.model.modules()
        if not any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in modules):
            return
        sizes = self.training_parts.sizes
        rows = np.minimum(sizes, rule.batch or sizes)
        last_batch_is_one = (sizes - 1) % rows == 0
        if rule.steps is not None:
            batches_per_epoch = -(-sizes // rows)
            last_batch_is_one &= rule.steps >= batches_per_epoch  # otherwise the last batch is never reached
        if last_batch_is_one.any() and not trains_on_one(self.learner):
            client = int(np.argmax(last_batch_is_one))
            lone_batch = f"a batch of one at client {client} with {int(sizes[client])} examples"
            raise bad("LocalRule.batch", "such that batch normalisation sees two examples or more", lone_batch)

    def _fleet(self, devices: Devices) -> Fleet:
        """Give the clients devices, which may go with their data."""
        data = None
        if devices.slow is not None:
            data = ClientData(self.training_parts.sizes, self.label_counts if self.has_label_counts else None)
        return Fleet(devices, self.n_clients, self.seed, data)

    def _prepare(self, rule: LocalRule, fleet: Fleet) -> None:
        """Set what follows from the data, the local rule and the devices."""
        self._check_batches(rule)
        self.learner.engine_choice.engine_for(rule)  # refuses, before training, an engine that cannot take the model
        self.rule = rule
        self.fleet = fleet
        self.states = LocalStates.empty(rule, self.learner)
        self.costs = Costs(
            rule=rule,
            training_parts=self.training_parts,
            measured_parts=self.measured_parts,
            fleet=fleet,
            n_parameters=self.initial.size,
        )
        self.evaluator = Evaluator(self._test, self.learner.passes, self.evaluation_parts)
        self.cache = RoundCache.empty(self)  # of the model that was asked or trained last

    @property
    def n_clients(self) -> int:
        """Return the number of clients, N."""
        return len(self.training_parts)

    @property
    def initial(self) -> Vector:
        """Return the model before the first round (P,)."""
        return self.learner.initial

    @property
    def has_label_counts(self) -> bool:
        """Tell whether examples have labels that can be counted: one each, or a mask of several."""
        return bool(self.classes) or self._is_multi_label

    @cached_property
    def label_counts(self) -> Ids:
        """Return the examples (N, classes) of each client by label; one with a mask counts for all of its labels."""
        if self.classes:
            return self.training_parts.label_counts(self.y, self.classes)
        if self._is_multi_label:
            return self.training_parts.mask_counts(self.y)
        raise bad("label counts", "asked of labels (classification only)", self.targets)

    @cached_property
    def outputs(self) -> int:
        """Return how many numbers the model gives for an example, or for a step of a sequence."""
        if self.classes:
            return self.classes
        outputs = self.learner.passes.first_outputs(self.initial, 1)
        return int(outputs.shape[-1]) if outputs.ndim > 1 else 1

    def population(self, **more_facts: Any) -> Population:
        """Return sizes and label counts as clients claim them, and facts that the caller adds (``groups`` …)."""
        facts: dict[str, Any] = {"sizes": self.training_parts.sizes}
        if self.has_label_counts:
            facts["label_counts"] = self.label_counts
        facts |= more_facts
        if self.adversaries is not None:
            facts = self.adversaries.facts(facts)
        return Population(**facts)

    def variant(
        self, rule: LocalRule | None = None, devices: Devices | None = None, owners: Ids | None = None
    ) -> World:
        """Return the same data, model and seed with another local rule, other devices, or ids with others' data.

        Nothing large is copied; client k then holds the data of client ``owners[k]``.
        """
        twin = copy.copy(self)
        if owners is not None:
            twin._reassign(owners)
        fleet = self.fleet if devices is None else self._fleet(devices)
        twin._prepare(rule or self.rule, fleet)
        return twin

    def beginning(self, clock: float, states: LocalStates | None) -> World:
        """Return the same world where nobody has computed anything yet, in a round that begins.

        Args:
            clock: the second at which work begins: devices may be busy then.
            states: what the clients' optimisers remember, where the local rule keeps it.
        """
        fleet = self.fleet.at(clock)
        if fleet is self.fleet and states is None:
            return self
        twin = copy.copy(self)
        twin.states = states
        if fleet is not self.fleet:
            twin.fleet = fleet
            twin.costs = replace(self.costs, fleet=fleet)
        twin.cache = RoundCache.empty(twin)
        return twin

    def _reassign(self, owners: Ids) -> None:
        """Let client k hold the data of client ``owners[k]``; holdings that are one object stay one."""
        is_evaluated_on_training = self.evaluation_parts is self.training_parts
        is_measured_on_evaluation = self.measured_parts is self.evaluation_parts
        self.training_parts = self.training_parts.reassigned(owners)
        self.evaluation_parts = (
            self.training_parts if is_evaluated_on_training else self.evaluation_parts.reassigned(owners)
        )
        self.measured_parts = self.evaluation_parts if is_measured_on_evaluation else self.training_parts
        self.__dict__.pop("label_counts", None)  # the cached ones are of the earlier owners

    def measure(self, params: Vector, question: Measure, t: int) -> Reading:
        """Return the answers of the asked clients under ``params``, or under the model of a rehearsal."""
        if question.after is None:
            return self._answers(self._cache_of(params, t), question.signal, question.ids)
        trial_model = self.rehearse(params, question.after, t)
        version = self._cache_of(params, t).version
        cache = RoundCache(self, trial_model, t, purpose="rehearsal", version=version)
        return self._answers(cache, question.signal, question.ids)

    def training(self, params: Vector, ids: Ids, signals: Sequence[Signal], t: int) -> PendingTraining:
        """Return what :meth:`train` has to train; the caller may do it beforehand."""
        return self._cache_of(params, t).training(ids, tracked_by(signals))

    def train(self, params: Vector, ids: Ids, signals: Sequence[Signal], t: int) -> CohortReturn:
        """Train ``ids`` from ``params``; return the updates, and the signals that clients report with them."""
        self.training(params, ids, signals, t).alone()
        return self.outcome([(self._cache_of(params, t), ids)], signals, self.costs.seconds(ids, t))

    def train_in_blocks(self, params: Vector, ids: Ids, signals: Sequence[Signal], t: int) -> Iterator[CohortReturn]:
        """Train some clients at a time; their updates are forgotten before the next ones train."""
        cache = self._cache_of(params, t)
        for block in cache.train_block_by_block(ids, tracked_by(signals), max_bytes=0):
            yield self.outcome([(cache, block)], signals, self.costs.seconds(block, t))

    def outcome(
        self, parts: Sequence[tuple[RoundCache, Ids]], signals: Sequence[Signal], durations: Floats
    ) -> CohortReturn:
        """Return what trainings gave, as clients send it.

        Args:
            parts: models, and who trained with each; they follow each other.
            signals: what clients report.
            durations: (k,) simulated seconds of all these trainings.
        """
        ids = np.concatenate([NOBODY, *(trained_ids for _, trained_ids in parts)])
        blocks = group_by_block([result for cache, trained_ids in parts for result in cache.results(trained_ids)])
        states = [block.states[rows] for block, rows in blocks if block.states is not None]
        reports: dict[str, Reading] = {}
        for signal in signals:
            readings = [cache.read(signal, trained_ids) for cache, trained_ids in parts]
            reports[signal.name] = self._as_sent(signal, joined_readings(readings))
        return CohortReturn(
            ids=ids,
            deltas=self._updates_as_sent(ids, updates_of(blocks, self.initial.size)),
            reports=reports,
            durations=durations,
            losses=np.concatenate([np.empty(0, np.float32), *(block.losses[rows] for block, rows in blocks)]),
            states=np.concatenate(states) if states else None,
        )

    def rehearse(self, params: Vector, cohort: Cohort, t: int) -> Vector:
        """Return the model that a cohort would give; its training has randomness of its own."""
        version = self._cache_of(params, t).version
        deltas = RoundCache(self, params, t, purpose="rehearsal", version=version).updates(cohort.ids)
        return params + weighted_sum(cohort.weights, self._updates_as_sent(cohort.ids, deltas))

    def _answers(self, cache: RoundCache, signal: Signal, ids: Ids) -> Reading:
        return self._as_sent(signal, cache.read(signal, ids))

    def _as_sent(self, signal: Signal, reading: Reading) -> Reading:
        """Return what clients answer, true or not, where this reading is the truth."""
        if self.adversaries is None:
            return reading
        if self.has_label_counts:
            label_counts = self.label_counts
        else:
            label_counts = np.empty((self.n_clients, 0), np.int64)
        return self.adversaries.reading(signal, reading, label_counts)

    def _updates_as_sent(self, ids: Ids, deltas: Vector) -> Vector:
        """Return the updates that clients send, honest or not, where these are the honest ones."""
        if self.adversaries is None:
            return deltas
        return self.adversaries.updates(ids, np.asarray(deltas))

    def _cache_of(self, params: Vector, t: int) -> RoundCache:
        if self.cache.params is not params or self.cache.t != t:
            self.cache = RoundCache(self, params, t)
        return self.cache


def _as_models_take(data: Dataset) -> Dataset:
    """Return the data with whole numbers prepared; floats are ready."""
    if not isinstance(data.x_train, Inputs) and data.x_train.dtype.kind == "f":
        return data
    return data.prepared()

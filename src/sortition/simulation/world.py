"""The simulator's clients: a data set split over them, a model and a local rule. They answer questions and train.

``measure(params, question, t) -> Reading`` answers a question; ``train(params, ids, signals, t) -> TrainedCohort``
trains a cohort and computes what it reports. Models are flat float32 vectors: params (P,), deltas (k, P). Everything
random depends on (seed, t, client); a client costs nothing until it is asked or selected. What work costs is in
:mod:`.round_costs` (``world.costs``), how good a model is in :mod:`.evaluator` (``world.evaluator``).
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
from sortition.core.cohort import Cohort
from sortition.core.errors import bad, unknown
from sortition.core.inputs import Inputs
from sortition.core.population import Population
from sortition.core.questions import Measure, Reading
from sortition.core.signals import Signal
from sortition.data import Dataset
from sortition.learning import LocalRule
from sortition.learning.fitting import learner_for, trains_on_one
from sortition.learning.objective import Objective
from sortition.learning.task import TaskRule
from sortition.learning.vector import Vector
from sortition.simulation.adaptive_attacks import adversaries_of
from sortition.simulation.attacks import Adversaries, Attacks
from sortition.simulation.devices import ClientData, Devices, Fleet
from sortition.simulation.evaluator import Evaluator
from sortition.simulation.holdings import Holdings
from sortition.simulation.local_states import LocalStates
from sortition.simulation.round_cache import RoundCache, Training, tracked_by
from sortition.simulation.round_costs import Costs
from sortition.simulation.task_data import data_for, is_multi_label

MEASURED = ("train", "holdout")
OF_LABELS = ("histogram", "adaptive")  # attacks that forge label counts


@dataclass(frozen=True, slots=True)
class TrainedCohort:
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
        self.holdings = Holdings(clients, len(self.y), "World.clients")
        if self.holdings.sizes.min() < 1:
            raise bad("World.clients", "≥ 1 training example each", f"client {self.holdings.sizes.argmin()} with none")
        self.evaluated = self.holdings
        if holdout is not None:
            self.evaluated = self._evaluation_parts(clients, holdout)
        self.measured = self.evaluated if measured_on == "holdout" else self.holdings
        self.validation: Ids | None = None
        if validation is not None:
            self.validation = self._server_examples(validation)
        self.learner = learner_for(
            model,
            train_inputs,
            data.y_train,
            rule,
            data.classes,
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
            rule = "one that forges no label counts where the task has no labels (classification only)"
            raise bad("Attacks.kind", rule, attacks.kind)

    def _server_examples(self, validation: npt.ArrayLike) -> Ids:
        """Return the examples of the server; refuse those that a client holds."""
        examples = Holdings([validation], len(self.y), "World.validation").order
        clients_examples = np.concatenate([self.holdings.order, self.evaluated.order])
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
        sizes = self.holdings.sizes
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
            data = ClientData(self.holdings.sizes, self.label_counts if self.has_label_counts else None)
        return Fleet(devices, self.n_clients, self.seed, data)

    def _prepare(self, rule: LocalRule, fleet: Fleet) -> None:
        """Set what follows from the data, the local rule and the devices."""
        self._check_batches(rule)
        self.learner.engine_choice.engine_for(rule)  # refuses, before training, an engine that cannot take the model
        self.rule = rule
        self.fleet = fleet
        self.states = LocalStates.empty(rule, self.learner)
        self.costs = Costs(
            rule=rule, trained=self.holdings, measured=self.measured, fleet=fleet, size=self.initial.size
        )
        self.evaluator = Evaluator(self._test, self.learner.passes, self.evaluated)
        self.cache = RoundCache(self, self.initial, -1)  # of the model that was asked or trained last

    @property
    def n_clients(self) -> int:
        """The number of clients, N."""
        return len(self.holdings)

    @property
    def initial(self) -> Vector:
        """The model before the first round (P,)."""
        return self.learner.initial

    @property
    def has_label_counts(self) -> bool:
        """Whether examples have labels that can be counted: one each, or a mask of several."""
        return bool(self.classes) or self._is_multi_label

    @cached_property
    def label_counts(self) -> Ids:
        """(N, classes) training examples per client and label; an example with a mask counts for all of its labels."""
        if self.classes:
            return self.holdings.label_counts(self.y, self.classes)
        if self._is_multi_label:
            return self.holdings.mask_counts(self.y)
        raise bad("label counts", "asked of labels (classification only)", self.targets)

    @cached_property
    def outputs(self) -> int:
        """How many numbers the model gives for an example, or for a step of a sequence."""
        if self.classes:
            return self.classes
        outputs = self.learner.passes.first_outputs(self.initial, 1)
        return int(outputs.shape[-1]) if outputs.ndim > 1 else 1

    def population(self, **more_facts: Any) -> Population:
        """Return sizes and label counts as clients claim them, and facts that the caller adds (``groups`` …)."""
        facts: dict[str, Any] = {"sizes": self.holdings.sizes}
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

    def at_clock(self, clock: float) -> World:
        """The same where work begins at this second, at which devices may be busy."""
        fleet = self.fleet.at(clock)
        if fleet is self.fleet:
            return self
        twin = self._twin()
        twin.fleet = fleet
        twin.costs = replace(self.costs, fleet=fleet)
        return twin

    def remembering(self, states: LocalStates | None) -> World:
        """Return the same world in a round that begins with these states of the clients' optimisers."""
        if states is None:
            return self
        twin = self._twin()
        twin.states = states
        return twin

    def _twin(self) -> World:
        """Return the same world, in which nobody has computed anything yet."""
        twin = copy.copy(self)
        twin.cache = RoundCache(twin, self.initial, -1)
        return twin

    def _reassign(self, owners: Ids) -> None:
        """Let client k hold the data of client ``owners[k]``; holdings that are one object stay one."""
        is_evaluated_on_training = self.evaluated is self.holdings
        is_measured_on_evaluation = self.measured is self.evaluated
        self.holdings = self.holdings.reassigned(owners)
        self.evaluated = self.holdings if is_evaluated_on_training else self.evaluated.reassigned(owners)
        self.measured = self.evaluated if is_measured_on_evaluation else self.holdings
        self.__dict__.pop("label_counts", None)  # the cached ones are of the earlier owners

    def measure(self, params: Vector, question: Measure, t: int) -> Reading:
        """Return the answers of the asked clients under ``params``, or under the model of a rehearsal."""
        if question.after is None:
            return self._answers(self._cache_of(params, t), question.signal, question.ids)
        trial_model = self.rehearse(params, question.after, t)
        cache = RoundCache(self, trial_model, t, "rehearsal", self._cache_of(params, t).version)
        return self._answers(cache, question.signal, question.ids)

    def training(self, params: Vector, ids: Ids, signals: Sequence[Signal], t: int) -> Training:
        """Return what :meth:`train` has to train; the caller may do it beforehand."""
        return self._cache_of(params, t).training(ids, tracked_by(signals))

    def train(self, params: Vector, ids: Ids, signals: Sequence[Signal], t: int) -> TrainedCohort:
        """Train ``ids`` from ``params``; return the updates, and the signals that clients report with them."""
        self.training(params, ids, signals, t).alone()
        return self._outcome(self._cache_of(params, t), ids, signals)

    def train_in_blocks(self, params: Vector, ids: Ids, signals: Sequence[Signal], t: int) -> Iterator[TrainedCohort]:
        """Train some clients at a time; their updates are forgotten before the next ones train."""
        cache = self._cache_of(params, t)
        for block in cache.in_blocks(ids, tracked_by(signals), max_bytes=0):
            yield self._outcome(cache, block, signals)

    @property
    def block(self) -> int:
        """How many clients of :meth:`train_in_blocks` are trained together."""
        return self.cache.block

    def _outcome(self, cache: RoundCache, ids: Ids, signals: Sequence[Signal]) -> TrainedCohort:
        """Return what a training gave, as clients send it."""
        deltas = self.updates_as_sent(ids, cache.updates(ids))
        results = cache.results(ids)
        states = [block.states[row] for block, row in results if block.states is not None]
        return TrainedCohort(
            ids=ids,
            deltas=deltas,
            reports={signal.name: self._answers(cache, signal, ids) for signal in signals},
            durations=self.costs.seconds(ids, cache.t),
            losses=np.array([block.losses[row] for block, row in results], np.float32),
            states=np.stack(states) if states else None,
        )

    def rehearse(self, params: Vector, cohort: Cohort, t: int) -> Vector:
        """Return the model that a cohort would give; its training has randomness of its own."""
        version = self._cache_of(params, t).version
        deltas = RoundCache(self, params, t, "rehearsal", version).updates(cohort.ids)
        return params + weighted_sum(cohort.weights, self.updates_as_sent(cohort.ids, deltas))

    def _answers(self, cache: RoundCache, signal: Signal, ids: Ids) -> Reading:
        return self.as_sent(signal, cache.read(signal, ids))

    def as_sent(self, signal: Signal, reading: Reading) -> Reading:
        """Return what clients answer, true or not, where this reading is the truth."""
        if self.adversaries is None:
            return reading
        if self.has_label_counts:
            label_counts = self.label_counts
        else:
            label_counts = np.empty((self.n_clients, 0), np.int64)
        return self.adversaries.reading(signal, reading, label_counts)

    def updates_as_sent(self, ids: Ids, deltas: Vector) -> Vector:
        """Return the updates that clients send, honest or not, where these are the honest ones."""
        if self.adversaries is None:
            return deltas
        return self.adversaries.updates(ids, np.asarray(deltas))

    def begin(self, cache: RoundCache) -> None:
        """Use this cache for the model that it holds."""
        self.cache = cache

    def _cache_of(self, params: Vector, t: int) -> RoundCache:
        if self.cache.params is not params or self.cache.t != t:
            self.cache = RoundCache(self, params, t)
        return self.cache


def _as_models_take(data: Dataset) -> Dataset:
    """Return the data with whole numbers prepared; floats are ready."""
    if not isinstance(data.x_train, Inputs) and data.x_train.dtype.kind == "f":
        return data
    return data.prepared()

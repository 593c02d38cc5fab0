"""The simulator's backend: a data set split over clients, a model and a local rule, behind two verbs.

``measure(params, question, t) -> Reading`` answers a question; ``train(params, ids, signals, t) -> TrainedCohort``
trains a cohort and computes what it reports. Models are flat float32 vectors: params (P,), deltas (k, P). Everything
random depends on (seed, t, client); a client costs nothing until it is asked or selected. What work costs is in
:mod:`.costs` (``world.costs``), how good a model is in :mod:`.evaluator` (``world.evaluator``).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from sortition.aggregation import weighted_sum
from sortition.core.arrays import Floats, Ids
from sortition.core.errors import bad, unknown
from sortition.core.inputs import Inputs
from sortition.core.questions import Measure, Reading
from sortition.core.rounds import Cohort, Population
from sortition.core.signals import Signal
from sortition.data import Dataset
from sortition.learning import LocalRule
from sortition.learning.fitting import learner_for, trains_on_one
from sortition.learning.objective import Objective
from sortition.learning.task import TaskRule
from sortition.learning.vector import Vector
from sortition.simulation.adaptive import adversaries_of
from sortition.simulation.attacks import Attacks
from sortition.simulation.costs import Costs
from sortition.simulation.devices import Devices, Fleet
from sortition.simulation.evaluator import Evaluator
from sortition.simulation.holdings import Holdings
from sortition.simulation.local_states import LocalStates
from sortition.simulation.round_cache import RoundCache, Training, tracked_by
from sortition.simulation.task_data import are_masks, data_for

MEASURED = ("train", "holdout")
OF_LABELS = ("histogram", "adaptive")  # attacks that forge label counts


@dataclass(frozen=True, slots=True)
class TrainedCohort:
    """What came back from a cohort, one row per id."""

    ids: Ids
    deltas: Vector  # (k, P)
    reports: dict[str, Reading]
    durations: Floats  # (k,) simulated seconds
    losses: npt.NDArray[np.float32]  # (k,) mean batch loss while training
    states: Vector | None = None  # (k, S) what the optimisers remember, where the rule keeps it


class World:
    """Clients that can be asked and trained.

    Args:
        data: examples; images of bytes are scaled to [0, 1].
        clients: index arrays into the training examples, one per client.
        model: with its initial weights; its outputs are logits, or what the loss of another task takes.
        rule: local training.
        holdout: index arrays that are kept out of training, one per client (may be empty).
        validation: indices of training examples that no client holds, of the server's own, for signals of the server.
        measured_on: where the loss signals are taken: on the ``train`` part or on the ``holdout`` (FedCor's code); a
            client without a hold-out is measured on its training part.
        seed: of batches, dropout masks and devices.
        device: any name that torch knows.
        engine: ``stacked``, ``vmapped``, ``sequential``, or ``auto`` for the one of the rule in docs/engine.md.
        precision: of the passes of a training: ``float32``, or ``bf16`` where clients are not stacked.
        devices: hardware of the clients.
        attacks: how some of them attack.
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
        train, test = data.inputs
        self.y, self.classes, self.seed = data.y_train, data.classes, seed
        self.targets = data.described_targets()
        self._has_masks = are_masks(data)
        self.holdings = Holdings(clients, len(self.y), "World.clients")
        if self.holdings.sizes.min() < 1:
            raise bad("World.clients", "≥ 1 training example each", f"client {self.holdings.sizes.argmin()} with none")
        self.evaluated = self.holdings if holdout is None else self._held_out(clients, holdout)
        self.measured = self.evaluated if measured_on == "holdout" else self.holdings
        self.validation = None if validation is None else self._server_data(validation)
        self.learner = learner_for(
            model,
            train,
            data.y_train,
            rule,
            data.classes,
            device=device,
            engine=engine,
            precision=precision,
            white=data.white,
            objective=None if task is None else Objective(task),
        )
        self._test = self.learner.over(test, data.y_test)
        self.adversaries = None if attacks is None else adversaries_of(attacks, self.n_clients, seed)
        self._check_attacks(attacks)
        if self.adversaries is not None and self.adversaries.owners is not None:
            self._reassign(self.adversaries.owners)
        self._settle(rule, Fleet(devices or Devices(), self.n_clients, seed))

    def _check_attacks(self, attacks: Attacks | None) -> None:
        """Refuse attacks that forge label counts where there are none."""
        if attacks is not None and attacks.kind in OF_LABELS and not self.has_label_counts:
            rule = "one that forges no label counts where the task has no labels (classification only)"
            raise bad("Attacks.kind", rule, attacks.kind)

    def _server_data(self, validation: npt.ArrayLike) -> Ids:
        own = Holdings([validation], len(self.y), "World.validation").order
        if own.size == 0 or np.isin(own, self.holdings.order).any() or np.isin(own, self.evaluated.order).any():
            raise bad("World.validation", "examples that no client holds, one at least", f"{own.size} examples")
        return own

    def _held_out(self, clients: Sequence[npt.ArrayLike], holdout: Sequence[npt.ArrayLike]) -> Holdings:
        if len(holdout) != len(clients):
            raise bad("World.holdout", f"one index array per client, {len(clients)} in all", len(holdout))
        parts = [held if np.size(held) else own for own, held in zip(clients, holdout, strict=True)]
        return Holdings(parts, len(self.y), "World.holdout")

    def _check_batches(self, rule: LocalRule) -> None:
        """Batch normalisation may have no variance of one example, and torch would raise in the middle of a run."""
        if not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in self.learner.model.modules()):
            return
        sizes = self.holdings.sizes
        rows = np.minimum(sizes, rule.batch or sizes)
        alone = (sizes - 1) % rows == 0
        if rule.steps is not None:
            alone &= rule.steps >= -(-sizes // rows)  # otherwise the last batch of an epoch is never reached
        if alone.any() and not trains_on_one(self.learner):
            client = int(np.argmax(alone))
            got = f"a batch of one at client {client} with {int(sizes[client])} examples"
            raise bad("LocalRule.batch", "such that batch normalisation sees two examples or more", got)

    def _settle(self, rule: LocalRule, fleet: Fleet) -> None:
        """What follows from the data, the local rule and the devices."""
        self._check_batches(rule)
        self.learner.engine_for(rule)  # tries the model and refuses an engine that cannot take it, before it trains
        self.rule, self.fleet, self.states = rule, fleet, LocalStates.empty(rule, self.learner)
        self.costs = Costs(rule, self.holdings, self.measured, fleet, self.initial.size)
        self.evaluator = Evaluator(self._test, self.learner.passes, self.evaluated)
        self._cache = RoundCache(self, self.initial, -1)

    @property
    def n_clients(self) -> int:
        """N."""
        return len(self.holdings)

    @property
    def initial(self) -> Vector:
        """The model before the first round (P,)."""
        return self.learner.initial

    @property
    def has_label_counts(self) -> bool:
        """Whether examples have labels that can be counted: one each, or a mask of several."""
        return bool(self.classes) or self._has_masks

    @cached_property
    def label_counts(self) -> Ids:
        """(N, classes) training examples per client and label; an example with a mask counts for all of its labels."""
        if self.classes:
            return self.holdings.label_counts(self.y, self.classes)
        if self._has_masks:
            return self.holdings.mask_counts(self.y)
        raise bad("label counts", "asked of labels (classification only)", self.targets)

    @cached_property
    def outputs(self) -> int:
        """The numbers that the model gives of an example, or of a step of a sequence."""
        if self.classes:
            return self.classes
        outputs = self.learner.passes.first_outputs(self.initial, 1)
        return int(outputs.shape[-1]) if outputs.ndim > 1 else 1

    def population(self, **facts: Any) -> Population:
        """Sizes and label counts as clients claim them, and facts that the owner adds (``features``, ``groups``)."""
        true = {"sizes": self.holdings.sizes, **facts}
        if self.has_label_counts:
            true = {"sizes": self.holdings.sizes, "label_counts": self.label_counts, **facts}
        return Population(**(true if self.adversaries is None else self.adversaries.facts(true)))

    def variant(
        self, rule: LocalRule | None = None, devices: Devices | None = None, owners: Ids | None = None
    ) -> World:
        """The same data, model and seed with another local rule, other devices, or ids that hold others' data.

        Nothing large is copied; behind id k lie the data of client ``owners[k]``.
        """
        twin = copy.copy(self)
        if owners is not None:
            twin._reassign(owners)
        fleet = self.fleet if devices is None else Fleet(devices, self.n_clients, self.seed)
        twin._settle(rule or self.rule, fleet)
        return twin

    def remembering(self, states: LocalStates | None) -> World:
        """The same in a round that begins with these states of the clients' optimisers."""
        if states is None:
            return self
        twin = copy.copy(self)
        twin.states, twin._cache = states, RoundCache(twin, self.initial, -1)
        return twin

    def _reassign(self, owners: Ids) -> None:
        parts = {id(part): part.reassigned(owners) for part in (self.holdings, self.evaluated, self.measured)}
        self.holdings, self.evaluated, self.measured = (
            parts[id(part)] for part in (self.holdings, self.evaluated, self.measured)
        )
        self.__dict__.pop("label_counts", None)  # the cached ones are of the earlier owners

    def measure(self, params: Vector, question: Measure, t: int) -> Reading:
        """The answers of the asked clients under ``params``, or under the model of a rehearsal."""
        if question.after is None:
            return self._answers(self._at(params, t), question.signal, question.ids)
        trial = self.rehearse(params, question.after, t)
        return self._answers(RoundCache(self, trial, t, "rehearsal"), question.signal, question.ids)

    def training(self, params: Vector, ids: Ids, signals: Sequence[Signal], t: int) -> Training:
        """What :meth:`train` has to train; whoever does it beforehand saves it the work."""
        return self._at(params, t).training(ids, tracked_by(signals))

    def train(self, params: Vector, ids: Ids, signals: Sequence[Signal], t: int) -> TrainedCohort:
        """The local training of ``ids`` from ``params``, and the signals that they report with it."""
        self.training(params, ids, signals, t).alone()
        return self._outcome(self._at(params, t), ids, signals)

    def train_in_blocks(self, params: Vector, ids: Ids, signals: Sequence[Signal], t: int) -> Iterator[TrainedCohort]:
        """The same, some clients at a time; their updates are forgotten before the next ones train."""
        cache = self._at(params, t)
        for part in cache.in_blocks(ids, tracked_by(signals), kept=0):
            yield self._outcome(cache, part, signals)

    @property
    def sums_on_device(self) -> bool:
        """Whether updates are added up where they are trained, so that none is brought back from an accelerator."""
        return self.learner.device.type not in ("cpu", "meta")

    def fold(self, params: Vector, ids: Ids, weights: Floats, t: int) -> tuple[TrainedCohort, Floats, Vector]:
        """Train ``ids`` and return the cohort without its updates, their norms (k,), and Σ a_k Δ_k (P,)."""
        cohort = Training(self._at(params, t), ids, frozenset()).drawn()
        folded = self.learner.fold_cohort(cohort, weights)
        outcome = TrainedCohort(
            ids=ids,
            deltas=np.empty((0, params.size), np.float32),
            reports={},
            durations=self.costs.seconds(ids, t),
            losses=folded.losses,
        )
        return outcome, folded.lengths.astype(float), folded.update

    @property
    def block(self) -> int:
        """How many clients of :meth:`train_in_blocks` are trained together."""
        return self._cache.block

    def _outcome(self, cache: RoundCache, ids: Ids, signals: Sequence[Signal]) -> TrainedCohort:
        deltas = self._sent(ids, cache.updates(ids))
        blocks = [cache.trained(client) for client in ids.tolist()]
        losses = np.array([block.losses[row] for block, row in blocks], np.float32)
        reports = {signal.name: self._answers(cache, signal, ids) for signal in signals}
        states = [block.states[row] for block, row in blocks if block.states is not None]
        kept = np.stack(states) if states else None
        return TrainedCohort(ids, deltas, reports, self.costs.seconds(ids, cache.t), losses, kept)

    def rehearse(self, params: Vector, cohort: Cohort, t: int) -> Vector:
        """The model that a cohort would give; its training has randomness of its own."""
        deltas = RoundCache(self, params, t, "rehearsal").updates(cohort.ids)
        return params + weighted_sum(cohort.weights, self._sent(cohort.ids, deltas))

    def _answers(self, cache: RoundCache, signal: Signal, ids: Ids) -> Reading:
        """What clients answer, true or not."""
        reading = cache.read(signal, ids)
        if self.adversaries is None:
            return reading
        label_counts = self.label_counts if self.has_label_counts else np.empty((self.n_clients, 0), np.int64)
        return self.adversaries.reading(signal, reading, label_counts)

    def _sent(self, ids: Ids, deltas: Vector) -> Vector:
        return deltas if self.adversaries is None else self.adversaries.updates(ids, deltas)

    @property
    def cache(self) -> RoundCache:
        """The model that was asked or trained last, and what clients computed with it."""
        return self._cache

    def begin(self, cache: RoundCache) -> None:
        """Use this for the model that it holds."""
        self._cache = cache

    def _at(self, params: Vector, t: int) -> RoundCache:
        if self._cache.params is not params or self._cache.t != t:
            self._cache = RoundCache(self, params, t)
        return self._cache


def _as_models_take(data: Dataset) -> Dataset:
    """Return the data with whole numbers prepared; floats are ready."""
    if not isinstance(data.x_train, Inputs) and data.x_train.dtype.kind == "f":
        return data
    return data.prepared()

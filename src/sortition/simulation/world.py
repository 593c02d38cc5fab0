"""The simulator's backend: a data set split over clients, a model and a local rule, behind two verbs.

``measure(params, question, t) -> Reading`` answers a question, ``train(params, ids, signals, t) -> Outcome`` trains a
cohort and evaluates what it reports. Models are flat float32 vectors: params (P,), deltas (k, P). Everything random
depends on (seed, t, client); a client costs nothing until it is asked or selected.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from sortition.aggregation import weighted_sum
from sortition.core.arrays import Floats, Ids
from sortition.core.errors import bad, unknown
from sortition.core.questions import Measure, Reading
from sortition.core.rounds import Cohort, Population
from sortition.core.signals import BATCH_LOSS, DISPERSION, Signal
from sortition.data import Dataset
from sortition.learning import Learner, LocalRule
from sortition.learning.vector import Vector
from sortition.simulation.attacks import Attacks, Liars
from sortition.simulation.devices import Devices, Fleet
from sortition.simulation.holdings import Holdings, means
from sortition.simulation.round_cache import Moment

MEASURED = ("train", "holdout")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back from a cohort, one row per id."""

    ids: Ids
    deltas: Vector  # (k, P)
    reports: dict[str, Reading]
    durations: Floats  # (k,) simulated seconds
    losses: npt.NDArray[np.float32]  # (k,) mean batch loss while training


class World:
    """Clients that can be asked and trained.

    Args:
        data: examples; images as integers are scaled to [0, 1].
        clients: index arrays into the training examples, one per client.
        model: with its initial weights; its outputs are logits.
        rule: local training.
        holdout: index arrays that are kept out of training, one per client (may be empty).
        measured_on: where the loss signals are taken: on the ``train`` part or on the ``holdout`` (FedCor's code); a
            client without a hold-out is measured on its training part.
        seed: of batches, dropout masks and devices.
        device: any name that torch knows.
        engine: ``auto``, ``stacked`` or ``sequential``.
        devices: hardware of the clients.
        attacks: how some of them lie.
    """

    def __init__(
        self,
        data: Dataset,
        clients: Sequence[npt.ArrayLike],
        model: nn.Module,
        rule: LocalRule,
        *,
        holdout: Sequence[npt.ArrayLike] | None = None,
        measured_on: str = "train",
        seed: int = 0,
        device: str = "cpu",
        engine: str = "auto",
        devices: Devices | None = None,
        attacks: Attacks | None = None,
    ) -> None:
        if measured_on not in MEASURED:
            raise unknown("measured_on", measured_on, MEASURED, "World")
        if measured_on == "holdout" and holdout is None:
            raise bad("World.holdout", "given where losses are measured on it", None)
        data = data if data.x_train.dtype.kind == "f" else data.scaled()
        self.y, self.classes, self.seed = data.y_train, data.classes, seed
        self.holdings = Holdings(clients, len(self.y), "World.clients")
        if self.holdings.sizes.min() < 1:
            raise bad("World.clients", "≥ 1 training example each", f"client {self.holdings.sizes.argmin()} with none")
        self.evaluated = self.holdings if holdout is None else self._held_out(clients, holdout)
        self.measured = self.evaluated if measured_on == "holdout" else self.holdings
        self.learner = Learner(model, data.x_train, data.y_train, rule, device=device, engine=engine)
        self.test = self.learner.over(data.x_test, data.y_test)
        self.liars = None if attacks is None else Liars(attacks, self.n_clients, seed)
        if self.liars is not None and self.liars.tenants is not None:
            self._let(self.liars.tenants)
        self._check_batches(rule)
        self.rule, self._moment = rule, Moment(self, self.learner.initial, -1)
        self.fleet = Fleet(devices or Devices(), self.n_clients, seed)

    def _held_out(self, clients: Sequence[npt.ArrayLike], holdout: Sequence[npt.ArrayLike]) -> Holdings:
        if len(holdout) != len(clients):
            raise bad("World.holdout", f"one index array per client, {len(clients)} in all", len(holdout))
        parts = [held if np.size(held) else own for own, held in zip(clients, holdout, strict=True)]
        return Holdings(parts, len(self.y), "World.holdout")

    def _check_batches(self, rule: LocalRule) -> None:
        """Batch normalisation has no variance of one example, and torch would raise in the middle of a run."""
        if not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in self.learner.model.modules()):
            return
        rows = np.minimum(self.holdings.sizes, rule.batch or self.holdings.sizes)
        if ((self.holdings.sizes - 1) % rows == 0).any():
            client = int(np.argmax((self.holdings.sizes - 1) % rows == 0))
            size = int(self.holdings.sizes[client])
            told = f"a batch of one at client {client} with {size} examples"
            raise bad("LocalRule.batch", "such that batch normalisation sees two examples or more", told)

    @property
    def n_clients(self) -> int:
        """N."""
        return len(self.holdings)

    @property
    def initial(self) -> Vector:
        """The model before the first round (P,)."""
        return self.learner.initial

    @cached_property
    def label_counts(self) -> Ids:
        """(N, classes) training examples per client and label."""
        return self.holdings.label_counts(self.y, self.classes)

    def population(self, **facts: Any) -> Population:
        """Sizes and label counts as clients tell them, and facts that the owner adds (``features``, ``groups``)."""
        told = {"sizes": self.holdings.sizes, "label_counts": self.label_counts, **facts}
        return Population(**(told if self.liars is None else self.liars.facts(told)))

    def variant(
        self, rule: LocalRule | None = None, devices: Devices | None = None, tenants: Ids | None = None
    ) -> World:
        """The same data, model and seed with another local rule, other devices, or ids that hold others' data.

        Nothing large is copied; behind id k lie the data of client ``tenants[k]``.
        """
        twin = copy.copy(self)
        twin.rule = rule or self.rule
        if tenants is not None:
            twin._let(tenants)
        self._check_batches(twin.rule)
        twin.fleet = self.fleet if devices is None else Fleet(devices, self.n_clients, self.seed)
        twin._moment = Moment(twin, self.initial, -1)
        return twin

    def _let(self, tenants: Ids) -> None:
        parts = {id(part): part.let(tenants) for part in (self.holdings, self.evaluated, self.measured)}
        self.holdings, self.evaluated, self.measured = (
            parts[id(part)] for part in (self.holdings, self.evaluated, self.measured)
        )
        self.__dict__.pop("label_counts", None)  # the cached ones are of the earlier tenants

    # -- the two verbs ----------------------------------------------------------------------------------------------

    def measure(self, params: Vector, question: Measure, t: int) -> Reading:
        """The answers of the asked clients under ``params``, or under the model of a rehearsal."""
        if question.after is None:
            return self._told(self._at(params, t), question.signal, question.ids)
        trial = self.rehearse(params, question.after, t)
        return self._told(Moment(self, trial, t, "rehearsal"), question.signal, question.ids)

    def train(self, params: Vector, ids: Ids, signals: Sequence[Signal], t: int) -> Outcome:
        """The local training of ``ids`` from ``params``, and the signals that they report with it."""
        moment = self._at(params, t)
        moment.train(ids, dispersion=any(s.compute is DISPERSION.compute for s in signals))
        deltas = self._sent(ids, moment.updates(ids))
        losses = np.array([block.losses[row] for block, row in map(moment.trained, ids.tolist())], np.float32)
        reports = {signal.name: self._told(moment, signal, ids) for signal in signals}
        return Outcome(ids, deltas, reports, self.durations(ids, t), losses)

    def rehearse(self, params: Vector, cohort: Cohort, t: int) -> Vector:
        """The model that a cohort would give; its training has randomness of its own."""
        deltas = Moment(self, params, t, "rehearsal").updates(cohort.ids)
        return params + weighted_sum(cohort.weights, self._sent(cohort.ids, deltas))

    def _told(self, moment: Moment, signal: Signal, ids: Ids) -> Reading:
        """What clients say, the truth or not."""
        reading = moment.read(signal, ids)
        return reading if self.liars is None else self.liars.reading(signal, reading, self.label_counts)

    def _sent(self, ids: Ids, deltas: Vector) -> Vector:
        return deltas if self.liars is None else self.liars.updates(ids, deltas)

    def _at(self, params: Vector, t: int) -> Moment:
        if self._moment.params is not params or self._moment.t != t:
            self._moment = Moment(self, params, t)
        return self._moment

    # -- what it costs, and how good it is --------------------------------------------------------------------------

    def work(self, ids: Ids) -> Ids:
        """Examples that pass forward and backward when ``ids`` train (k,)."""
        return np.array([self.rule.examples_of(int(n)) for n in self.holdings.sizes[ids]], np.int64)

    def steps(self, ids: Ids) -> Ids:
        """SGD steps of ``ids`` in one round (k,)."""
        return np.array([self.rule.steps_of(int(n)) for n in self.holdings.sizes[ids]], np.int64)

    def reading_work(self, signal: Signal, ids: Ids) -> Ids:
        """Examples that pass forward when ``ids`` answer a signal of the model (k,)."""
        sizes = self.measured.sizes[ids]
        batch = self.rule.batch if signal.compute is BATCH_LOSS.compute else None
        return sizes if batch is None else np.minimum(sizes, batch)

    def durations(self, ids: Ids, t: int) -> Floats:
        """Seconds in which ``ids`` receive the model, train and answer (k,)."""
        return self.fleet.seconds(ids, t, self.work(ids), 8 * self.initial.size)

    def score(self, params: Vector) -> dict[str, float]:
        """Loss and accuracy on the test set."""
        losses, hits = self.test.losses(params)
        return {"loss": float(losses.mean(dtype=np.float64)), "accuracy": float(hits.mean())}

    def client_accuracies(self, params: Vector) -> Floats:
        """(N,) accuracy of each client on its hold-out, or on its training part where it has none."""
        hits = self.learner.passes.losses(params)[1]
        index, sizes = self.evaluated.gather(np.arange(self.n_clients))
        return means(hits[index].astype(np.float32), sizes)

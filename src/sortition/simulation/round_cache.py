"""One model in one round: what clients compute with it, for many at once, kept for the rest of the round.

Any signal works through :class:`SimClient`, one client at a time, on results that were trained together. Loss,
accuracy, gradient and update, which are asked of many, have a batched path of their own; tests check that both give
the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.cost import BYTES_PER_NUMBER
from sortition.core.questions import Reading
from sortition.core.signals import ACCURACY, DISPERSION, GRADIENT, LOSS, RMS_LOSSES, UPDATE, Signal
from sortition.core.streams import stream
from sortition.learning import CohortTrainingResult
from sortition.learning.learner import PARTS
from sortition.learning.vector import Vector
from sortition.simulation.holdings import means

if TYPE_CHECKING:
    from sortition.learning.learner import DrawnCohort
    from sortition.simulation.world import World

BLOCK_BYTES = 64 << 20  # of updates that are trained and answered together
KEPT_BYTES = 512 << 20  # of updates that are remembered for the rest of the round
Tracked = frozenset[str]  # fields of CohortTrainingResult that are measured on demand only
_TRACKED = {DISPERSION.compute: "dispersion"} | {signal.compute: "rms_losses" for signal in RMS_LOSSES.values()}


def tracked_by(signals: Iterable[Signal]) -> Tracked:
    """Return what a training must measure so that these signals can be read from it."""
    return frozenset(_TRACKED[signal.compute] for signal in signals if signal.compute in _TRACKED)


class Result(NamedTuple):
    """What the training of one client gave: a row of a block of clients that trained together."""

    block: CohortTrainingResult
    row: int


class BlockRows(NamedTuple):
    """Some rows of a block of clients that trained together."""

    block: CohortTrainingResult
    rows: list[int]


def group_by_block(results: Sequence[Result]) -> list[BlockRows]:
    """Return the same results in order; those of one block that follow each other are together."""
    parts: list[BlockRows] = []
    latest_block = None
    for block, row in results:
        if block is not latest_block:
            parts.append(BlockRows(block, []))
            latest_block = block
        parts[-1].rows.append(row)
    return parts


def updates_of(parts: Sequence[BlockRows], n_parameters: int) -> Vector:
    """Return the updates (k, P) of these rows; those of a whole block, in its order, are not copied."""
    if len(parts) == 1 and parts[0].rows == list(range(len(parts[0].block.deltas))):
        return parts[0].block.deltas
    n_rows = sum(len(part.rows) for part in parts)
    updates = np.empty((n_rows, n_parameters), np.float32)
    start = 0
    for block, rows in parts:
        stop = start + len(rows)
        np.take(np.asarray(block.deltas), rows, axis=0, out=updates[start:stop], mode="clip")  # writes without a copy
        start = stop
    return updates


def joined_readings(readings: Sequence[Reading]) -> Reading:
    """Return the rows of several readings, of different clients, one after the other."""
    if not readings:
        return Reading.empty()
    if len(readings) == 1:
        return readings[0]
    ids = np.concatenate([reading.ids for reading in readings])
    return Reading(ids, np.concatenate([reading.values for reading in readings]))


@dataclass(slots=True)
class PendingTraining:
    """The local training of one selection: done alone, or together with others.

    Attributes:
        cache: the model, which also keeps the results.
        ids: who trains.
        tracked: what the training must measure.
    """

    cache: RoundCache
    ids: Ids
    tracked: Tracked

    def drawn(self) -> DrawnCohort:
        """Return the cohort with its batches."""
        cache = self.cache
        world = cache.world
        return world.learner.draw_cohort(
            cache.params,
            [world.training_parts.of(int(client)) for client in self.ids],
            self.ids,
            seed=world.seed,
            t=cache.t,
            purpose=cache.purpose,
            dispersion="dispersion" in self.tracked,
            rms_losses="rms_losses" in self.tracked,
            rule=world.rule,
            states=None if world.states is None else world.states.of(self.ids),
            version=cache.version,
        )

    def alone(self) -> None:
        """Train now, without other runs."""
        if self.ids.size:
            self.keep(self.cache.world.learner.train_cohort(self.drawn()))

    def keep(self, trained: CohortTrainingResult) -> None:
        """Keep the results for the rest of the round."""
        for row, client in enumerate(self.ids.tolist()):
            self.cache.put(client, trained, row)


@dataclass(slots=True)
class PendingTrainings:
    """The local trainings that a run waits for: done alone, or together with those of other runs.

    Attributes:
        parts: what is trained, one selection each.
        seconds: their share of the wall-clock seconds of a training together.
    """

    parts: Sequence[PendingTraining] = ()
    seconds: float = 0.0


class RoundCache:
    """The model of one selection, and what clients computed with it.

    Args:
        world: the clients.
        params: the model (P,).
        t: the index of the selection.
        purpose: separates the randomness of a rehearsal from that of the round's own training.
        version: the version of the model, which decides the learning rate; default: t.
    """

    def __init__(
        self, world: World, params: Vector, t: int, purpose: str = "train", version: int | None = None
    ) -> None:
        self.world = world
        self.params = params
        self.t = t
        self.purpose = purpose
        self.version = t if version is None else version
        self._results: dict[int, Result] = {}

    @classmethod
    def empty(cls, world: World) -> RoundCache:
        """Return the cache of a world in which nobody has been asked or trained: no selection has its index."""
        return cls(world, world.initial, -1)

    def read(self, signal: Signal, ids: Ids) -> Reading:
        """Return what the clients ``ids`` answer."""
        if signal.compute is LOSS.compute:
            return Reading(ids, self.losses(ids))
        if signal.compute is ACCURACY.compute:
            return Reading(ids, self.accuracies(ids))
        if signal.compute is UPDATE.compute:
            return Reading(ids, self.updates(ids))
        if signal.compute is GRADIENT.compute and ids.size:
            return Reading(ids, self.gradients(ids))
        if signal.of == "training":
            tables = [self._table(signal, block) for block in self.train_block_by_block(ids, tracked_by([signal]))]
            if not tables:
                return Reading.empty()
            return Reading(ids, np.concatenate(tables))
        return Reading(ids, self._table(signal, ids))

    def _table(self, signal: Signal, ids: Ids) -> Array:
        return signal.table([SimClient(self, int(client)) for client in ids])

    def losses(self, ids: Ids) -> Floats:
        """Return F_k(w) (k,)."""
        return self._means(ids, 0)

    def accuracies(self, ids: Ids) -> Floats:
        """Return the share of right predictions (k,)."""
        return self._means(ids, 1)

    def _means(self, ids: Ids, column: int) -> Floats:
        """Pass once over the examples of all these clients; return a mean for each, of losses (0) or hits (1)."""
        if ids.size == 0:
            return np.empty(0)
        passes = self.world.learner.passes
        index, sizes = self.world.measured_parts.gather(ids)
        reads_nearly_all = 4 * len(self.world.y) <= 5 * index.size
        if reads_nearly_all:  # reading all in order is cheaper than gathering
            return means(passes.losses_and_hits(self.params)[column][index], sizes)
        return means(passes.losses_and_hits(self.params, index)[column], sizes)

    def gradients(self, ids: Ids) -> Vector:
        """Return ∇F_k(w) on all local training data (k, P)."""
        examples = [self.world.training_parts.of(int(client)) for client in ids]
        return self.world.learner.passes.gradients(self.params, examples)

    def updates(self, ids: Ids) -> Vector:
        """Return Δ_k (k, P) of this round's local training."""
        self.train(ids)
        return updates_of(group_by_block(self.results(ids)), self.params.size)

    def train(self, ids: Ids, tracked: Tracked = frozenset()) -> None:
        """Train those of ``ids`` who have not trained with this model in this round, together."""
        self.training(ids, tracked).alone()

    def training(self, ids: Ids, tracked: Tracked) -> PendingTraining:
        """Return the training, not yet done, of those of ``ids`` who have not trained with this model in this round."""
        untrained = [client for client in ids.tolist() if not self.has_trained(client, tracked)]
        return PendingTraining(self, np.array(untrained, np.int64), tracked)

    def has_trained(self, client: int, tracked: Tracked = frozenset()) -> bool:
        """Say whether a client's result is there, with all that is to be measured."""
        result = self._results.get(client)
        if result is None:
            return False
        if not tracked:
            return True
        return all(getattr(result.block, name) is not None for name in tracked)

    def have_trained(self, ids: Ids, tracked: Tracked) -> bool:
        """Say whether the results of all these clients are there, with all that is to be measured."""
        if not tracked:
            return self._results.keys() >= set(ids.tolist())
        return all(self.has_trained(client, tracked) for client in ids.tolist())

    def put(self, client: int, trained: CohortTrainingResult, row: int) -> None:
        """Keep a client's result, a row of what was trained together."""
        self._results[client] = Result(trained, row)

    def forget(self, clients: Iterable[int]) -> None:
        """Forget the results of these clients."""
        for client in clients:
            self._results.pop(client, None)

    def results(self, ids: Ids) -> list[Result]:
        """Return the results of clients that have trained."""
        return [self._results[client] for client in ids.tolist()]

    def trained(self, client: int, tracked: Tracked = frozenset()) -> Result:
        """Return the result of a client; train it where it has not trained yet."""
        self.train(np.array([client]), tracked)
        return self._results[client]

    @property
    def block(self) -> int:
        """Return how many clients are trained and answered together."""
        return max(1, BLOCK_BYTES // (BYTES_PER_NUMBER * self.params.size))

    def train_block_by_block(self, ids: Ids, tracked: Tracked, max_bytes: int | None = None) -> Iterator[Ids]:
        """Yield blocks of ``ids``, trained; where all updates take more than ``max_bytes``, forget a block after use.

        The default of ``max_bytes`` is KEPT_BYTES.
        """
        if max_bytes is None:
            max_bytes = KEPT_BYTES
        for start in range(0, ids.size, self.block):
            block = ids[start : start + self.block]
            untrained = [client for client in block.tolist() if client not in self._results]
            self.train(block, tracked)
            yield block
            if BYTES_PER_NUMBER * self.params.size * len(self._results) > max_bytes:
                self.forget(untrained)


class SimClient:
    """Implements core's ``LocalClient`` for one client in one round: what a signal sees; the data stay behind it."""

    def __init__(self, cache: RoundCache, client: int) -> None:
        self._cache = cache
        self._client = client

    @property
    def label_counts(self) -> Array:
        """Return how many examples of each label the client has (C,)."""
        world = self._cache.world
        if not world.classes:
            return world.label_counts[self._client]
        return np.bincount(world.y[world.training_parts.of(self._client)], minlength=world.classes)

    def resources(self) -> Array:
        """Return the seconds (2,) of this round's training and of sending the model once."""
        return self._cache.world.costs.resources(self._client, self._cache.t)

    def loss(self) -> float:
        """Return F_k(w) on all local data."""
        return float(self._cache.losses(np.array([self._client]))[0])

    def accuracy(self) -> float:
        """Return the share of the local data whose label the model gives."""
        return float(self._cache.accuracies(np.array([self._client]))[0])

    def batch_loss(self) -> float:
        """Return the loss on one mini-batch, drawn by (seed, t, client)."""
        world = self._cache.world
        examples = world.measured_parts.of(self._client)
        rng = stream(world.seed, "loss-batch", self._cache.t, self._client)
        batch = examples[rng.choice(examples.size, world.rule.rows_per_batch(examples.size), replace=False)]
        return float(world.learner.passes.losses_and_hits(self._cache.params, batch)[0].mean(dtype=np.float64))

    def gradient(self) -> Array:
        """Return ∇F_k(w) on all local training data (P,)."""
        world = self._cache.world
        return world.learner.passes.gradient(self._cache.params, world.training_parts.of(self._client))

    def train(self) -> SimResult:
        """Return this round's local training; a cohort trains together, so this is mostly a look-up."""
        block, row = self._cache.trained(self._client)
        return SimResult(self._cache, self._client, block, row)


class SimResult:
    """Implements core's ``LocalResult``: row ``row`` of a cohort's training."""

    def __init__(self, cache: RoundCache, client: int, block: CohortTrainingResult, row: int) -> None:
        self._cache = cache
        self._client = client
        self._block = block
        self._row = row

    @property
    def update(self) -> Array:
        """Return Δ_k (P,)."""
        return self._block.deltas[self._row]

    @property
    def output_weight(self) -> Array:
        """Return the output layer's weight change (C, d)."""
        world = self._cache.world
        weight, _ = world.learner.layout.head(world.outputs)
        return self.update[weight].reshape(world.outputs, -1)

    @property
    def output_bias(self) -> Array:
        """Return the output layer's bias change (C,), or the row means of its weight change."""
        world = self._cache.world
        _, bias = world.learner.layout.head(world.outputs)
        if bias is None:
            return self.output_weight.mean(axis=1)
        return self.update[bias]

    @property
    def loss(self) -> float:
        """Return the mean loss of the batches that the client trained on."""
        return float(self._block.losses[self._row])

    @property
    def steps(self) -> int:
        """Return how many SGD steps the client took."""
        return int(self._block.steps[self._row])

    @property
    def learning_rate(self) -> float:
        """Return the learning rate of the version that was trained."""
        return self._cache.world.rule.lr_at(self._cache.version)

    @cached_property
    def dispersion(self) -> float:
        """Return the spread of the stochastic gradients; the training is repeated where it was not measured."""
        return float(self._measured("dispersion"))

    def rms_loss(self, part: str) -> float:
        """Return the root mean square of losses in a part of the training, which is repeated if it was not measured."""
        return float(self._measured("rms_losses")[PARTS.index(part)])

    def _measured(self, name: str) -> Array:
        """Return this client's row of what a training measures on demand only."""
        if getattr(self._block, name) is None:
            self._block, self._row = self._cache.trained(self._client, frozenset([name]))
        row: Array = getattr(self._block, name)[self._row]
        return row

    @property
    def duration(self) -> float:
        """Return the seconds from when the client receives the model until it has answered."""
        return float(self._cache.world.costs.seconds(np.array([self._client]), self._cache.t)[0])

    def outputs(self, inputs: Array) -> Array:
        """Return the logits of the locally trained model."""
        return self._cache.world.learner.passes.outputs(self._cache.params + self.update, inputs)

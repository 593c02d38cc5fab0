"""One model in one round: what clients compute with it, for many at once, kept for the rest of the round.

Any signal works through :class:`SimClient`, one client at a time, on results that were trained together. Loss,
accuracy, gradient and update, which are asked of many, have a batched path of their own; tests hold it equal to the
open one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sortition.core.arrays import Array, Floats, Ids
from sortition.core.questions import Reading
from sortition.core.signals import ACCURACY, DISPERSION, GRADIENT, LOSS, RMS_LOSSES, UPDATE, Signal
from sortition.learning import Trained
from sortition.learning.vector import Vector
from sortition.simulation.client import SimClient
from sortition.simulation.holdings import means

if TYPE_CHECKING:
    from sortition.learning.learner import DrawnCohort
    from sortition.simulation.world import World

BLOCK_BYTES = 64 << 20  # updates that are trained and answered together
KEPT_BYTES = 512 << 20  # updates that are remembered for the rest of the round
Tracked = frozenset[str]  # fields of Trained that are measured on demand only
_TRACKED = {DISPERSION.compute: "dispersion"} | {signal.compute: "rms_losses" for signal in RMS_LOSSES.values()}


def tracked_by(signals: Iterable[Signal]) -> Tracked:
    """What a training must measure so that these signals can be read from it."""
    return frozenset(_TRACKED[signal.compute] for signal in signals if signal.compute in _TRACKED)


@dataclass(slots=True)
class Training:
    """The local training that a round waits for: done alone, or together with those of other runs."""

    cache: RoundCache
    ids: Ids
    tracked: Tracked
    seconds: float = 0.0  # its share of a training together

    def drawn(self) -> DrawnCohort:
        """The cohort with its batches."""
        cache, world = self.cache, self.cache.world
        return world.learner.cohort(
            cache.params,
            [world.holdings.of(int(i)) for i in self.ids],
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

    @property
    def parts(self) -> Sequence[Training]:
        """What is trained, one selection each."""
        return (self,)

    @property
    def is_done(self) -> bool:
        """Whether everybody has trained, by whomever."""
        return not self.cache.training(self.ids, self.tracked).ids.size

    def alone(self) -> None:
        """Train now."""
        if self.ids.size:
            self.keep(self.cache.world.learner.finish(self.drawn()))

    def keep(self, trained: Trained) -> None:
        """The results, for the rest of the round."""
        self.cache._rows.update({int(i): (trained, row) for row, i in enumerate(self.ids)})


@dataclass(slots=True)
class Trainings:
    """The local trainings of several selections, for one run."""

    parts: Sequence[Training]
    seconds: float = 0.0


class RoundCache:
    """The model ``params`` in selection t; ``purpose`` separates the randomness of a rehearsal from its own.

    The learning rate is that of the model's version, by default t.
    """

    def __init__(
        self, world: World, params: Vector, t: int, purpose: str = "train", version: int | None = None
    ) -> None:
        self.world, self.params, self.t, self.purpose = world, params, t, purpose
        self.version = t if version is None else version
        self._rows: dict[int, tuple[Trained, int]] = {}

    def read(self, signal: Signal, ids: Ids) -> Reading:
        """What the clients ``ids`` answer."""
        if signal.compute is LOSS.compute:
            return Reading(ids, self.losses(ids))
        if signal.compute is ACCURACY.compute:
            return Reading(ids, self.accuracies(ids))
        if signal.compute is UPDATE.compute:
            return Reading(ids, self.updates(ids))
        if signal.compute is GRADIENT.compute and ids.size:
            return Reading(ids, self.gradients(ids))
        if signal.of == "training":
            rows = [self._table(signal, part) for part in self.in_blocks(ids, tracked_by([signal]))]
            return Reading(ids, np.concatenate(rows)) if rows else Reading.empty()
        return Reading(ids, self._table(signal, ids))

    def _table(self, signal: Signal, ids: Ids) -> Array:
        return signal.table([SimClient(self, int(i)) for i in ids])

    def losses(self, ids: Ids) -> Floats:
        """F_k(w) (k,)."""
        return self._means(ids, 0)

    def accuracies(self, ids: Ids) -> Floats:
        """Share of right predictions (k,)."""
        return self._means(ids, 1)

    def _means(self, ids: Ids, what: int) -> Floats:
        """One pass over the examples of all these clients, then a mean for each, of losses (0) or hits (1)."""
        if ids.size == 0:
            return np.empty(0)
        passes, measured = self.world.learner.passes, self.world.measured
        index, sizes = measured.gather(ids)
        if 4 * len(self.world.y) <= 5 * index.size:  # nearly everything: reading all in order is cheaper than gathering
            return means(passes.losses(self.params)[what][index], sizes)
        return means(passes.losses(self.params, index)[what], sizes)

    def gradients(self, ids: Ids) -> Vector:
        """∇F_k(w) on all local training data (k, P)."""
        return self.world.learner.passes.gradients(self.params, [self.world.holdings.of(int(i)) for i in ids])

    def updates(self, ids: Ids) -> Vector:
        """Δ_k (k, P) of this round's local training."""
        self.train(ids)
        blocks = [self._rows[int(i)] for i in ids]
        if not blocks:
            return np.empty((0, self.params.size), np.float32)
        first = blocks[0][0]
        if len(first.deltas) == ids.size and all(b is first and row == i for i, (b, row) in enumerate(blocks)):
            return first.deltas  # the cohort as it was trained
        return np.stack([block.deltas[row] for block, row in blocks])

    def train(self, ids: Ids, tracked: Tracked = frozenset()) -> None:
        """Train those of ``ids`` who have not trained with this model in this round, together."""
        self.training(ids, tracked).alone()

    def training(self, ids: Ids, tracked: Tracked) -> Training:
        """The training of those of ``ids`` who have not trained with this model in this round, not yet done."""
        return Training(self, np.array([i for i in ids if not self._has(int(i), tracked)], np.int64), tracked)

    def has_trained(self, client: int) -> bool:
        """Whether one client's result is there."""
        return client in self._rows

    def put(self, client: int, trained: Trained, row: int) -> None:
        """Keep a result that was trained elsewhere."""
        self._rows[client] = (trained, row)

    def forget(self, client: int) -> None:
        """Let one client's result go."""
        self._rows.pop(client, None)

    def trained(self, client: int, tracked: Tracked = frozenset()) -> tuple[Trained, int]:
        """The block and row where one client's result lies."""
        self.train(np.array([client]), tracked)
        return self._rows[client]

    def _has(self, client: int, tracked: Tracked) -> bool:
        found = self._rows.get(client)
        return found is not None and all(getattr(found[0], what) is not None for what in tracked)

    @property
    def block(self) -> int:
        """How many clients are trained and answered together."""
        return max(1, BLOCK_BYTES // (4 * self.params.size))

    def in_blocks(self, ids: Ids, tracked: Tracked, kept: int = KEPT_BYTES) -> Iterator[Ids]:
        """Parts of ``ids``, trained; where updates take more than ``kept`` bytes, a part is forgotten after its use."""
        for at in range(0, ids.size, self.block):
            part = ids[at : at + self.block]
            new = [int(i) for i in part if int(i) not in self._rows]
            self.train(part, tracked)
            yield part
            if 4 * self.params.size * len(self._rows) > kept:
                for client in new:
                    del self._rows[client]

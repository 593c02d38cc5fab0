"""What clients' work amounts to: examples, SGD steps and simulated seconds, without doing any of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sortition.core.arrays import Floats, Ids
from sortition.core.signals import BATCH_LOSS, Signal
from sortition.learning import LocalRule
from sortition.simulation.devices import FORWARD, Fleet
from sortition.simulation.holdings import Holdings
from sortition.simulation.ledger import NUMBER


@dataclass(frozen=True)
class Costs:
    """The costs of training and of answering, for clients that hold such data on such devices.

    Attributes:
        rule: local training.
        trained: who trains on which examples.
        measured: who measures losses on which examples.
        fleet: the clients' devices.
        size: numbers of the model.
    """

    rule: LocalRule
    trained: Holdings
    measured: Holdings
    fleet: Fleet
    size: int

    def examples(self, ids: Ids) -> Ids:
        """Examples that pass forward and backward when ``ids`` train (k,)."""
        return self._by_size[0][self._kind[ids]]

    def steps(self, ids: Ids) -> Ids:
        """SGD steps of ``ids`` in one round (k,)."""
        return self._by_size[1][self._kind[ids]]

    @cached_property
    def _sizes(self) -> tuple[Ids, Ids]:
        """The different sizes, and which of them each client has."""
        return np.unique(self.trained.sizes, return_inverse=True)

    @property
    def _kind(self) -> Ids:
        return self._sizes[1]

    @cached_property
    def _by_size(self) -> tuple[Ids, Ids]:
        """Examples and steps of a client of each size."""
        sizes = self._sizes[0].tolist()
        examples, steps = ([count(n) for n in sizes] for count in (self.rule.examples_of, self.rule.steps_of))
        return np.array(examples, np.int64), np.array(steps, np.int64)

    def seconds(self, ids: Ids, t: int) -> Floats:
        """Time in which ``ids`` receive the model, train and answer (k,)."""
        model = NUMBER * self.size
        return self.fleet.seconds(ids, t, self.examples(ids), down=model, up=model)

    @property
    def quiet_seconds(self) -> Floats:
        """Time in which each client receives the model, trains and answers (N,), at no busy hour, without jitter."""
        fleet = self.fleet
        everybody = np.arange(fleet.n_clients)
        sending = NUMBER * self.size / fleet.bandwidth_down + NUMBER * self.size / fleet.bandwidth_up
        return np.asarray(self.examples(everybody) / fleet.speed + sending, np.float64)

    def resources(self, client: int, t: int) -> Floats:
        """Time (2,) in which one client trains, and in which it sends the model once."""
        examples = int(self.examples(np.array([client]))[0])
        return self.fleet.seconds(np.array([client, client]), t, [examples, 0], up=[0, NUMBER * self.size])

    def examples_read(self, signal: Signal, ids: Ids) -> Ids:
        """Examples that ``ids`` compute on when they answer a signal of the model (k,)."""
        if signal.backward:  # a gradient is that of the training part
            return self.trained.sizes[ids]
        sizes = self.measured.sizes[ids]
        batch = self.rule.batch if signal.compute is BATCH_LOSS.compute else None
        return sizes if batch is None else np.minimum(sizes, batch)

    def seconds_read(self, signal: Signal, ids: Ids, t: int) -> Floats:
        """Time in which ``ids`` receive the model and answer a signal of it (k,)."""
        sent = NUMBER * (self.size + signal.floats_down)
        share = 1.0 if signal.backward else FORWARD
        return self.fleet.seconds(ids, t, share * self.examples_read(signal, ids), down=sent)

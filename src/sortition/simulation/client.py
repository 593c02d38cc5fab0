"""A simulated client: what a signal sees of it. The data stay behind it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sortition.core.arrays import Array
from sortition.core.streams import stream
from sortition.learning import Trained
from sortition.learning.learner import PARTS

if TYPE_CHECKING:
    from sortition.simulation.round_cache import RoundCache


class SimClient:
    """Implements core's ``LocalClient`` for one client in one round."""

    def __init__(self, cache: RoundCache, client: int) -> None:
        self._cache, self._client = cache, client

    @property
    def label_counts(self) -> Array:
        """Examples per label (C,)."""
        world = self._cache.world
        if not world.classes:
            return world.label_counts[self._client]
        return np.bincount(world.y[world.holdings.of(self._client)], minlength=world.classes)

    def resources(self) -> Array:
        """Seconds (2,) of this round's training and of sending the model once."""
        return self._cache.world.costs.resources(self._client, self._cache.t)

    def loss(self) -> float:
        """F_k(w) on all local data."""
        return float(self._cache.losses(np.array([self._client]))[0])

    def accuracy(self) -> float:
        """Share of the local data whose label the model gives."""
        return float(self._cache.accuracies(np.array([self._client]))[0])

    def batch_loss(self) -> float:
        """The same on one mini-batch, drawn by (seed, t, client)."""
        cache, own = self._cache, self._cache.world.measured.of(self._client)
        rng = stream(cache.world.seed, "loss-batch", cache.t, self._client)
        batch = own[rng.choice(own.size, cache.world.rule.rows(own.size), replace=False)]
        return float(cache.world.learner.passes.losses(cache.params, batch)[0].mean(dtype=np.float64))

    def gradient(self) -> Array:
        """∇F_k(w) on all local training data (P,)."""
        return self._cache.world.learner.passes.gradient(
            self._cache.params, self._cache.world.holdings.of(self._client)
        )

    def train(self) -> SimResult:
        """This round's local training; a cohort trains together, so this is mostly a look-up."""
        return SimResult(self._cache, self._client, *self._cache.trained(self._client))


class SimResult:
    """Implements core's ``LocalResult``: row ``row`` of a cohort's training."""

    def __init__(self, cache: RoundCache, client: int, block: Trained, row: int) -> None:
        self._cache, self._client, self._block, self._row = cache, client, block, row

    @property
    def update(self) -> Array:
        """Δ_k (P,)."""
        return self._block.deltas[self._row]

    @property
    def output_weight(self) -> Array:
        """The output layer's weight change (C, d)."""
        world = self._cache.world
        weight, _ = world.learner.layout.head(world.outputs)
        return self.update[weight].reshape(world.outputs, -1)

    @property
    def output_bias(self) -> Array:
        """The output layer's bias change (C,), or the row means of its weight change."""
        world = self._cache.world
        _, bias = world.learner.layout.head(world.outputs)
        return self.output_weight.mean(axis=1) if bias is None else self.update[bias]

    @property
    def loss(self) -> float:
        """Mean batch loss along the path."""
        return float(self._block.losses[self._row])

    @property
    def steps(self) -> int:
        """SGD steps."""
        return int(self._block.steps[self._row])

    @property
    def learning_rate(self) -> float:
        """The rate of this round."""
        return self._cache.world.rule.lr_at(self._cache.t)

    @cached_property
    def dispersion(self) -> float:
        """Spread of the stochastic gradients; training is repeated to measure it where nobody asked beforehand."""
        return float(self._tracked("dispersion"))

    def rms_loss(self, part: str) -> float:
        """Root mean square of sample losses in a part of the training, which is repeated where nobody asked before."""
        return float(self._tracked("rms_losses")[PARTS.index(part)])

    def _tracked(self, what: str) -> Any:
        """This client's row of what training does not measure unasked."""
        if getattr(self._block, what) is None:
            self._block, self._row = self._cache.trained(self._client, frozenset([what]))
        return getattr(self._block, what)[self._row]

    @property
    def duration(self) -> float:
        """Seconds from receiving the model to having answered."""
        return float(self._cache.world.costs.seconds(np.array([self._client]), self._cache.t)[0])

    def outputs(self, inputs: Array) -> Array:
        """Logits of the locally trained model."""
        return self._cache.world.learner.passes.outputs(self._cache.params + self.update, inputs)

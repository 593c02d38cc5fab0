"""An app's own train function, seen as a LocalResult: what its reply tells, and no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flwr.app import MetricRecord, RecordDict

from sortition.core.arrays import Array
from sortition.core.client import LocalClient
from sortition.core.errors import InputError
from sortition.flower import wire

LOSSES = ("train_loss", "train-loss", "loss")
STEPS = ("steps", "num-steps", "num_steps")
RATES = ("lr", "learning-rate", "learning_rate")


class OwnResult:
    """Implements core's ``LocalResult`` on a reply of the app's own training."""

    def __init__(self, client: OwnTraining, content: RecordDict, duration: float) -> None:
        records = list(content.array_records.values())
        if len(records) != 1:
            raise InputError(f"The app's train function must return one ArrayRecord; got {len(records)}.")
        self.model = wire.tables(records[0])
        self.metrics = next(iter(content.metric_records.values()), MetricRecord())
        self.duration = duration
        self._client = client

    @property
    def update(self) -> Array:
        """Δ_k (P,), in the order of the model's arrays."""
        before = self._client.before
        return wire.flatten({name: self.model[name] for name in before}) - wire.flatten(before)

    def _change(self, name: str) -> Array:
        return self.model[name] - self._client.before[name]

    @property
    def output_weight(self) -> Array:
        """The change of the last array with two axes or more (C, d)."""
        name = [name for name, value in self._client.before.items() if value.ndim > 1][-1]
        return self._change(name).reshape(len(self.model[name]), -1)

    @property
    def output_bias(self) -> Array:
        """The change of the array after it, if it is one number a class; else the row means of the weight's."""
        last = list(self._client.before)[-1]
        weight = self.output_weight
        biased = self._client.before[last].shape == (len(weight),)
        return self._change(last) if biased else weight.mean(axis=1)

    def _told(self, what: str, names: tuple[str, ...]) -> float:
        for source in (self.metrics, self._client.config):
            for name in names:
                if name in source:
                    return float(source[name])
        raise InputError(f"The app's train function must return a metric {names[0]!r}: the selector asks for {what}.")

    @property
    def loss(self) -> float:
        """A metric of the reply."""
        return self._told("the training loss", LOSSES)

    @property
    def steps(self) -> int:
        """A metric of the reply."""
        return int(self._told("the number of local steps", STEPS))

    @property
    def learning_rate(self) -> float:
        """A metric of the reply, or ``lr`` of the train config."""
        return self._told("the learning rate", RATES)

    @property
    def dispersion(self) -> float:
        """A metric of the reply."""
        return self._told("the spread of stochastic gradients", ("dispersion",))

    def outputs(self, inputs: Array) -> Array:
        """Logits of the trained model, where the client can compute them."""
        outputs: Callable[..., Array] | None = getattr(self._client.inner, "outputs_of", None)
        if outputs is None:
            raise InputError("The client must have outputs_of(model, inputs): the selector asks for outputs.")
        return np.asarray(outputs(self.model, inputs))


class OwnTraining:
    """A LocalClient whose training is the app's own function; everything else is the inner client's."""

    def __init__(
        self,
        inner: LocalClient,
        before: dict[str, Array],
        config: Mapping[str, Any],
        run: Callable[[], tuple[RecordDict, float]],
    ) -> None:
        self.inner, self.before, self.config, self._run = inner, before, config, run
        self._result: OwnResult | None = None

    @property
    def label_counts(self) -> Array:
        """Of the inner client."""
        return self.inner.label_counts

    def loss(self) -> float:
        """Of the inner client."""
        return self.inner.loss()

    def batch_loss(self) -> float:
        """Of the inner client."""
        return self.inner.batch_loss()

    def gradient(self) -> Array:
        """Of the inner client."""
        return self.inner.gradient()

    def train(self) -> OwnResult:
        """Run the app's function, once."""
        if self._result is None:
            self._result = OwnResult(self, *self._run())
        return self._result

    @property
    def reply(self) -> OwnResult:
        """What the training gave."""
        return self.train()

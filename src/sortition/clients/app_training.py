"""An app's own training, seen as a LocalResult: what its reply holds, and no more.

The reply is the one that leaves the client, so what was done to it on the way out (clipping, noise) is in every signal
of training that is computed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sortition.clients.models import Model, output_layer, shared_update
from sortition.clients.received import Received
from sortition.core.arrays import Array
from sortition.core.errors import InputError

LOSSES = ("train_loss", "train-loss", "train_logloss", "loss")  # as Flower's own examples call it
STEPS = ("steps", "num-steps", "num_steps")
RATES = ("lr", "learning-rate", "learning_rate")


@dataclass(frozen=True)
class AppReply:
    """What a training function returned: the model, its metrics, and the seconds that it took."""

    model: Model
    metrics: Mapping[str, Any] = field(default_factory=dict)
    duration: float = 0.0


class AppResult:
    """Implements core's ``LocalResult`` on the reply of a training function."""

    def __init__(self, client: AppClient, reply: AppReply) -> None:
        self.reply, self._client = reply, client

    @property
    def duration(self) -> float:
        """Seconds of the training."""
        return float(self._client.part("train")().duration) if self._client.trains_itself else self.reply.duration

    @property
    def update(self) -> Array:
        """Δ_k (P,), in the order of the received arrays; 0 for those that the app keeps at home."""
        return shared_update(self.reply.model, self._client.received.model)

    def _change(self, name: str) -> Array:
        before = self._client.received.model[name]
        return np.asarray(self.reply.model.get(name, before) - before)

    @property
    def output_weight(self) -> Array:
        """The change of the last array with two axes or more (C, d)."""
        weight, _ = output_layer(self._client.received.model)
        if not weight:
            raise InputError("The model must have an output layer of two axes: the selector asks for its change.")
        change = self._change(weight)
        return change.reshape(len(change), -1)

    @property
    def output_bias(self) -> Array:
        """The change of the last array, if it is one number a class and came back; else row means of the weight's."""
        weight = self.output_weight
        _, bias = output_layer(self._client.received.model)
        return self._change(bias) if bias in self.reply.model else weight.mean(axis=1)

    def _metric(self, what: str, names: tuple[str, ...], own: str, *, configured: bool = False) -> float:
        """A number of the client's, where that one trained; else of the reply's metrics, or also of a config."""
        if self._client.trains_itself:
            return float(getattr(self._client.part("train")(), own))
        received = self._client.received
        for source in (self.reply.metrics, *((received.config, received.run_config) if configured else ())):
            for name in names:
                if name in source:
                    return float(source[name])
        raise InputError(f"The app's train function must return a metric {names[0]!r}: the selector asks for {what}.")

    @property
    def loss(self) -> float:
        """A metric of the reply."""
        return self._metric("the training loss", LOSSES, "loss")

    @property
    def steps(self) -> int:
        """A metric of the reply; else what the client's data and the run's ``local-epochs`` make of it."""
        if not any(name in self.reply.metrics for name in STEPS) and not self._client.trains_itself:
            batches = getattr(self._client.inner, "batches", 0)
            epochs = int(self._client.received.run_config.get("local-epochs", 0))
            if batches and epochs:
                return batches * epochs
        return int(self._metric("the number of local steps", STEPS, "steps", configured=True))

    @property
    def learning_rate(self) -> float:
        """A metric of the reply, or ``lr`` of the train config or of the run config."""
        return self._metric("the learning rate", RATES, "learning_rate", configured=True)

    @property
    def dispersion(self) -> float:
        """A metric of the reply."""
        return self._metric("the spread of stochastic gradients", ("dispersion",), "dispersion")

    def rms_loss(self, part: str) -> float:
        """Metric ``rms_loss``, ``rms_loss_first`` or ``rms_loss_last``; else the training loss, as if all alike."""
        if self._client.trains_itself:
            return float(self._client.part("train")().rms_loss(part))
        name = "rms_loss" if part == "all" else f"rms_loss_{part}"
        return float(self.reply.metrics[name]) if name in self.reply.metrics else self.loss

    def outputs(self, inputs: Array) -> Array:
        """Logits of the trained model, where the client can compute them."""
        if self._client.trains_itself:
            return np.asarray(self._client.part("train")().outputs(inputs))
        return np.asarray(self._client.part("outputs_of")(self.reply.model, inputs))


class AppClient:
    """A LocalClient whose training is a function of the app's; everything else is asked of a client made when needed.

    Args:
        received: the message.
        run: trains, and gives the reply.
        make: makes the client that answers for the model and the data; None where there is none.
        trains_itself: whether it is that client that ``run`` lets train.
    """

    def __init__(
        self,
        received: Received,
        run: Callable[[], AppReply],
        make: Callable[[], Any] | None = None,
        *,
        trains_itself: bool = False,
    ) -> None:
        self.received, self.trains_itself = received, trains_itself
        self._run, self._make = run, make

    @cached_property
    def inner(self) -> Any:
        """The client behind, made once."""
        return None if self._make is None else self._make()

    def part(self, name: str) -> Any:
        """A method or attribute of the client behind; said in words where it has none."""
        if self.inner is None:
            raise InputError(
                f"The app must have a client with {name}: the selector asks for it. Give one to answer(app, client)."
            )
        try:
            return getattr(self.inner, name)
        except AttributeError:
            if hasattr(type(self.inner), name):
                raise  # the attribute is there, and it is its code that fails
            raise InputError(
                f"{type(self.inner).__name__} must have {name}: the selector asks for it. Add it to the class."
            ) from None

    @property
    def label_counts(self) -> Array:
        """Of the client behind."""
        return np.asarray(self.part("label_counts"))

    def resources(self) -> Array:
        """Of the client behind."""
        return np.asarray(self.part("resources")())

    def loss(self) -> float:
        """Of the client behind."""
        return float(self.part("loss")())

    def batch_loss(self) -> float:
        """Of the client behind."""
        return float(self.part("batch_loss")())

    def accuracy(self) -> float:
        """Of the client behind."""
        return float(self.part("accuracy")())

    def gradient(self) -> Array:
        """Of the client behind."""
        return np.asarray(self.part("gradient")())

    @cached_property
    def _result(self) -> AppResult:
        return AppResult(self, self._run())

    def train(self) -> AppResult:
        """Run the app's training, once."""
        return self._result

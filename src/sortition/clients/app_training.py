"""An app's own training, seen as a LocalResult: what its reply holds, and no more.

The reply is the one that leaves the client, so what was done to it on the way out (clipping, noise) is in every signal
of training that is computed from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sortition.clients.named_arrays import Model, from_vector, output_layer, shared_update
from sortition.clients.received_model import Config, MakeClient, Received
from sortition.core.arrays import Array
from sortition.core.errors import InputError
from sortition.core.local_client import LocalResult

LOSSES = ("train_loss", "train-loss", "train_logloss", "loss")  # as Flower's own examples call it
STEPS = ("steps", "num-steps", "num_steps")
RATES = ("lr", "learning-rate", "learning_rate")


@dataclass(frozen=True)
class AppReply:
    """What a training function returned.

    Attributes:
        model: the trained arrays by name; those that the app keeps at home are absent.
        metrics: its metrics by name. Default: none.
        duration: seconds that it took.
    """

    model: Model
    metrics: Config = field(default_factory=dict)
    duration: float = 0.0


class AppResult:
    """Implements core's ``LocalResult`` on the reply of a training function."""

    def __init__(self, client: AppClient, reply: AppReply) -> None:
        self.reply = reply
        self._client = client

    @cached_property
    def _clients_own(self) -> LocalResult | None:
        """The result of the client behind, where it is that client that trained; None where the app did."""
        if not self._client.trains_itself:
            return None
        result: LocalResult = self._client.part("train")()
        return result

    @property
    def duration(self) -> float:
        """Seconds of the training."""
        if self._clients_own is not None:
            return float(self._clients_own.duration)
        return self.reply.duration

    @property
    def update(self) -> Array:
        """Δ_k (P,), in the order of the received arrays; 0 for those that the app keeps at home."""
        return shared_update(self.reply.model, self._client.received.model)

    def _change(self, name: str) -> Array:
        """Return the change of one array; 0 where it did not come back."""
        received = self._client.received.model[name]
        return np.asarray(self.reply.model.get(name, received) - received)

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
        weight_change = self.output_weight
        _, bias = output_layer(self._client.received.model)
        if bias in self.reply.model:
            return self._change(bias)
        return np.asarray(weight_change.mean(axis=1))

    def _metric(self, what: str, names: tuple[str, ...], *, or_config: bool = False) -> float:
        """Return the metric of the reply that has one of these names; with ``or_config``, else a value of a config.

        ``what`` says in the message what the selector asks for.
        """
        sources = [self.reply.metrics]
        if or_config:
            sources += [self._client.received.config, self._client.received.run_config]
        for source in sources:
            for name in names:
                if name in source:
                    return float(source[name])
        raise InputError(f"The app's train function must return a metric {names[0]!r}: the selector asks for {what}.")

    @property
    def loss(self) -> float:
        """A metric of the reply."""
        if self._clients_own is not None:
            return float(self._clients_own.loss)
        return self._metric("the training loss", LOSSES)

    @property
    def steps(self) -> int:
        """A metric of the reply; else what the client's data and the run's ``local-epochs`` make of it."""
        if self._clients_own is not None:
            return int(self._clients_own.steps)
        if not any(name in self.reply.metrics for name in STEPS):
            batches: int = getattr(self._client.inner, "batches", 0)
            epochs = int(self._client.received.run_config.get("local-epochs", 0))
            if batches and epochs:
                return batches * epochs
        return int(self._metric("the number of local steps", STEPS, or_config=True))

    @property
    def learning_rate(self) -> float:
        """A metric of the reply, or ``lr`` of the train config or of the run config."""
        if self._clients_own is not None:
            return float(self._clients_own.learning_rate)
        return self._metric("the learning rate", RATES, or_config=True)

    @property
    def dispersion(self) -> float:
        """A metric of the reply."""
        if self._clients_own is not None:
            return float(self._clients_own.dispersion)
        return self._metric("the spread of stochastic gradients", ("dispersion",))

    def rms_loss(self, part: str) -> float:
        """Return the metric ``rms_loss``, ``rms_loss_first`` or ``rms_loss_last``; else the training loss.

        The training loss stands for a root mean square as if the losses of all examples were alike.
        """
        if self._clients_own is not None:
            return float(self._clients_own.rms_loss(part))
        name = "rms_loss" if part == "all" else f"rms_loss_{part}"
        if name in self.reply.metrics:
            return float(self.reply.metrics[name])
        return self.loss

    def outputs(self, inputs: Array) -> Array:
        """Return the logits of the trained model, where the client can compute them."""
        if self._clients_own is not None:
            return np.asarray(self._clients_own.outputs(inputs))
        return np.asarray(self._client.part("outputs_of")(self.reply.model, inputs))


class AppClient:
    """A LocalClient whose training is a function of the app's; everything else is asked of a client made when needed.

    Args:
        received: the message.
        run: trains, and gives the reply.
        make_client: makes, of the message, the client that answers for the model and the data; None where there is
            none.
        trains_itself: whether it is that client that ``run`` lets train.
    """

    def __init__(
        self,
        received: Received,
        run: Callable[[], AppReply],
        make_client: MakeClient | None = None,
        *,
        trains_itself: bool = False,
    ) -> None:
        self.received = received
        self.trains_itself = trains_itself
        self._run = run
        self._make_client = make_client

    @cached_property
    def inner(self) -> object:
        """The client behind, made once; None where there is none."""
        if self._make_client is None:
            return None
        return self._make_client(self.received)

    def part(self, name: str) -> Any:
        """Return a method or attribute of the client behind; say what is missing where it has none."""
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
        """The label counts of the client behind."""
        return np.asarray(self.part("label_counts"))

    def resources(self) -> Array:
        """Ask the client behind."""
        return np.asarray(self.part("resources")())

    def loss(self) -> float:
        """Ask the client behind."""
        return float(self.part("loss")())

    def batch_loss(self) -> float:
        """Ask the client behind."""
        return float(self.part("batch_loss")())

    def accuracy(self) -> float:
        """Ask the client behind."""
        return float(self.part("accuracy")())

    def gradient(self) -> Array:
        """Ask the client behind."""
        return np.asarray(self.part("gradient")())

    def trained_by_itself(self) -> Model:
        """Return the model that the client behind trains, where the app has no training function."""
        update = np.asarray(self.part("train")().update)
        return from_vector(self.received.vector + update, self.received.model)

    @cached_property
    def _result(self) -> AppResult:
        return AppResult(self, self._run())

    def train(self) -> AppResult:
        """Run the app's training, once."""
        return self._result

"""A PyTorch module and its examples as a LocalClient: the same losses, gradients and batches as in the simulator."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Context

from sortition.core.arrays import Array
from sortition.core.errors import bad
from sortition.core.streams import stream
from sortition.flower.client import Received

if TYPE_CHECKING:
    from sortition.learning import Learner, LocalRule, Trained

Load = Callable[[Context], tuple[Any, Any, Any]]  # (module, examples x, labels y) of one node


class PyTorch:
    """Makes clients; see :func:`pytorch`."""

    def __init__(self, load: Load, rule: LocalRule | None, seed: int, device: str, engine: str) -> None:
        self.load, self.rule, self.seed, self.device, self.engine = load, rule, seed, device, engine
        self.trains = rule is not None

    def __call__(self, received: Received) -> TorchClient:
        """The client that received this model."""
        return TorchClient(self, received)

    def facts(self, context: Context) -> dict[str, Array]:
        """Size and label counts of the node's data."""
        model, _, y = self.load(context)
        counts = np.bincount(np.asarray(y), minlength=_classes(model))
        return {"sizes": counts.sum(), "label_counts": counts}


def pytorch(
    load: Load, rule: LocalRule | None = None, *, seed: int = 0, device: str = "cpu", engine: str = "auto"
) -> PyTorch:
    """Clients of a PyTorch model for :func:`sortition.flower.answer`.

    Args:
        load: from a node's context to (module, x, y): a model whose outputs are logits, examples and labels.
        rule: local training; None where the app has a train function of its own.
        seed: of batches and dropout masks, keyed by round and client; the simulator's of the same seed are the same.
        device: any name that torch knows.
        engine: as in the simulator.
    """
    return PyTorch(load, rule, seed, device, engine)


def _classes(model: Any) -> int:
    return int(list(model.parameters())[-1].shape[0])


class TorchClient:
    """Implements core's ``LocalClient`` for one node and one message."""

    def __init__(self, maker: PyTorch, received: Received) -> None:
        from sortition.learning import Learner, LocalRule

        self.received, self.seed, self.begun = received, maker.seed, time.monotonic()
        model, x, y = maker.load(received.context)
        self.classes, self.y = _classes(model), np.asarray(y)
        rule = maker.rule or LocalRule(lr=1.0, steps=1)  # of which only the batch is used: the app trains itself
        if "proximal-mu" in received.config:
            rule = replace(rule, proximal=float(received.config["proximal-mu"]))
        self.rule = rule
        self.learner: Learner = Learner(model, np.asarray(x), self.y, rule, device=maker.device, engine=maker.engine)
        self.params = self.vector(received.model)

    def vector(self, model: dict[str, Array]) -> Array:
        """A model as the learner's vector: parameters first, then running statistics."""
        layout = self.learner.layout
        for name, shape in zip(layout.names, layout.shapes, strict=True):
            if name not in model or model[name].shape != shape:
                raise bad("model", f"one with {name} of shape {shape}", sorted(model), "Send model.state_dict().")
        return np.concatenate([model[name].reshape(-1) for name in layout.names]).astype(np.float32, copy=False)

    def in_order(self, vector: Array) -> Array:
        """From the learner's order to that of the arrays in the message."""
        layout, start, parts = self.learner.layout, 0, {}
        for name, size in zip(layout.names, layout.sizes, strict=True):
            parts[name] = vector[start : start + size]
            start += size
        sent = [name for name, value in self.received.model.items() if value.dtype.kind == "f"]
        return np.concatenate([parts[name] for name in sent])

    @property
    def _everything(self) -> Array:
        return np.arange(len(self.y))

    @property
    def label_counts(self) -> Array:
        """Examples per label (C,)."""
        return np.bincount(self.y, minlength=self.classes)

    def loss(self) -> float:
        """F_k(w) on all local data."""
        return float(self.learner.passes.losses(self.params)[0].mean(dtype=np.float64))

    def batch_loss(self) -> float:
        """The same on one mini-batch, drawn by (seed, t, client)."""
        rng = stream(self.seed, "loss-batch", self.received.task.t, self.received.task.client)
        batch = rng.choice(len(self.y), self.rule.rows(len(self.y)), replace=False)
        return float(self.learner.passes.losses(self.params, batch)[0].mean(dtype=np.float64))

    def gradient(self) -> Array:
        """∇F_k(w) on all local data (P,)."""
        return self.in_order(self.learner.passes.gradient(self.params, self._everything))

    def outputs_of(self, model: dict[str, Array], inputs: Array) -> Array:
        """Logits of a model."""
        return self.learner.passes.outputs(self.vector(model), inputs)

    @cached_property
    def _result(self) -> TorchResult:
        return TorchResult(self, self.trained())

    def train(self) -> TorchResult:
        """This round's local training, once."""
        return self._result

    def trained(self, dispersion: bool = False) -> Trained:
        """Train on batches that belong to (seed, purpose, t, client)."""
        task = self.received.task
        return self.learner.train(
            self.params,
            [self._everything],
            np.array([task.client]),
            seed=self.seed,
            t=task.t,
            purpose=task.purpose,
            dispersion=dispersion,
        )


class TorchResult:
    """Implements core's ``LocalResult``."""

    def __init__(self, client: TorchClient, trained: Trained) -> None:
        self._client, self._delta = client, trained.deltas[0]
        self.loss, self.steps = float(trained.losses[0]), int(trained.steps[0])
        self.learning_rate = client.rule.lr_at(client.received.task.t)
        self.duration = time.monotonic() - client.begun

    @property
    def update(self) -> Array:
        """Δ_k (P,), in the order of the arrays in the message."""
        return self._client.in_order(self._delta)

    @property
    def output_weight(self) -> Array:
        """The output layer's weight change (C, d)."""
        weight, _ = self._client.learner.layout.head(self._client.classes)
        return self._delta[weight].reshape(self._client.classes, -1)

    @property
    def output_bias(self) -> Array:
        """The output layer's bias change (C,), or the row means of its weight change."""
        _, bias = self._client.learner.layout.head(self._client.classes)
        return self.output_weight.mean(axis=1) if bias is None else self._delta[bias]

    @cached_property
    def dispersion(self) -> float:
        """Spread of the stochastic gradients; training is repeated to measure it."""
        spread = self._client.trained(dispersion=True).dispersion
        return 0.0 if spread is None else float(spread[0])

    def outputs(self, inputs: Array) -> Array:
        """Logits of the locally trained model."""
        return self._client.learner.passes.outputs(self._client.params + self._delta, inputs)

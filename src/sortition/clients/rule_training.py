"""Local training by a rule, as the simulator does it: the same batches, masks and steps for the same seed."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sortition.core.arrays import Array
from sortition.core.errors import bad

if TYPE_CHECKING:
    from sortition.clients.pytorch import TorchClient
    from sortition.learning import LocalRule
    from sortition.learning.learner import CohortTrainingResult
    from sortition.learning.objective import Objective


def _objective(client: TorchClient, y: Array) -> Objective | None:
    """Return what a training by rule minimises, the same as :meth:`TorchClient.loss`; None for labels (n,)."""
    from sortition.learning.objective import Objective
    from sortition.learning.task import COMPUTED_BY_MODEL, CROSS_ENTROPY, TaskRule

    loss = client.maker.loss
    if isinstance(loss, str):
        return None if loss == CROSS_ENTROPY and y.ndim == 1 else Objective(TaskRule(loss=loss, metric="loss"))
    if loss is not None:
        return Objective.of_function(loss)
    if hasattr(client.model, "config"):
        return Objective(TaskRule(loss=COMPUTED_BY_MODEL))
    if y.dtype.kind == "f":
        return Objective(TaskRule(loss="mse"))
    if y.ndim == 1:
        return None
    gives_masks = client.output_axes == y.ndim
    return Objective(TaskRule(loss="bce" if gives_masks else CROSS_ENTROPY, metric="loss"))


class RuleResult:
    """Implements core's ``LocalResult`` for a module that is trained by a :class:`~sortition.learning.LocalRule`."""

    def __init__(self, client: TorchClient, rule: LocalRule) -> None:
        from sortition.learning.fitting import check_objective
        from sortition.learning.learner import Learner

        received = client.received
        if "proximal-mu" in received.config:
            rule = replace(rule, proximal=float(received.config["proximal-mu"]))
        x, y = client.data.arrays
        self._client = client
        self._n_examples = len(y)
        objective = _objective(client, y)
        if objective is not None and objective.rule.wants_numbers:
            y = y.astype(np.float32)
        self._learner = Learner(
            client.model,
            x,
            y,
            rule,
            device=client.maker.device,
            engine=client.maker.engine,
            channels_last=False,
            objective=objective,
        )
        if objective is not None:
            check_objective(self._learner, objective)
        self._received_vector = self._in_learners_order()
        trained = self._train()
        self._delta = np.asarray(trained.deltas[0])
        self.loss = float(trained.losses[0])
        self.steps = int(trained.steps[0])
        self.learning_rate = rule.lr_at(received.t)
        self.duration = time.monotonic() - client.begun

    def _in_learners_order(self) -> Array:
        """Return the received model as a vector in the learner's order: parameters first, then running statistics."""
        names = self._learner.layout.names
        model = self._client.received.model
        for name in names:
            if name not in model:
                raise bad("model", f"one with {name}", sorted(model), "Send model.state_dict().")
        return np.concatenate([model[name].reshape(-1) for name in names]).astype(np.float32, copy=False)

    def _train(self, *, dispersion: bool = False, rms_losses: bool = False) -> CohortTrainingResult:
        """Train on batches that belong to (seed, purpose, t, client)."""
        received = self._client.received
        return self._learner.train(
            self._received_vector,
            [np.arange(self._n_examples)],
            np.array([received.client]),
            seed=self._client.maker.seed,
            t=received.t,
            purpose=received.purpose,
            dispersion=dispersion,
            rms_losses=rms_losses,
        )

    @property
    def update(self) -> Array:
        """Δ_k (P,), in the order of the received arrays."""
        layout = self._learner.layout
        change_by_name = {}
        start = 0
        for name, size in zip(layout.names, layout.sizes, strict=True):
            change_by_name[name] = self._delta[start : start + size]
            start += size
        model = self._client.received.model
        return np.concatenate([change_by_name[name] for name, value in model.items() if value.dtype.kind == "f"])

    @property
    def output_weight(self) -> Array:
        """The output layer's weight change (C, d)."""
        weight, _ = self._learner.layout.head(self._client.classes)
        return np.asarray(self._delta[weight].reshape(self._client.classes, -1))

    @property
    def output_bias(self) -> Array:
        """The output layer's bias change (C,), or the row means of its weight change."""
        _, bias = self._learner.layout.head(self._client.classes)
        if bias is None:
            return np.asarray(self.output_weight.mean(axis=1))
        return np.asarray(self._delta[bias])

    @cached_property
    def dispersion(self) -> float:
        """Spread of the stochastic gradients; training is repeated to measure it."""
        spread = self._train(dispersion=True).dispersion
        return 0.0 if spread is None else float(spread[0])

    @cached_property
    def _rms_losses(self) -> Array | None:
        return self._train(rms_losses=True).rms_losses

    def rms_loss(self, part: str) -> float:
        """Return the root mean square of sample losses in a part of the training, which is repeated to measure it."""
        from sortition.learning.learner import PARTS

        if self._rms_losses is None:
            return 0.0
        return float(self._rms_losses[0, PARTS.index(part)])

    def outputs(self, inputs: Array) -> Array:
        """Return the logits of the locally trained model."""
        return np.asarray(self._learner.passes.outputs(self._received_vector + self._delta, np.asarray(inputs)))

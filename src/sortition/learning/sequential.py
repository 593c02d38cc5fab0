"""Trains one client after the other, for any ``torch.nn.Module``: convolutions are fastest so on a CPU.

Images are kept channels-last, gradients come from ``autograd.grad`` without an optimiser object, and the update runs
over all tensors at once (``torch._foreach``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from sortition.learning import dropout, optimiser, vector
from sortition.learning.batches import BatchPlan
from sortition.learning.examples import AnyExamples
from sortition.learning.objective import Objective, outputs_of
from sortition.learning.precision import forward_precision
from sortition.learning.rule import LocalRule


class SequentialTrainer:
    """The one model through which all clients train, with its keyed dropout layers."""

    def __init__(
        self,
        model: nn.Module,
        examples: AnyExamples,
        labels: Tensor,
        objective: Objective | None = None,
        precision: str = "float32",
    ) -> None:
        self.model = model
        self.precision = precision
        self.objective = objective
        self.examples = examples
        self.labels = labels
        self.layout = vector.Layout.of(model)
        self.dropout_layers = dropout.replace_dropouts(model)
        counters = [buffer for buffer in model.buffers() if not buffer.is_floating_point()]
        self._counters_and_initial_values = [(counter, counter.clone()) for counter in counters]
        if examples.is_image:
            model.to(memory_format=torch.channels_last)

    def train(
        self,
        start: Tensor,
        plan: BatchPlan,
        *,
        rule: LocalRule,
        lr: float,
        dropout_source: np.random.BitGenerator | None,
        measures_dispersion: bool,
        squared_losses: Tensor | None = None,
        state: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Train one client and return its local vector (P,), the sum of its batch losses, and its dispersion.

        Nothing is read back from the device.

        Args:
            start: (P,) the parameters from which it begins.
            plan: its batches.
            rule: the local rule.
            lr: its learning rate in this round.
            dropout_source: where its dropout words come from.
            measures_dispersion: whether to measure the spread of the stochastic gradients; otherwise it is 0.
            squared_losses: (steps,) is filled with the mean squared loss of the examples of each batch.
            state: (S,) what the optimiser remembers of the client, is read and then overwritten with what it remembers
                now.
        """
        vector.load_into(self.model, self.layout, start)
        self.model.train()
        for layer in self.dropout_layers:
            layer.source = dropout_source
            layer.rows = plan.index.shape[1]
        parameters = list(self.model.parameters())
        descent = SequentialDescent(parameters, rule, lr, measures_dispersion=measures_dispersion, state=state)
        index = torch.as_tensor(plan.index, device=start.device)
        loss_sum = torch.zeros((), device=start.device)
        for step, count in enumerate(plan.counts.tolist()):
            batch = index[step, :count]
            loss, outputs = self._forward(batch)
            if squared_losses is not None:
                squared_losses[step] = self._mean_square(outputs.detach(), self.labels[batch])
            descent.take_step(torch.autograd.grad(loss, parameters, allow_unused=True))
            loss_sum += loss.detach()
        local_params = torch.cat([tensor.detach().reshape(-1) for tensor in vector.model_tensors(self.model)])
        for counter, initial_value in self._counters_and_initial_values:  # counters are not exchanged: start anew
            counter.copy_(initial_value)
        if state is not None:
            state.copy_(descent.packed_state())
        return local_params, loss_sum, descent.dispersion(plan.steps)

    def _forward(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean loss of a batch, which can be differentiated, and the outputs."""
        x = self.examples.take(batch)
        with forward_precision(batch.device, self.precision):
            if self.objective is not None:
                return self.objective.batch_loss(self.model, x, self.labels[batch])
            logits = outputs_of(self.model, x)
        return nn.functional.cross_entropy(logits.float(), self.labels[batch]), logits

    def _mean_square(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean squared loss of the examples of a batch."""
        if self.objective is not None:
            return self.objective.example_losses(outputs, labels).square().mean()
        return nn.functional.cross_entropy(outputs, labels, reduction="none").square().mean()


class SequentialDescent:
    """Applies the local rule to the parameters of one client, in place."""

    def __init__(
        self,
        parameters: Sequence[Tensor],
        rule: LocalRule,
        lr: float,
        *,
        measures_dispersion: bool,
        state: Tensor | None = None,
    ) -> None:
        self.values = [parameter.data for parameter in parameters]
        self.rule = rule
        self.lr = lr
        self.anchor: list[Tensor] | None = None
        if rule.proximal:
            self.anchor = [value.clone() for value in self.values]
        self.moments = [[torch.zeros_like(value) for _ in range(rule.n_moments)] for value in self.values]
        self.adam_steps = 0  # over all participations that Adam remembers
        if state is not None:
            self._restore_state(state)
        self.gradient_sum: list[Tensor] | None = None
        if measures_dispersion:
            self.gradient_sum = [torch.zeros_like(value) for value in self.values]
        self.squared_gradients = torch.zeros((), dtype=_sum_dtype(self.values[0].device), device=self.values[0].device)

    @torch.no_grad()
    def take_step(self, gradients: Sequence[Tensor | None]) -> None:
        """Take one step; parameters that the loss does not depend on stay as they are, as in torch."""
        rule = self.rule
        trained = [i for i, gradient in enumerate(gradients) if gradient is not None]
        directions = [gradient for gradient in gradients if gradient is not None]
        values = [self.values[i] for i in trained]
        moments = [self.moments[i] for i in trained]
        if self.gradient_sum is not None:
            torch._foreach_add_([self.gradient_sum[i] for i in trained], directions)
            self.squared_gradients += _squared_norm(directions)
        if rule.decay_coefficient:
            torch._foreach_add_(directions, values, alpha=rule.decay_coefficient)
        if self.anchor is not None:
            torch._foreach_add_(directions, [self.anchor[i] for i in trained], alpha=-rule.proximal)
        if rule.optimizer == "adam":
            self._take_adam_step(values, directions, moments)
            return
        if rule.momentum:
            velocities = [velocity for (velocity,) in moments]
            torch._foreach_mul_(velocities, rule.momentum)
            torch._foreach_add_(velocities, directions)
            directions = velocities
        torch._foreach_add_(values, directions, alpha=-self.lr)

    def _take_adam_step(
        self, values: Sequence[Tensor], gradients: Sequence[Tensor], moments: Sequence[Sequence[Tensor]]
    ) -> None:
        self.adam_steps += 1
        step_size, bias_correction2_sqrt = optimiser.adam_corrections(self.adam_steps, self.lr)
        for value, gradient, (first_moment, second_moment) in zip(values, gradients, moments, strict=True):
            optimiser.adam_step(
                value,
                gradient,
                first_moment,
                second_moment,
                step_size=step_size,
                bias_correction2_sqrt=bias_correction2_sqrt,
            )

    def _restore_state(self, state: Tensor) -> None:
        """Begin with what the optimiser remembers (S,)."""
        stack_of_one = [value[None] for value in self.values]
        moments = optimiser.unpack_moments(state[None], stack_of_one, self.rule.n_moments)
        self.moments = [[moment[0] for moment in moments_of_parameter] for moments_of_parameter in moments]
        if self.rule.optimizer == "adam":
            self.adam_steps = int(state[-1])

    def packed_state(self) -> Tensor:
        """Return what the optimiser remembers now (S,)."""
        steps = None
        if self.rule.optimizer == "adam":
            steps = self.values[0].new_tensor([float(self.adam_steps)])
        stack_of_one = [[moment[None] for moment in moments_of_parameter] for moments_of_parameter in self.moments]
        return optimiser.pack_states(stack_of_one, steps)[0]

    def dispersion(self, steps: int) -> Tensor:
        """Return sqrt((Σ‖g_s‖² − ‖Σ g_s‖²/R) / (R − 1)); 0 for a single step or when not tracked."""
        if self.gradient_sum is None or steps < 2:
            return torch.zeros_like(self.squared_gradients)
        variance = (self.squared_gradients - _squared_norm(self.gradient_sum) / steps) / (steps - 1)
        return variance.clamp_min(0).sqrt()


def _squared_norm(tensors: Sequence[Tensor]) -> Tensor:
    norms = torch.stack(torch._foreach_norm(list(tensors)))
    return norms.square().sum().to(_sum_dtype(norms.device))


def _sum_dtype(device: torch.device) -> torch.dtype:
    """Return the type in which squares are added up; Apple's devices have no float64."""
    return torch.float32 if device.type == "mps" else torch.float64

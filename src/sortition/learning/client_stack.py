"""The parameters (k, …) of all clients of a stack, the local rule that moves them, and what their training gives.

Both engines that train a cohort at once use this: the one for linear chains, and the one that maps any model over
clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sortition.learning import optimiser
from sortition.learning.batches import BatchPlan
from sortition.learning.examples import AnyExamples, first_rows
from sortition.learning.rule import LocalRule
from sortition.learning.vector import flatten_rows

STACK_BYTES = 64 << 20  # parameters of one stack; a larger cohort trains in several


def clients_per_stack(n_parameters: int) -> int:
    """Return how many clients with models of this size are trained at once at most."""
    return max(1, STACK_BYTES // (4 * n_parameters))


# ---- what a stack trains, and what its training gives


@dataclass(frozen=True, slots=True, kw_only=True)
class StackJob:
    """The training of k clients in one stack.

    Attributes:
        initial: the tensors from which each client begins (k, …), in the order of the layout.
        trainable: how many of these are parameters: the first ones.
        examples: all examples.
        labels: (n,), or targets (n, …).
        plans: one per client, those with most steps first.
        rule: the local rule.
        lr: its learning rate in this round.
        dropout_sources: of dropout words, one per client; None without dropout.
        measures_dispersion: whether to measure the spread of the stochastic gradients.
        measures_squared_losses: whether to measure the mean squared loss of the examples of each batch.
        states: what the optimiser remembers of the clients (k, S); None where it starts anew.
    """

    initial: Sequence[Tensor]
    trainable: int
    examples: AnyExamples
    labels: Tensor
    plans: Sequence[BatchPlan]
    rule: LocalRule
    lr: float
    dropout_sources: Sequence[np.random.BitGenerator] | None = None
    measures_dispersion: bool = False
    measures_squared_losses: bool = False
    states: Tensor | None = None

    @property
    def device(self) -> torch.device:
        """Return where the clients train."""
        return self.labels.device


@dataclass(frozen=True, slots=True)
class StackResult:
    """What the training of a stack of k clients gave.

    Attributes:
        updates: (k, P).
        losses: (k,) mean batch losses.
        dispersion: (k,) spread of the stochastic gradients; None where it is not measured.
        squared_losses: (k, steps) mean squared losses of the examples of each batch; None where they are not measured.
        states: (k, S) what the optimiser remembers; None where it starts anew in every round.
    """

    updates: Tensor
    losses: Tensor
    dispersion: Tensor | None
    squared_losses: Tensor | None
    states: Tensor | None

    @property
    def measured(self) -> dict[str, Tensor]:
        """Return what there is beside the updates, by name."""
        optional = {
            "losses": self.losses,
            "dispersion": self.dispersion,
            "squared_losses": self.squared_losses,
            "states": self.states,
        }
        return {name: tensor for name, tensor in optional.items() if tensor is not None}

    def of_rows(self, rows: Tensor) -> StackResult:
        """Return what some of the clients got."""
        return StackResult(
            updates=self.updates[rows],
            losses=self.losses[rows],
            dispersion=_rows_of(self.dispersion, rows),
            squared_losses=_rows_of(self.squared_losses, rows),
            states=_rows_of(self.states, rows),
        )


def _rows_of(tensor: Tensor | None, rows: Tensor) -> Tensor | None:
    if tensor is None:
        return None
    return tensor[rows]


# ---- the local rule


@dataclass
class StackedParameter:
    """One parameter of all clients of a stack (k, …) with what the local rule needs of it.

    Attributes:
        value: the parameter, which the training changes.
        anchor: where each client began.
        moments: none, a velocity, or Adam's two.
        gradient_sum: the sum of the gradients; only where the dispersion is measured.
    """

    value: Tensor
    anchor: Tensor
    moments: Sequence[Tensor] = ()
    gradient_sum: Tensor | None = None

    def of_first_clients(self, count: int) -> StackedParameter:
        """Return the parameter of the first clients, in the same memory."""
        gradient_sum = self.gradient_sum
        if gradient_sum is not None:
            gradient_sum = first_rows(gradient_sum, count)
        return StackedParameter(
            value=first_rows(self.value, count),
            anchor=first_rows(self.anchor, count),
            moments=[first_rows(moment, count) for moment in self.moments],
            gradient_sum=gradient_sum,
        )


@dataclass
class StackedDescent:
    """Applies the local rule of one round to parameters, in place: SGD with momentum, or Adam.

    Attributes:
        rule: the local rule.
        lr: its learning rate in this round.
        squared_gradients: (k,) Σ_s ‖g_s‖²; only where the dispersion is measured.
        adam_corrections: Adam's step size and bias correction (k,) of the current step; None for SGD.
    """

    rule: LocalRule
    lr: float
    squared_gradients: Tensor | None = None
    adam_corrections: tuple[Tensor, Tensor] | None = None

    def descend(self, parameter: StackedParameter, left_factor: Tensor, right_factor: Tensor | None) -> None:
        """Descend along a gradient (k, a, c), given as factors (k, a, b) and (k, b, c), or as the left one alone."""
        value = parameter.value
        rule = self.rule
        if parameter.gradient_sum is not None and self.squared_gradients is not None:
            left_factor = _gradient(left_factor, right_factor)
            right_factor = None
            first_rows(self.squared_gradients, len(value)).add_(flatten_rows(left_factor).square().sum(1))
            parameter.gradient_sum.add_(left_factor)
        if self.adam_corrections is not None:
            self._descend_by_adam(parameter, _gradient(left_factor, right_factor))
            return
        if not parameter.moments:
            _accumulate(value, left_factor, right_factor, keep=1 - self.lr * rule.decay_coefficient, scale=-self.lr)
            if rule.proximal:
                value.add_(parameter.anchor, alpha=self.lr * rule.proximal)
            return
        velocity = parameter.moments[0]
        _accumulate(velocity, left_factor, right_factor, keep=rule.momentum, scale=1.0)
        if rule.decay_coefficient:
            velocity.add_(value, alpha=rule.decay_coefficient)
        if rule.proximal:
            velocity.add_(parameter.anchor, alpha=-rule.proximal)
        value.add_(velocity, alpha=-self.lr)

    def _descend_by_adam(self, parameter: StackedParameter, gradient: Tensor) -> None:
        value = parameter.value
        rule = self.rule
        if rule.decay_coefficient:
            gradient = gradient.add(value, alpha=rule.decay_coefficient)
        if rule.proximal:
            gradient = gradient.sub(parameter.anchor, alpha=rule.proximal)
        per_client = (-1, *[1] * (value.dim() - 1))
        corrections = [
            first_rows(correction, len(value)).view(per_client) for correction in self.adam_corrections or ()
        ]
        optimiser.adam_step(value, gradient, *parameter.moments, *corrections)


def _gradient(left_factor: Tensor, right_factor: Tensor | None) -> Tensor:
    """Return the gradient of which ``left_factor`` and ``right_factor`` are the factors."""
    if right_factor is None:
        return left_factor
    return torch.bmm(left_factor, right_factor)


def _accumulate(target: Tensor, left_factor: Tensor, right_factor: Tensor | None, *, keep: float, scale: float) -> None:
    """Set target ← keep · target + scale · left_factor · right_factor, in place."""
    if right_factor is not None:
        target.baddbmm_(left_factor, right_factor, beta=keep, alpha=scale)
        return
    if keep != 1:
        target.mul_(keep)
    target.add_(left_factor, alpha=scale)


# ---- the stack


class ClientStack:
    """Clients' copies of the tensors of one model."""

    def __init__(self, job: StackJob) -> None:
        self.job = job
        self.descent = StackedDescent(job.rule, job.lr)
        if job.measures_dispersion:
            self.descent.squared_gradients = torch.zeros(len(job.plans), device=job.device)
        initial_values = job.initial[: job.trainable]
        self.buffers = job.initial[job.trainable :]
        n_moments = job.rule.n_moments
        self.parameters = [self._stacked_parameter(value, n_moments) for value in initial_values]
        self.earlier_steps = [0] * len(job.plans)  # Adam's, of each client
        if job.states is not None:
            remembered = optimiser.unpack_moments(job.states, initial_values, n_moments)
            for parameter, moments in zip(self.parameters, remembered, strict=True):
                parameter.moments = moments
            if job.rule.optimizer == "adam":
                self.earlier_steps = job.states[:, -1].int().tolist()

    def _stacked_parameter(self, initial_value: Tensor, n_moments: int) -> StackedParameter:
        value = initial_value.clone(memory_format=torch.contiguous_format)
        gradient_sum = None
        if self.descent.squared_gradients is not None:
            gradient_sum = torch.zeros_like(value)
        return StackedParameter(
            value=value,
            anchor=initial_value,
            moments=[torch.zeros_like(value) for _ in range(n_moments)],
            gradient_sum=gradient_sum,
        )

    def prepare_adam_corrections(self, n_steps: int) -> None:
        """Compute Adam's corrections of all steps, for each client by the steps that it remembers."""
        if self.descent.rule.optimizer != "adam":
            return
        corrections = [
            [optimiser.adam_corrections(earlier + step + 1, self.descent.lr) for earlier in self.earlier_steps]
            for step in range(n_steps)
        ]
        by_kind = torch.tensor(corrections, dtype=torch.float32).permute(0, 2, 1).contiguous()
        by_step = by_kind.to(self.job.device).unbind()
        self._adam_corrections = [(step_size, bias_correction2_sqrt) for step_size, bias_correction2_sqrt in by_step]

    def set_adam_corrections(self, step: int) -> None:
        """Set Adam's corrections of a step."""
        if self.descent.rule.optimizer == "adam":
            self.descent.adam_corrections = self._adam_corrections[step]

    def result(self, loss_sums: Tensor, squared_losses: Tensor | None) -> StackResult:
        """Return what the training gave, from the sums of the batch losses (k,) and mean squared losses (k, steps)."""
        job = self.job
        steps = torch.tensor([plan.steps for plan in job.plans], dtype=torch.float32, device=job.device)
        steps_or_one = steps.clamp_min(1)
        states = None
        if job.states is not None:
            states = self._packed_states(steps)
        return StackResult(
            updates=self._updates(),
            losses=loss_sums / steps_or_one,
            dispersion=self._dispersion(steps_or_one),
            squared_losses=squared_losses,
            states=states,
        )

    def _packed_states(self, steps: Tensor) -> Tensor:
        """Return what the optimiser remembers (k, S) after so many steps (k,) of each client."""
        adam_steps = None
        if self.descent.rule.optimizer == "adam":
            adam_steps = steps + torch.tensor(self.earlier_steps, dtype=torch.float32, device=steps.device)
        return optimiser.pack_states([parameter.moments for parameter in self.parameters], adam_steps)

    def _updates(self) -> Tensor:
        """Return each client's trained parameters less its initial ones (k, P); 0 for buffers."""
        values = [flatten_rows(parameter.value) for parameter in self.parameters]
        anchors = [flatten_rows(parameter.anchor) for parameter in self.parameters]
        sizes = [value.size(1) for value in values]
        n_unchanged = sum(flatten_rows(buffer).size(1) for buffer in self.buffers)
        updates = values[0].new_empty(len(values[0]), sum(sizes) + n_unchanged)
        *changed, unchanged = updates.split([*sizes, n_unchanged], 1)
        for columns, value, anchor in zip(changed, values, anchors, strict=True):
            torch.sub(value, anchor, out=columns)
        unchanged.zero_()
        return updates

    def _dispersion(self, steps: Tensor) -> Tensor | None:
        """Return sqrt((Σ‖g_s‖² − ‖Σ g_s‖²/R) / (R − 1)) (k,), 0 for a single step; None where it is not measured.

        The squares are added up in float32, and in float64 by the sequential engine: the last digits differ.
        """
        if self.descent.squared_gradients is None:
            return None
        gradient_sums = [parameter.gradient_sum for parameter in self.parameters if parameter.gradient_sum is not None]
        square_of_sum = sum(flatten_rows(gradient_sum).square().sum(1) for gradient_sum in gradient_sums)
        excess = (self.descent.squared_gradients - square_of_sum / steps).clamp_min(0)
        return (excess / (steps - 1).clamp_min(1)).sqrt()

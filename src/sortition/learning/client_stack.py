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
from sortition.learning.vector import as_rows

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
class Slot:
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

    def of_first_clients(self, count: int) -> Slot:
        """Return the slot of the first clients, in the same memory."""
        gradient_sum = self.gradient_sum
        if gradient_sum is not None:
            gradient_sum = first_rows(gradient_sum, count)
        return Slot(
            value=first_rows(self.value, count),
            anchor=first_rows(self.anchor, count),
            moments=[first_rows(moment, count) for moment in self.moments],
            gradient_sum=gradient_sum,
        )


@dataclass
class StackedDescent:
    """Applies the local rule of one round to slots, in place: SGD with momentum, or Adam.

    Attributes:
        rule: the local rule.
        lr: its learning rate in this round.
        squared_gradients: (k,) Σ_s ‖g_s‖²; only where the dispersion is measured.
        factors: Adam's rate and root (k,) of the current step; None for SGD.
    """

    rule: LocalRule
    lr: float
    squared_gradients: Tensor | None = None
    factors: tuple[Tensor, Tensor] | None = None

    def descend(self, slot: Slot, left_factor: Tensor, right_factor: Tensor | None) -> None:
        """Descend along a gradient (k, a, c), given as factors (k, a, b) and (k, b, c), or as the left one alone."""
        value = slot.value
        rule = self.rule
        pull = rule.weight_decay + rule.proximal
        if slot.gradient_sum is not None and self.squared_gradients is not None:
            left_factor = _gradient(left_factor, right_factor)
            right_factor = None
            first_rows(self.squared_gradients, len(value)).add_(as_rows(left_factor).square().sum(1))
            slot.gradient_sum.add_(left_factor)
        if self.factors is not None:
            self._descend_by_adam(slot, _gradient(left_factor, right_factor))
            return
        if not slot.moments:
            _accumulate(value, left_factor, right_factor, keep=1 - self.lr * pull, scale=-self.lr)
            if rule.proximal:
                value.add_(slot.anchor, alpha=self.lr * rule.proximal)
            return
        velocity = slot.moments[0]
        _accumulate(velocity, left_factor, right_factor, keep=rule.momentum, scale=1.0)
        if pull:
            velocity.add_(value, alpha=pull)
        if rule.proximal:
            velocity.add_(slot.anchor, alpha=-rule.proximal)
        value.add_(velocity, alpha=-self.lr)

    def _descend_by_adam(self, slot: Slot, gradient: Tensor) -> None:
        value = slot.value
        rule = self.rule
        pull = rule.weight_decay + rule.proximal
        if pull:
            gradient = gradient.add(value, alpha=pull)
        if rule.proximal:
            gradient = gradient.sub(slot.anchor, alpha=rule.proximal)
        per_client = (-1, *[1] * (value.dim() - 1))
        factors = (first_rows(factor, len(value)).view(per_client) for factor in self.factors or ())
        optimiser.adam_step(value, gradient, *slot.moments, *factors)


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
        parameters = job.initial[: job.trainable]
        self.buffers = job.initial[job.trainable :]
        n_moments = job.rule.moments
        self.slots = [self._make_slot(parameter, n_moments) for parameter in parameters]
        self.earlier_steps = [0] * len(job.plans)  # Adam's, of each client
        if job.states is not None:
            remembered = optimiser.unpack_moments(job.states, parameters, n_moments)
            for slot, moments in zip(self.slots, remembered, strict=True):
                slot.moments = moments
            if job.rule.optimizer == "adam":
                self.earlier_steps = job.states[:, -1].int().tolist()

    def _make_slot(self, parameter: Tensor, n_moments: int) -> Slot:
        value = parameter.clone(memory_format=torch.contiguous_format)
        slot = Slot(value=value, anchor=parameter, moments=[torch.zeros_like(value) for _ in range(n_moments)])
        if self.descent.squared_gradients is not None:
            slot.gradient_sum = torch.zeros_like(value)
        return slot

    def prepare_adam_factors(self, n_steps: int) -> None:
        """Compute Adam's factors of all steps, for each client by the steps that it remembers."""
        if self.descent.rule.optimizer != "adam":
            return
        factors = [
            [optimiser.adam_corrections(earlier + step + 1, self.descent.lr) for earlier in self.earlier_steps]
            for step in range(n_steps)
        ]
        by_factor = torch.tensor(factors, dtype=torch.float32).permute(0, 2, 1).contiguous()
        self._adam_factors = [(rate, root) for rate, root in by_factor.to(self.job.device).unbind()]

    def set_adam_factors(self, step: int) -> None:
        """Set Adam's factors of a step."""
        if self.descent.rule.optimizer == "adam":
            self.descent.factors = self._adam_factors[step]

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
        return optimiser.pack_states([slot.moments for slot in self.slots], adam_steps)

    def _updates(self) -> Tensor:
        """Return what each client changed (k, P); buffers stay as they are."""
        values = [as_rows(slot.value) for slot in self.slots]
        anchors = [as_rows(slot.anchor) for slot in self.slots]
        sizes = [value.size(1) for value in values]
        n_unchanged = sum(as_rows(buffer).size(1) for buffer in self.buffers)
        updates = values[0].new_empty(len(values[0]), sum(sizes) + n_unchanged)
        *changed, unchanged = updates.split([*sizes, n_unchanged], 1)
        for columns, value, anchor in zip(changed, values, anchors, strict=True):
            torch.sub(value, anchor, out=columns)
        unchanged.zero_()
        return updates

    def _dispersion(self, steps: Tensor) -> Tensor | None:
        """Return sqrt((Σ‖g_s‖² − ‖Σ g_s‖²/R) / (R − 1)) (k,), 0 for a single step; None where it is not measured."""
        if self.descent.squared_gradients is None:
            return None
        gradient_sums = [slot.gradient_sum for slot in self.slots if slot.gradient_sum is not None]
        square_of_sum = sum(as_rows(gradient_sum).square().sum(1) for gradient_sum in gradient_sums)
        excess = (self.descent.squared_gradients - square_of_sum / steps).clamp_min(0)
        return (excess / (steps - 1).clamp_min(1)).sqrt()

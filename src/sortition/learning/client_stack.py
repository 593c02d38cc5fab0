"""The parameters (k, …) of all clients of a stack, the local rule that moves them, and what their training gives.

Both engines that train a cohort at once use this: the one for linear chains, and the one that maps any model over
clients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from sortition.learning import optimiser
from sortition.learning.examples import first_rows
from sortition.learning.rule import LocalRule
from sortition.learning.vector import as_rows

T = TypeVar("T")
U = TypeVar("U")


# ---- the local rule


@dataclass
class Slot:
    """One parameter of all clients of a stack (k, …) with what the local rule needs of it.

    Attributes:
        value: the parameter, which the training changes.
        anchor: where each client began.
        moments: none, a velocity, or Adam's two.
        total: the sum of the gradients; only where the dispersion is measured.
    """

    value: Tensor
    anchor: Tensor
    moments: Sequence[Tensor] = ()
    total: Tensor | None = None

    def first(self, count: int) -> Slot:
        """Return the slot of the first clients, in the same memory."""
        total = self.total
        if total is not None:
            total = first_rows(total, count)
        return Slot(
            value=first_rows(self.value, count),
            anchor=first_rows(self.anchor, count),
            moments=[first_rows(moment, count) for moment in self.moments],
            total=total,
        )


@dataclass
class StackedDescent:
    """Applies the local rule of one round to slots, in place: SGD with momentum, or Adam.

    Attributes:
        rule: the local rule.
        lr: its learning rate in this round.
        squares: (k,) Σ_s ‖g_s‖²; only where the dispersion is measured.
        factors: Adam's rate and root (k,) of the current step; None for SGD.
    """

    rule: LocalRule
    lr: float
    squares: Tensor | None = None
    factors: tuple[Tensor, Tensor] | None = None

    def step(self, slot: Slot, left: Tensor, right: Tensor | None) -> None:
        """Descend along the product of (k, a, b) and (k, b, c), or along ``left`` itself if there is no right."""
        value = slot.value
        rule = self.rule
        pull = rule.weight_decay + rule.proximal
        if slot.total is not None and self.squares is not None:
            left = _gradient(left, right)
            right = None
            first_rows(self.squares, len(value)).add_(as_rows(left).square().sum(1))
            slot.total.add_(left)
        if self.factors is not None:
            self._adam(slot, _gradient(left, right))
            return
        if not slot.moments:
            _accumulate(value, left, right, keep=1 - self.lr * pull, scale=-self.lr)
            if rule.proximal:
                value.add_(slot.anchor, alpha=self.lr * rule.proximal)
            return
        velocity = slot.moments[0]
        _accumulate(velocity, left, right, keep=rule.momentum, scale=1.0)
        if pull:
            velocity.add_(value, alpha=pull)
        if rule.proximal:
            velocity.add_(slot.anchor, alpha=-rule.proximal)
        value.add_(velocity, alpha=-self.lr)

    def _adam(self, slot: Slot, gradient: Tensor) -> None:
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


def _gradient(left: Tensor, right: Tensor | None) -> Tensor:
    """Return the gradient of which ``left`` and ``right`` are the factors."""
    if right is None:
        return left
    return torch.bmm(left, right)


def _accumulate(target: Tensor, left: Tensor, right: Tensor | None, *, keep: float, scale: float) -> None:
    """Set target ← keep · target + scale · left · right, in place."""
    if right is not None:
        target.baddbmm_(left, right, beta=keep, alpha=scale)
        return
    if keep != 1:
        target.mul_(keep)
    target.add_(left, alpha=scale)


# ---- the stack


class ClientStack:
    """Clients' copies of the parameters of one model.

    Args:
        initial: the parameters from which each client begins (k, …), in the model's order.
        descent: the local rule.
        states: what the optimiser remembers of the clients (k, S); None where it starts anew.
    """

    def __init__(self, initial: Sequence[Tensor], descent: StackedDescent, states: Tensor | None = None) -> None:
        self.descent = descent
        n_moments = descent.rule.moments
        self.slots = [self._slot(parameter, n_moments) for parameter in initial]
        self.earlier_steps = [0] * len(initial[0])  # Adam's, of each client
        if states is not None:
            remembered = optimiser.unpack(states, initial, n_moments)
            for slot, moments in zip(self.slots, remembered, strict=True):
                slot.moments = moments
            if descent.rule.optimizer == "adam":
                self.earlier_steps = states[:, -1].int().tolist()

    def _slot(self, parameter: Tensor, n_moments: int) -> Slot:
        value = parameter.clone(memory_format=torch.contiguous_format)
        slot = Slot(value=value, anchor=parameter, moments=[torch.zeros_like(value) for _ in range(n_moments)])
        if self.descent.squares is not None:
            slot.total = torch.zeros_like(value)
        return slot

    def prepare_adam_factors(self, n_steps: int, device: torch.device) -> None:
        """Compute Adam's factors of all steps, for each client by the steps that it remembers."""
        if self.descent.rule.optimizer != "adam":
            return
        factors = [
            [optimiser.corrections(earlier + step + 1, self.descent.lr) for earlier in self.earlier_steps]
            for step in range(n_steps)
        ]
        by_factor = torch.tensor(factors, dtype=torch.float32).permute(0, 2, 1).contiguous()
        self._adam_factors = [(rate, root) for rate, root in by_factor.to(device).unbind()]

    def set_adam_factors(self, step: int) -> None:
        """Set Adam's factors of a step."""
        if self.descent.rule.optimizer == "adam":
            self.descent.factors = self._adam_factors[step]

    def remembered(self, steps: Tensor) -> Tensor:
        """Return what the optimiser remembers (k, S) after so many steps (k,) of each client."""
        adam_steps = None
        if self.descent.rule.optimizer == "adam":
            adam_steps = steps + torch.tensor(self.earlier_steps, dtype=torch.float32, device=steps.device)
        return optimiser.pack([slot.moments for slot in self.slots], adam_steps)

    def updates(self) -> Tensor:
        """Return what each client changed (k, P)."""
        values = [as_rows(slot.value) for slot in self.slots]
        anchors = [as_rows(slot.anchor) for slot in self.slots]
        sizes = [value.size(1) for value in values]
        updates = values[0].new_empty(len(values[0]), sum(sizes))
        for columns, value, anchor in zip(updates.split(sizes, 1), values, anchors, strict=True):
            torch.sub(value, anchor, out=columns)
        return updates

    def dispersion(self, steps: Tensor) -> Tensor | None:
        """Return sqrt((Σ‖g_s‖² − ‖Σ g_s‖²/R) / (R − 1)) (k,), 0 for a single step; None where it is not measured."""
        if self.descent.squares is None:
            return None
        totals = [slot.total for slot in self.slots if slot.total is not None]
        square_of_sum = sum(as_rows(total).square().sum(1) for total in totals)
        excess = (self.descent.squares - square_of_sum / steps).clamp_min(0)
        return (excess / (steps - 1).clamp_min(1)).sqrt()


# ---- what a training gives


@dataclass(frozen=True, slots=True)
class StackResult(Generic[T]):
    """What the training of a stack of k clients gave, as tensors or as arrays.

    Attributes:
        updates: (k, P).
        losses: (k,) mean batch losses.
        dispersion: (k,) spread of the stochastic gradients; None where it is not measured.
        squares: (k, steps) mean squared losses of the examples of each batch; None where they are not measured.
        states: (k, S) what the optimiser remembers; None where it starts anew in every round.
    """

    updates: T
    losses: T
    dispersion: T | None
    squares: T | None
    states: T | None

    def map(self, convert: Callable[[T], U]) -> StackResult[U]:
        """Convert every value that is there."""
        return StackResult(
            updates=convert(self.updates),
            losses=convert(self.losses),
            dispersion=_map_optional(convert, self.dispersion),
            squares=_map_optional(convert, self.squares),
            states=_map_optional(convert, self.states),
        )


def _map_optional(convert: Callable[[T], U], value: T | None) -> U | None:
    if value is None:
        return None
    return convert(value)

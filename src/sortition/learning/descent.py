"""One step of the local rule for all clients of a stack, in place: SGD with momentum, or Adam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sortition.learning import optimiser
from sortition.learning.batch_losses import first
from sortition.learning.rule import LocalRule


@dataclass
class Slot:
    """One parameter of the whole cohort (k, …) with what the rule needs of it."""

    value: Tensor
    anchor: Tensor
    moments: Sequence[Tensor] = ()  # none, a velocity, or Adam's two
    total: Tensor | None = None

    def first(self, k: int) -> Slot:
        """That of the first k clients, in the same memory."""
        total = None if self.total is None else first(self.total, k)
        return Slot(first(self.value, k), first(self.anchor, k), [first(one, k) for one in self.moments], total)


@dataclass
class StackedDescent:
    """The local rule of one round, applied to slots."""

    rule: LocalRule
    lr: float
    squares: Tensor | None = field(default=None)  # (k,) Σ_s ‖g_s‖², only when the dispersion is asked for
    factors: tuple[Tensor, Tensor] | None = None  # (k,) Adam's, of this step

    def step(self, slot: Slot, left: Tensor, right: Tensor | None) -> None:
        """Descend along the product of (k, a, b) and (k, b, c), or along ``left`` itself if there is no right."""
        value, rule = slot.value, self.rule
        pull = rule.weight_decay + rule.proximal
        if slot.total is not None and self.squares is not None:
            gradient = left if right is None else torch.bmm(left, right)
            first(self.squares, len(value)).add_(gradient.flatten(1).square().sum(1))
            slot.total.add_(gradient)
            left, right = gradient, None
        if self.factors is not None:
            self._adam(slot, left if right is None else torch.bmm(left, right))
            return
        if not slot.moments:
            _accumulate(value, 1 - self.lr * pull, left, right, -self.lr)
            if rule.proximal:
                value.add_(slot.anchor, alpha=self.lr * rule.proximal)
            return
        velocity = slot.moments[0]
        _accumulate(velocity, rule.momentum, left, right, 1.0)
        if pull:
            velocity.add_(value, alpha=pull)
        if rule.proximal:
            velocity.add_(slot.anchor, alpha=-rule.proximal)
        value.add_(velocity, alpha=-self.lr)

    def _adam(self, slot: Slot, gradient: Tensor) -> None:
        value, rule = slot.value, self.rule
        pull = rule.weight_decay + rule.proximal
        if pull:
            gradient = gradient.add(value, alpha=pull)
        if rule.proximal:
            gradient = gradient.sub(slot.anchor, alpha=rule.proximal)
        factors = (first(one, len(value)).view(-1, *[1] * (value.dim() - 1)) for one in self.factors or ())
        optimiser.adam_step(value, gradient, *slot.moments, *factors)


def _accumulate(into: Tensor, keep: float, left: Tensor, right: Tensor | None, scale: float) -> None:
    if right is not None:
        into.baddbmm_(left, right, beta=keep, alpha=scale)
        return
    if keep != 1:
        into.mul_(keep)
    into.add_(left, alpha=scale)

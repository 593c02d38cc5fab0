"""A cohort in lock-step: every weight is (clients, out, in), every step one batched GEMM per layer and direction.

For models made of linear layers, activations and dropout. Forward and backward are written out, which saves what
autograd cannot: the input layer needs no input gradient, and w ← w − η·gᵀx is one ``baddbmm`` that never holds a
gradient. Activations are (clients, width, rows): nothing is copied, and softmax runs along rows. Clients are ordered by
their number of steps, so those who have finished are a tail that is cut off; rows beyond a client's batch carry
weight 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sortition.learning import dropout, optimiser
from sortition.learning.batch_losses import BatchLosses, first
from sortition.learning.batches import BatchPlan
from sortition.learning.padding import grid, words_of
from sortition.learning.rule import LocalRule

_BACKWARD = {
    nn.ReLU: lambda g, out: torch.ops.aten.threshold_backward(g, out, 0),
    nn.Tanh: torch.ops.aten.tanh_backward,
    nn.Sigmoid: torch.ops.aten.sigmoid_backward,
}
GATHERED = 1 << 21  # examples of all steps are gathered at once up to so many numbers; beyond, step by step
_FORWARD = {nn.ReLU: torch.relu_, nn.Tanh: torch.tanh_, nn.Sigmoid: torch.sigmoid_}


def layers_of(model: nn.Module) -> list[nn.Module] | None:
    """The layers of a model that can be stacked, from input to output; None for any other model."""
    if type(model) is not nn.Sequential:
        return None
    flat: list[nn.Module] = []
    for child in model:
        inner = layers_of(child) if type(child) is nn.Sequential else [child]
        if inner is None:
            return None
        flat += inner
    flat = [m for m in flat if type(m) not in (nn.Identity, nn.Flatten) and getattr(m, "p", 1) != 0]  # idle dropout
    known = all(type(m) in (nn.Linear, nn.Dropout, *_FORWARD) for m in flat)
    return flat if known and flat and type(flat[0]) is nn.Linear and type(flat[-1]) is nn.Linear else None


@dataclass
class Slot:
    """One parameter of the whole cohort (k, …) with what the rule needs of it."""

    value: Tensor
    anchor: Tensor
    moments: Sequence[Tensor] = ()  # none, a velocity, or Adam's two
    total: Tensor | None = None


@dataclass
class StackedDescent:
    """The local rule of one round, applied to slots."""

    rule: LocalRule
    lr: float
    squares: Tensor | None = field(default=None)  # (k,) Σ_s ‖g_s‖², only when the dispersion is asked for
    factors: tuple[Tensor, Tensor] | None = None  # (k,) Adam's, of this step

    def step(self, slot: Slot, k: int, left: Tensor, right: Tensor | None) -> None:
        """Descend along the product of (k, a, b) and (k, b, c), or along ``left`` itself if there is no right."""
        value, rule = first(slot.value, k), self.rule
        pull = rule.weight_decay + rule.proximal
        if slot.total is not None and self.squares is not None:
            gradient = left if right is None else torch.bmm(left, right)
            self.squares[:k] += gradient.flatten(1).square().sum(1)
            slot.total[:k] += gradient
            left, right = gradient, None
        if self.factors is not None:
            self._adam(slot, k, left if right is None else torch.bmm(left, right))
            return
        if not slot.moments:
            _accumulate(value, 1 - self.lr * pull, left, right, -self.lr)
            if rule.proximal:
                value.add_(first(slot.anchor, k), alpha=self.lr * rule.proximal)
            return
        velocity = first(slot.moments[0], k)
        _accumulate(velocity, rule.momentum, left, right, 1.0)
        if pull:
            velocity.add_(value, alpha=pull)
        if rule.proximal:
            velocity.add_(first(slot.anchor, k), alpha=-rule.proximal)
        value.add_(velocity, alpha=-self.lr)

    def _adam(self, slot: Slot, k: int, gradient: Tensor) -> None:
        value, rule = first(slot.value, k), self.rule
        pull = rule.weight_decay + rule.proximal
        if pull:
            gradient = gradient.add(value, alpha=pull)
        if rule.proximal:
            gradient = gradient.sub(first(slot.anchor, k), alpha=rule.proximal)
        moments = (first(one, k) for one in slot.moments)
        factors = (first(one, k).view(-1, *[1] * (value.dim() - 1)) for one in self.factors or ())
        optimiser.adam_step(value, gradient, *moments, *factors)


def _accumulate(into: Tensor, keep: float, left: Tensor, right: Tensor | None, scale: float) -> None:
    if right is not None:
        into.baddbmm_(left, right, beta=keep, alpha=scale)
        return
    if keep != 1:
        into.mul_(keep)
    into.add_(left, alpha=scale)


class Stack:
    """Clients' copies of one model, ready to train: each parameter (k, …), where every client begins."""

    def __init__(
        self,
        layers: Sequence[nn.Module],
        initial: Sequence[Tensor],
        descent: StackedDescent,
        states: Tensor | None = None,
    ) -> None:
        self.layers, self.descent = layers, descent
        track, moments = descent.squares is not None, descent.rule.moments
        self.slots = [
            Slot(
                value := p.clone(memory_format=torch.contiguous_format),
                p,
                [torch.zeros_like(value) for _ in range(moments)],
                torch.zeros_like(value) if track else None,
            )
            for p in initial
        ]
        if states is not None:
            for slot, kept in zip(self.slots, optimiser.unpack(states, initial, moments), strict=True):
                slot.moments = kept
        self.before = [0] * len(initial[0])  # Adam's steps
        if states is not None and descent.rule.optimizer == "adam":
            self.before = states[:, -1].int().tolist()

    def step(self, s: int, x: Tensor, words: Sequence[Tensor], losses: BatchLosses) -> None:
        """Step s of the first k clients on x (k, B, d); words: per dropout layer (k, width, B)."""
        k, h, slots, drops = x.size(0), x.transpose(1, 2), iter(self.slots), iter(words)
        self._correct(s, x.device)
        saved: list[Any] = []
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                w, b = next(slots), next(slots) if layer.bias is not None else None
                saved.append((layer, h, w, b))
                weight = first(w.value, k)
                h = torch.bmm(weight, h) if b is None else torch.baddbmm(first(b.value, k).unsqueeze(2), weight, h)
            elif isinstance(layer, nn.Dropout):
                kept = dropout.keep_mask(next(drops), layer.p)
                saved.append((layer, kept, None, None))
                h = h * kept
            else:
                h = _FORWARD[type(layer)](h)
                saved.append((layer, h, None, None))
        self._backward(losses.gradient(s, h), saved, k)

    def _correct(self, s: int, device: torch.device) -> None:
        """Adam's factors of step s, of each client by the steps that it remembers."""
        if self.descent.rule.optimizer == "adam":
            pairs = [optimiser.corrections(before + s + 1, self.descent.lr) for before in self.before]
            rate, root = torch.tensor(pairs, dtype=torch.float32, device=device).t().contiguous()
            self.descent.factors = rate, root

    def remembered(self, steps: Tensor) -> Tensor:
        """What the optimiser remembers (k, S) after so many steps (k,) of each client."""
        total = steps + torch.tensor(self.before, dtype=torch.float32, device=steps.device)
        adam = self.descent.rule.optimizer == "adam"
        return optimiser.pack([slot.moments for slot in self.slots], total if adam else None)

    def _backward(self, g: Tensor, saved: list[Any], k: int) -> None:
        for at in reversed(range(len(saved))):
            layer, kept, w, b = saved[at]
            if isinstance(layer, nn.Linear):
                after = torch.bmm(first(w.value, k).transpose(1, 2), g) if at else None  # before these weights move
                self.descent.step(w, k, g, kept.transpose(1, 2))
                if b is not None:
                    self.descent.step(b, k, g.sum(2), None)
                g = after
            elif isinstance(layer, nn.Dropout):
                g = g * kept
            else:
                g = _BACKWARD[type(layer)](g, kept)


@torch.inference_mode()
def train_stack(
    layers: Sequence[nn.Module],
    initial: Sequence[Tensor],
    rows: Tensor,
    labels: Tensor,
    plans: Sequence[BatchPlan],
    rule: LocalRule,
    lr: float,
    sources: Sequence[np.random.BitGenerator] | None,
    dispersion: bool,
    squares: bool = False,
    states: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Train clients with the given plans.

    Args:
        layers: of :func:`layers_of`.
        initial: the parameters from which each client begins (k, …), in the model's order.
        rows: (n, d) all examples.
        labels: (n,).
        plans: one per client, those of most steps first.
        rule: the local rule.
        lr: its learning rate in this round.
        sources: of dropout words, one per client; None without dropout.
        dispersion: whether to measure the spread of the stochastic gradients.
        squares: whether to keep the mean squared loss of the examples of each batch.
        states: what the optimiser remembers of the clients (k, S); None where it starts anew.

    Returns:
        updates (k, P), mean batch losses (k,), dispersions (k,) or None, mean squares (k, steps) or None,
        and what the optimiser remembers now (k, S) or None.
    """
    device, k = rows.device, len(plans)
    descent = StackedDescent(rule, lr, torch.zeros(k, device=device) if dispersion else None)
    stack = Stack(layers, initial, descent, states)
    losses = _descend(stack, rows, labels, plans, sources)
    steps = torch.tensor([max(p.steps, 1) for p in plans], dtype=torch.float32, device=device)
    updates = _updates(stack.slots)
    spread = _spread(stack, steps) if dispersion else None
    after = None if states is None else stack.remembered(torch.tensor([p.steps for p in plans], device=device))
    return updates, losses.sums() / steps, spread, losses.squares() if squares else None, after


def _descend(
    stack: Stack,
    rows: Tensor,
    labels: Tensor,
    ranked: Sequence[BatchPlan],
    sources: Sequence[np.random.BitGenerator] | None,
) -> BatchLosses:
    """All steps of clients that are ordered by their number of steps; the losses of their batches."""
    device = rows.device
    index, weight, active = grid(ranked)
    words = words_of(stack.layers, ranked, sources, index.shape) if sources else []
    at = torch.from_numpy(index).to(device)
    losses = BatchLosses(labels[at], torch.from_numpy(weight).to(device))
    for s, (now, x) in enumerate(zip(active, _batches(rows, at, active), strict=True)):
        drops = [torch.from_numpy(w[s, :now]).to(device) for w in words]
        stack.step(s, x, drops, losses)
    return losses


def _batches(rows: Tensor, at: Tensor, active: Sequence[int]) -> Iterator[Tensor]:
    """The examples (k', B, d) of each step, of the clients that take it; valid until the next one is taken."""
    steps, k, b = at.shape
    if at.numel() * rows.shape[1] <= GATHERED:
        gathered = rows.index_select(0, at.flatten()).view(steps, k, b, -1).unbind()
        yield from (first(x, now) for x, now in zip(gathered, active, strict=True))
        return
    room = rows.new_empty(k * b, rows.shape[1])
    for now, where in zip(active, at.flatten(1).unbind(), strict=True):
        x = torch.index_select(rows, 0, where[: now * b], out=first(room, now * b))
        yield x.view(now, b, -1)


def _updates(slots: Sequence[Slot]) -> Tensor:
    """What each client changed (k, P)."""
    pairs = [(slot.value.flatten(1), slot.anchor.flatten(1)) for slot in slots]
    updates = pairs[0][0].new_empty(len(pairs[0][0]), sum(value.size(1) for value, _ in pairs))
    for out, (value, anchor) in zip(updates.split([value.size(1) for value, _ in pairs], 1), pairs, strict=True):
        torch.sub(value, anchor, out=out)
    return updates


def _spread(stack: Stack, steps: Tensor) -> Tensor:
    """sqrt((Σ‖g_s‖² − ‖Σ g_s‖²/R) / (R − 1)) (k,); 0 for a single step."""
    squares: Any = stack.descent.squares
    joint: Any = sum(slot.total.flatten(1).square().sum(1) for slot in stack.slots if slot.total is not None)
    return ((squares - joint / steps).clamp_min(0) / (steps - 1).clamp_min(1)).sqrt()

"""A cohort in lock-step: every weight is (clients, out, in), every step one batched GEMM per layer and direction.

For models made of linear layers, activations and dropout. Forward and backward are written out, which saves what
autograd cannot: the input layer needs no input gradient, and w ← w − η·gᵀx is one ``baddbmm`` that never holds a
gradient. Activations are (clients, width, rows): nothing is copied, and softmax runs along rows. Clients are ordered by
their number of steps, so those who have finished are a tail that is cut off; rows beyond a client's batch carry
weight 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sortition.learning import dropout, optimiser
from sortition.learning.batch_losses import BatchLosses, first
from sortition.learning.batches import BatchPlan
from sortition.learning.descent import Slot, StackedDescent
from sortition.learning.examples import Examples
from sortition.learning.padding import grid, words_of
from sortition.learning.rule import LocalRule

BACKWARD = {
    nn.ReLU: lambda g, out: torch.ops.aten.threshold_backward(g, out, 0),
    nn.Tanh: torch.ops.aten.tanh_backward,
    nn.Sigmoid: torch.ops.aten.sigmoid_backward,
}
GATHERED = 1 << 21  # examples of all steps are gathered at once up to so many numbers; beyond, step by step
_FORWARD = {nn.ReLU: torch.relu_, nn.Tanh: torch.tanh_, nn.Sigmoid: torch.sigmoid_}


def layers_of(model: nn.Module, width: int | None = None) -> list[nn.Module] | None:
    """The layers of a model that can be stacked, from input to output; None for any other model.

    Examples of ``width`` numbers are flattened first: a first layer of another width reads them in another shape.
    """
    flat = [] if _hooked(model) else _chain(model)
    flat = [m for m in flat if type(m) not in (nn.Identity, nn.Flatten) and getattr(m, "p", 1) != 0]  # idle dropout
    if not (flat and isinstance(flat[0], nn.Linear) and isinstance(flat[-1], nn.Linear)) or _shares(flat):
        return None
    known = all(type(m) in (nn.Linear, nn.Dropout, *_FORWARD) for m in flat)
    return flat if known and width in (None, flat[0].in_features) else None


def _chain(model: nn.Module) -> list[nn.Module]:
    """The modules that are called one after the other, Sequentials opened; the model itself where it is none."""
    return [part for child in model for part in _chain(child)] if type(model) is nn.Sequential else [model]


def _hooked(model: nn.Module) -> bool:
    """Whether calling a module does more than its ``forward``."""
    hooks = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
    return any(getattr(module, name) for module in model.modules() for name in hooks)


def _shares(layers: Sequence[nn.Module]) -> bool:
    """Whether a parameter stands in two places."""
    used = [id(p) for layer in layers for p in layer.parameters()]
    return len(set(used)) < len(used)


class Part:
    """A layer of the first k clients: views that are made once for all steps in which these train."""

    def __init__(self, layer: nn.Module, slots: Iterator[Slot], k: int) -> None:
        self.linear, self.rate = isinstance(layer, nn.Linear), layer.p if isinstance(layer, nn.Dropout) else None
        self.forward, self.backward = _FORWARD.get(type(layer)), BACKWARD.get(type(layer))
        if self.linear:
            self.weight = next(slots).first(k)
            self.turned = self.weight.value.transpose(1, 2)
            self.bias = None if layer.bias is None else next(slots).first(k)
            self.column = None if self.bias is None else self.bias.value.unsqueeze(2)

    def product(self, h: Tensor) -> Tensor:
        """W h + b (k, out, B)."""
        if self.column is None:
            return torch.bmm(self.weight.value, h)
        return torch.baddbmm(self.column, self.weight.value, h)


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
        self._parts, self._active = list[Part](), 0
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

    def _first(self, k: int) -> list[Part]:
        """The layers of the first k clients, made anew when some have finished."""
        if k != self._active:
            slots = iter(self.slots)
            self._parts, self._active = [Part(layer, slots, k) for layer in self.layers], k
        return self._parts

    def step(self, s: int, x: Tensor, words: Sequence[Tensor], losses: BatchLosses) -> None:
        """Step s of the first k clients on x (k, B, d); words: per dropout layer (k, width, B)."""
        parts, h, drops = self._first(x.size(0)), x.transpose(1, 2), iter(words)
        self._correct(s, x.device)
        saved = list[Tensor]()  # what each layer needs on the way back: its input, its mask, or its output
        for part in parts:
            if part.linear:
                saved.append(h)
                h = part.product(h)
            elif part.rate is not None:
                saved.append(dropout.keep_mask(next(drops), part.rate))
                h = h * saved[-1]
            elif part.forward is not None:
                h = part.forward(h.clone() if saved[-1] is h else h)  # in place, but not over what the way back needs
                saved.append(h)
        self._backward(losses.gradient(s, h), parts, saved)

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

    def _backward(self, g: Tensor, parts: Sequence[Part], saved: Sequence[Tensor]) -> None:
        for at in reversed(range(len(parts))):
            part, kept = parts[at], saved[at]
            if part.linear:
                after = torch.bmm(part.turned, g) if at else g  # before these weights move; inputs need no gradient
                self.descent.step(part.weight, g, kept.transpose(1, 2))
                if part.bias is not None:
                    self.descent.step(part.bias, g.sum(2), None)
                g = after
            elif part.rate is not None:
                g = g * kept
            elif part.backward is not None:
                g = part.backward(g, kept)


@torch.inference_mode()
def train_stack(
    layers: Sequence[nn.Module],
    initial: Sequence[Tensor],
    examples: Examples,
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
        examples: all examples, rows (n, d).
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
    device, k = labels.device, len(plans)
    descent = StackedDescent(rule, lr, torch.zeros(k, device=device) if dispersion else None)
    stack = Stack(layers, initial, descent, states)
    losses = _descend(stack, examples, labels, plans, sources)
    steps = torch.tensor([max(p.steps, 1) for p in plans], dtype=torch.float32, device=device)
    updates = _updates(stack.slots)
    spread = _spread(stack, steps) if dispersion else None
    after = None if states is None else stack.remembered(torch.tensor([p.steps for p in plans], device=device))
    return updates, losses.sums() / steps, spread, losses.squares() if squares else None, after


def _descend(
    stack: Stack,
    examples: Examples,
    labels: Tensor,
    ranked: Sequence[BatchPlan],
    sources: Sequence[np.random.BitGenerator] | None,
) -> BatchLosses:
    """All steps of clients that are ordered by their number of steps; the losses of their batches."""
    device = labels.device
    index, weight, active = grid(ranked)
    words = words_of(stack.layers, ranked, sources, index.shape) if sources else []
    at = torch.from_numpy(index).to(device)
    losses = BatchLosses(labels[at], torch.from_numpy(weight).to(device))
    for s, (now, x) in enumerate(zip(active, _batches(examples, at, active), strict=True)):
        drops = [torch.from_numpy(w[s, :now]).to(device) for w in words]
        stack.step(s, x, drops, losses)
    return losses


def _batches(examples: Examples, at: Tensor, active: Sequence[int]) -> Iterator[Tensor]:
    """The examples (k', B, d) of each step, of the clients that take it; valid until the next one is taken."""
    steps, k, b = at.shape
    if at.numel() * examples.shape[0] <= GATHERED:
        gathered = examples.take(at.flatten()).view(steps, k, b, -1).unbind()
        yield from (first(x, now) for x, now in zip(gathered, active, strict=True))
        return
    where = [first(one, now * b) for now, one in zip(active, at.flatten(1).unbind(), strict=True)]
    yield from (x.view(now, b, -1) for now, x in zip(active, examples.batches(where), strict=True))


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

"""One client after the other, for any ``torch.nn.Module``: convolutions are fastest so on a CPU.

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
from sortition.learning.examples import Examples
from sortition.learning.rule import LocalRule


class SequentialTrainer:
    """The one model through which all clients train, with its keyed dropout layers."""

    def __init__(self, model: nn.Module, examples: Examples, labels: Tensor) -> None:
        self.model, self.examples, self.labels = model, examples, labels
        self.layout = vector.Layout.of(model)
        self.drops = dropout.keyed(model)
        self.counters = [(b, b.clone()) for b in model.buffers() if not b.is_floating_point()]
        if examples.image:
            model.to(memory_format=torch.channels_last)

    def train(
        self,
        flat: Tensor,
        plan: BatchPlan,
        rule: LocalRule,
        lr: float,
        bits: np.random.BitGenerator | None,
        dispersion: bool,
        squares: Tensor | None = None,
        state: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, float]:
        """One client from the vector ``flat`` (P,): its local vector, the sum of its batch losses, and dispersion.

        ``squares`` (steps,) is filled with the mean squared loss of the examples of each batch; ``state`` (S,), what
        the optimiser remembers of the client, is read and then filled with what it remembers now.
        """
        vector.load_into(self.model, self.layout, flat)
        self.model.train()
        for drop in self.drops:
            drop.bits, drop.rows = bits, plan.index.shape[1]
        parameters = list(self.model.parameters())
        descent = SequentialDescent(parameters, rule, lr, dispersion, state)
        index, counts = torch.from_numpy(plan.index).to(flat.device), plan.counts.tolist()
        losses = torch.zeros((), device=flat.device)
        for s, count in enumerate(counts):
            batch = index[s, :count]
            logits = self.model(self.examples.take(batch))
            loss = nn.functional.cross_entropy(logits, self.labels[batch])
            if squares is not None:
                each = nn.functional.cross_entropy(logits.detach(), self.labels[batch], reduction="none")
                squares[s] = each.square().mean()
            descent.step(torch.autograd.grad(loss, parameters, allow_unused=True))
            losses += loss.detach()
        final = torch.cat([p.detach().reshape(-1) for p in vector.tensors(self.model)])
        for counter, first in self.counters:  # they do not travel: every training begins with the model's own
            counter.copy_(first)
        if state is not None:
            state.copy_(descent.remembered())
        return final, losses, descent.spread(plan.steps)


class SequentialDescent:
    """The local rule over the parameters of one client."""

    def __init__(
        self, parameters: Sequence[Tensor], rule: LocalRule, lr: float, track: bool, state: Tensor | None = None
    ) -> None:
        self.values = [p.data for p in parameters]
        self.rule, self.lr = rule, lr
        self.anchor = [v.clone() for v in self.values] if rule.proximal else None
        self.moments = [[torch.zeros_like(v) for _ in range(rule.moments)] for v in self.values]
        self.steps = 0  # Adam's, over all participations that it remembers
        if state is not None:
            self._recall(state)
        self.total = [torch.zeros_like(v) for v in self.values] if track else None
        self.squares = 0.0

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """One step, in place; parameters that the loss does not depend on stay as they are, as in torch."""
        rule, g = self.rule, [one for one in gradients if one is not None]
        used = [at for at, one in enumerate(gradients) if one is not None]
        values, moments = [self.values[at] for at in used], [self.moments[at] for at in used]
        if self.total is not None:
            torch._foreach_add_([self.total[at] for at in used], g)
            self.squares += _square(g)
        pull = rule.weight_decay + rule.proximal
        if pull:
            torch._foreach_add_(g, values, alpha=pull)
        if self.anchor is not None:
            torch._foreach_add_(g, [self.anchor[at] for at in used], alpha=-rule.proximal)
        if rule.optimizer == "adam":
            self._adam(values, g, moments)
            return
        if rule.momentum:
            velocity = [one for (one,) in moments]
            torch._foreach_mul_(velocity, rule.momentum)
            torch._foreach_add_(velocity, g)
            g = velocity
        torch._foreach_add_(values, g, alpha=-self.lr)

    def _adam(self, values: Sequence[Tensor], gradients: Sequence[Tensor], moments: Sequence[Sequence[Tensor]]) -> None:
        self.steps += 1
        factors = optimiser.corrections(self.steps, self.lr)
        for value, gradient, (first, second) in zip(values, gradients, moments, strict=True):
            optimiser.adam_step(value, gradient, first, second, *factors)

    def _recall(self, state: Tensor) -> None:
        """Begin with what is remembered (S,)."""
        like = [value[None] for value in self.values]
        self.moments = [[one[0] for one in parts] for parts in optimiser.unpack(state[None], like, self.rule.moments)]
        self.steps = int(state[-1]) if self.rule.optimizer == "adam" else 0

    def remembered(self) -> Tensor:
        """What the optimiser remembers now (S,)."""
        steps = self.values[0].new_tensor([float(self.steps)]) if self.rule.optimizer == "adam" else None
        return optimiser.pack([[one[None] for one in parts] for parts in self.moments], steps)[0]

    def spread(self, steps: int) -> float:
        """sqrt((Σ‖g_s‖² − ‖Σ g_s‖²/R) / (R − 1)); 0 for a single step or when not tracked."""
        if self.total is None or steps < 2:
            return 0.0
        return max((self.squares - _square(self.total) / steps) / (steps - 1), 0.0) ** 0.5


def _square(tensors: Sequence[Tensor]) -> float:
    return float(torch.stack(torch._foreach_norm(list(tensors))).square().sum())

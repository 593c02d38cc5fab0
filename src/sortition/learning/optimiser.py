"""What an optimiser remembers of a client: SGD's velocity, or Adam's two moments and its number of steps.

A client's memory is one row (S,): the moments of all weights, one after the other, and for Adam the steps taken so far.
Adam is Kingma and Ba's with PyTorch's defaults and bias correction; weight decay and the proximal term are part of the
gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from sortition.learning.rule import LocalRule

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


def state_size(rule: LocalRule, weights: int) -> int:
    """S of a model with so many weights; 0 for an optimiser that remembers nothing."""
    return rule.moments * weights + int(rule.optimizer == "adam")


def unpack(rows: Tensor, like: Sequence[Tensor], moments: int) -> list[list[Tensor]]:
    """The moments of each parameter (k, …) from rows (k, S), as copies."""
    sizes = [p[0].numel() for p in like] * moments
    parts = torch.split(rows[:, : sum(sizes)], sizes, dim=1)
    shaped = [part.reshape(p.shape).clone() for part, p in zip(parts, [*like] * moments, strict=True)]
    return [shaped[at :: len(like)] for at in range(len(like))]


def pack(moments: Sequence[Sequence[Tensor]], steps: Tensor | None) -> Tensor:
    """Rows (k, S) from the moments of each parameter; ``steps`` (k,) are Adam's."""
    columns = [part.flatten(1) for same in zip(*moments, strict=True) for part in same]
    return torch.cat(columns if steps is None else [*columns, steps[:, None]], 1)


def corrections(step: int, lr: float) -> tuple[float, float]:
    """Adam's rate lr / (1 − β₁ⁿ) and the root of 1 − β₂ⁿ in its n-th step."""
    return lr / (1 - BETA1**step), (1 - BETA2**step) ** 0.5


def adam_step(
    value: Tensor, gradient: Tensor, first: Tensor, second: Tensor, rate: float | Tensor, root: float | Tensor
) -> None:
    """One step of Adam, in place; ``rate`` and ``root`` are those of :func:`corrections`."""
    first.mul_(BETA1).add_(gradient, alpha=1 - BETA1)
    second.mul_(BETA2).add_(gradient.square(), alpha=1 - BETA2)
    value.sub_((first * rate).div_(second.sqrt().div_(root).add_(EPSILON)))

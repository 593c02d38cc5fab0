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
from sortition.learning.vector import as_rows

BETA1 = 0.9
BETA2 = 0.999
EPSILON = 1e-8


def state_size(rule: LocalRule, weights: int) -> int:
    """Return S for a model with so many weights; 0 for an optimiser that remembers nothing."""
    return rule.moments * weights + int(rule.optimizer == "adam")


def unpack_moments(states: Tensor, parameters: Sequence[Tensor], n_moments: int) -> list[list[Tensor]]:
    """Return the moments of each parameter (k, …) from the rows of k clients (k, S), as copies."""
    sizes = [parameter[0].numel() for parameter in parameters] * n_moments
    columns = torch.split(states[:, : sum(sizes)], sizes, dim=1)
    moments = [
        column.reshape(parameter.shape).clone()
        for column, parameter in zip(columns, [*parameters] * n_moments, strict=True)
    ]
    return [moments[i :: len(parameters)] for i in range(len(parameters))]


def pack_states(moments: Sequence[Sequence[Tensor]], steps: Tensor | None) -> Tensor:
    """Return rows (k, S) from the moments of each parameter; ``steps`` (k,) are Adam's."""
    columns = [as_rows(moment) for moments_of_kind in zip(*moments, strict=True) for moment in moments_of_kind]
    if steps is not None:
        columns.append(steps[:, None])
    return torch.cat(columns, 1)


def adam_corrections(step: int, lr: float) -> tuple[float, float]:
    """Return Adam's rate lr / (1 − β₁ⁿ) and the root of 1 − β₂ⁿ in its n-th step."""
    return lr / (1 - BETA1**step), (1 - BETA2**step) ** 0.5


def adam_step(
    value: Tensor, gradient: Tensor, first: Tensor, second: Tensor, rate: float | Tensor, root: float | Tensor
) -> None:
    """Take one step of Adam, in place.

    Args:
        value: the parameter.
        gradient: of the loss.
        first: moment, the running mean of the gradient.
        second: moment, the running mean of its square.
        rate: of :func:`adam_corrections`.
        root: of :func:`adam_corrections`.
    """
    first.mul_(BETA1).add_(gradient, alpha=1 - BETA1)
    second.mul_(BETA2).add_(gradient.square(), alpha=1 - BETA2)
    value.sub_((first * rate).div_(second.sqrt().div_(root).add_(EPSILON)))

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
from sortition.learning.vector import flatten_rows

BETA1 = 0.9
BETA2 = 0.999
EPSILON = 1e-8


def state_size(rule: LocalRule, weights: int) -> int:
    """Return S for a model with so many weights; 0 for an optimiser that remembers nothing."""
    return rule.n_moments * weights + int(rule.optimizer == "adam")


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
    columns = [flatten_rows(moment) for moments_of_kind in zip(*moments, strict=True) for moment in moments_of_kind]
    if steps is not None:
        columns.append(steps[:, None])
    return torch.cat(columns, 1)


def adam_corrections(step: int, lr: float) -> tuple[float, float]:
    """Return the step size lr / (1 − β₁ⁿ) of Adam's n-th step, and the root of the second correction 1 − β₂ⁿ."""
    return lr / (1 - BETA1**step), (1 - BETA2**step) ** 0.5


def adam_step(
    value: Tensor,
    gradient: Tensor,
    first_moment: Tensor,
    second_moment: Tensor,
    step_size: float | Tensor,
    bias_correction2_sqrt: float | Tensor,
) -> None:
    """Take one step of Adam, in place.

    Args:
        value: the parameter.
        gradient: of the loss.
        first_moment: the running mean of the gradient.
        second_moment: the running mean of its square.
        step_size: of :func:`adam_corrections`.
        bias_correction2_sqrt: of :func:`adam_corrections`.
    """
    first_moment.mul_(BETA1).add_(gradient, alpha=1 - BETA1)
    second_moment.mul_(BETA2).add_(gradient.square(), alpha=1 - BETA2)
    denominator = second_moment.sqrt().div_(bias_correction2_sqrt).add_(EPSILON)
    value.sub_((first_moment * step_size).div_(denominator))

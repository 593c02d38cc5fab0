"""Gradients of single examples through linear layers, kept as factors: a sum over examples is then one product."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sortition.learning.stacked import BACKWARD


def row_gradients(
    layers: Sequence[nn.Module], parameters: Sequence[Tensor], x: Tensor, y: Tensor
) -> list[tuple[Tensor, Tensor]]:
    """Per parameter, in the model's order, g (B, out) and h (B, in): gᵀh of some rows is the gradient of their losses.

    Args:
        layers: linear ones, activations and dropout, which is off.
        parameters: of the linear layers.
        x: examples (B, d).
        y: labels (B,).
    """
    own, h = iter(parameters), x
    passed = list[tuple[nn.Module, Tensor, Tensor | None]]()  # a layer, its input or output, its weight
    for layer in layers:
        if isinstance(layer, nn.Linear):
            weight = next(own)
            passed.append((layer, h, weight))
            h = nn.functional.linear(h, weight, next(own) if layer.bias is not None else None)
        elif not isinstance(layer, nn.Dropout):
            h = layer(h)
            passed.append((layer, h, None))
    g = torch.softmax(h, 1)
    g[torch.arange(len(y), device=y.device), y] -= 1
    found, ones = list[tuple[Tensor, Tensor]](), x.new_ones(len(x), 1)
    for layer, kept, weight in reversed(passed):
        if weight is None:
            g = BACKWARD[type(layer)](g, kept)
            continue
        if layer.bias is not None:
            found.append((g, ones))
        found.append((g, kept))
        g = g @ weight if kept is not x else g
    return found[::-1]

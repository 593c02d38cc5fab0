"""Factors of gradients, held against autograd."""

import pytest
import torch
from torch import nn

from sortition.learning.linear_gradients import row_gradients

MODELS = {
    "softmax": nn.Sequential(nn.Linear(6, 4)),
    "relu, dropout": nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 4)),
    "tanh, no bias": nn.Sequential(
        nn.Linear(6, 5, bias=False), nn.Tanh(), nn.Linear(5, 3), nn.Sigmoid(), nn.Linear(3, 4)
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("rows", [slice(0, 1), slice(2, 9), slice(0, 12)], ids=str)
def test_the_product_over_rows_is_the_gradient_of_their_losses(name, rows):
    model = MODELS[name].eval()
    x, y = torch.randn(12, 6, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 4
    parameters = list(model.parameters())
    expected = torch.autograd.grad(nn.functional.cross_entropy(model(x[rows]), y[rows], reduction="sum"), parameters)
    with torch.inference_mode():
        pairs = row_gradients(list(model), [p.detach() for p in parameters], x, y)
    for (g, h), gradient in zip(pairs, expected, strict=True):
        torch.testing.assert_close((g[rows].t() @ h[rows]).reshape(gradient.shape), gradient)

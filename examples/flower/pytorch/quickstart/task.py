"""The task: 1,797 handwritten digits of 8 × 8 pixels, most of a node's of two or three kinds."""

from functools import lru_cache

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn


class Net(nn.Module):
    """A small multilayer perceptron."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x):
        return self.layers(x)


@lru_cache(maxsize=2)
def load_data(partition_id: int, num_partitions: int):
    """(x, y) of one node: the digits sorted by label, dealt out in two pieces per node."""
    data = load_digits()
    order = np.argsort(data.target, kind="stable")
    pieces = np.array_split(order, 2 * num_partitions)
    own = np.concatenate([pieces[partition_id], pieces[partition_id + num_partitions]])
    x = torch.tensor(data.data[own] / 16, dtype=torch.float32)
    return x, torch.tensor(data.target[own], dtype=torch.int64)


def train(model, x, y, epochs: int, lr: float, seed: int) -> tuple[float, int]:
    """Plain SGD; the mean batch loss and the number of steps."""
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(epochs):
        for batch in torch.randperm(len(y), generator=generator).split(32):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    return float(np.mean(losses)), len(losses)


def evaluate(model, x, y) -> tuple[float, float]:
    """Loss and accuracy."""
    with torch.no_grad():
        logits = model(x)
    return nn.functional.cross_entropy(logits, y).item(), float((logits.argmax(1) == y).float().mean())

"""What is trained: softmax regression on the 8×8 digits, in NumPy alone. Each device holds a few labels only."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from sortition.clients import Answers, AppReply, Received
from sortition.federation import Device

LABELS, PIXELS = 10, 64
SHARDS = 3  # pieces of the data, sorted by label, that a device holds
STEPS, RATE = 15, 0.5
Model = dict[str, Any]


def first_model() -> Model:
    """A model that knows nothing."""
    return {"weight": np.zeros((LABELS, PIXELS), np.float32), "bias": np.zeros(LABELS, np.float32)}


@cache
def split() -> tuple[Any, ...]:
    """Training and test examples."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = (x[order] / 16.0).astype(np.float32), y[order]
    return x[:1500], y[:1500], x[1500:], y[1500:]


@cache
def data_of(name: str) -> tuple[Any, Any]:
    """The examples of ``device-7-of-100``."""
    number, count = int(name.split("-")[1]), int(name.split("-")[3])
    x, y, _, _ = split()
    shards = np.array_split(np.argsort(y, kind="stable"), SHARDS * count)
    mine = np.random.default_rng(1).permutation(SHARDS * count)[SHARDS * number : SHARDS * (number + 1)]
    rows = np.concatenate([shards[shard] for shard in mine])
    return x[rows], y[rows]


def probabilities(model: Model, x: Any) -> Any:
    """Softmax of the logits (n, 10)."""
    logits = x @ model["weight"].T + model["bias"]
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def loss_of(model: Model, x: Any, y: Any) -> float:
    return float(-np.log(probabilities(model, x)[np.arange(len(y)), y] + 1e-12).mean())


def test_accuracy(model: Model) -> float:
    _, _, x, y = split()
    return float((probabilities(model, x).argmax(axis=1) == y).mean())


class Client:
    """What selectors may ask of a device."""

    def __init__(self, received: Received) -> None:
        self.model = received.model
        self.x, self.y = data_of(received.context)

    def loss(self) -> float:
        return loss_of(self.model, self.x, self.y)


def facts(name: str) -> dict[str, Any]:
    """What selectors may know of a device; only what the chosen method declares is sent."""
    _, y = data_of(name)
    return {"sizes": len(y), "label_counts": np.bincount(y, minlength=LABELS)}


def train(received: Received) -> AppReply:
    """Full-batch gradient steps on the device's own examples."""
    x, y = data_of(received.context)
    model = dict(received.model)
    losses = []
    for _ in range(STEPS):
        losses.append(loss_of(model, x, y))
        errors = probabilities(model, x)
        errors[np.arange(len(y)), y] -= 1.0
        model["weight"] = model["weight"] - RATE * (errors.T @ x / len(y)).astype(np.float32)
        model["bias"] = model["bias"] - RATE * errors.mean(axis=0).astype(np.float32)
    return AppReply(model, {"train_loss": float(np.mean(losses)), "steps": STEPS, "lr": RATE})


def device(name: str) -> Device:
    """The program of one device."""
    return Device(Answers(Client, facts), train, name=name)

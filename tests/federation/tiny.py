"""A federation without torch: each device pulls one vector towards a goal of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from sortition.clients import Answers, AppReply, Received
from sortition.federation import Device

SIZE = 4
FACTS = {"battery": lambda number: 0.1 * number, "sizes": lambda number: 10 + number}


def goal_of(name: str) -> np.ndarray:
    """Where a device wants the model to be."""
    number = int(name.split("-")[1])
    return np.random.default_rng(number).normal(size=SIZE)


def facts(name: str) -> dict[str, Any]:
    number = int(name.split("-")[1])
    label_counts = np.bincount([number % 3, (number + 1) % 3], minlength=3) * 5
    return {"sizes": 10 + number, "battery": 0.1 * number, "label_counts": label_counts}


class Client:
    """Answers for one device."""

    def __init__(self, received: Received) -> None:
        self.model = received.model["w"]
        self.goal = goal_of(received.context)

    def loss(self) -> float:
        return float(((self.model - self.goal) ** 2).sum())


def train(received: Received) -> AppReply:
    """One step of half the way."""
    model = received.model["w"]
    moved = model + 0.5 * (goal_of(received.context) - model)
    loss = float(((model - goal_of(received.context)) ** 2).sum())
    return AppReply({"w": moved.astype(np.float32)}, {"train_loss": loss, "steps": 1, "lr": 0.5})


def model() -> dict[str, np.ndarray]:
    return {"w": np.zeros(SIZE, np.float32)}


def devices(count: int = 8) -> dict[str, Device]:
    """Devices by name."""
    names = [f"device-{number}" for number in range(count)]
    return {name: Device(Answers(Client, facts), train, name=name) for name in names}

"""Devices that train and answer as the simulator's clients do."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.flower import federation as task
from tests.simulation.small import data, parts

from sortition.clients import Answers, pytorch
from sortition.core.signals import DURATION, Signal
from sortition.federation import Device
from sortition.selectors.hics import ROW_MEANS


def load(name: str) -> tuple[Any, Any, Any]:
    """The model and the examples of ``device-3``."""
    rows = parts()[int(name.split("-")[1])]
    return task.model(), data().x_train[rows], data().y_train[rows]


def resources(name: str) -> tuple[float, ...]:
    """What the simulator says of a device."""
    return tuple(task.world().costs.resources(int(name.split("-")[1]), 0).tolist())


def seconds(client: Any, payload: Any) -> float:
    """Durations as the simulator has them, not those of this machine."""
    received = client.received
    client.train()
    return float(task.world().costs.seconds(np.array([received.client]), received.t)[0])


def simulated_devices() -> dict[str, Device]:
    """Devices that train and answer as the simulator's clients do, by name."""
    make_client = pytorch(load, task.RULE, seed=task.SEED, resources=resources)
    signals = [ROW_MEANS, Signal(DURATION.name, "training", seconds, nonnegative=True)]
    answers = Answers(make_client, signals=signals, app_trains=False)
    names = [f"device-{number}" for number in range(len(parts()))]
    return {name: Device(answers, name=name) for name in names}


def initial_model() -> dict[str, Any]:
    """The first model of the simulator's federation."""
    return {name: value.numpy() for name, value in task.model().state_dict().items()}

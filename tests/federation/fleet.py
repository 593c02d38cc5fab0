"""Devices around a mailbox, in threads of this process, and the federation of the simulator's tests on them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from tests.flower import federation as task
from tests.simulation.small import data, parts

from sortition.clients import Answers, pytorch
from sortition.core.signals import DURATION, Signal
from sortition.federation import Device, Mailbox, Reply, Wait, Work
from sortition.federation.wire import read_reply, read_work, write_reply, write_work
from sortition.selectors.hics import ROW_MEANS

LIMIT = 1 << 22  # bytes of a reply in these tests
Handle = Callable[[Work], Reply]


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


def over_the_wire(device: Device) -> Handle:
    """A device whose work and replies travel as bytes."""

    def handle(work: Work) -> Reply:
        received = read_work(write_work(work))
        return read_reply(write_reply(device.handle(received)), work.handle, LIMIT)

    return handle


@contextmanager
def serving(mailbox: Mailbox, devices: dict[str, Handle], *, threads: int = 2, seed: int = 0) -> Iterator[None]:
    """Let devices check in, in an order of their own, until the block ends."""
    stop = threading.Event()
    errors: list[BaseException] = []

    def live(names: list[str], rng: np.random.Generator) -> None:
        try:
            while not stop.is_set():
                for name in rng.permutation(names).tolist():
                    work = mailbox.check_in(name)
                    if isinstance(work, Work):
                        mailbox.deliver(work.handle, devices[name](work), name=name)
                time.sleep(0.002)
        except BaseException as error:
            errors.append(error)

    for name in devices:  # everybody is there when the block begins
        assert isinstance(mailbox.check_in(name), Wait)
    names = list(devices)
    workers = [
        threading.Thread(target=live, args=(names[part::threads], np.random.default_rng([seed, part])))
        for part in range(threads)
    ]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    assert errors == []

"""Devices around a mailbox, in threads of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from sortition.federation import Device, Mailbox, Reply, Wait, Work
from sortition.federation.wire import read_reply, read_work, write_reply, write_work

LIMIT = 1 << 22  # bytes of a reply in these tests
Handle = Callable[[Work], Reply]


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
    errors: list[Exception] = []

    def serve(name: str) -> None:
        work = mailbox.check_in(name)
        if isinstance(work, Wait):
            return
        try:
            reply = devices[name](work)
        except Exception as error:  # said when the block ends; the federation must not wait for it
            errors.append(error)
            reply = Reply(work.handle, "failed", reason=str(error))
        mailbox.deliver(work.handle, reply, name=name)

    def live(names: list[str], rng: np.random.Generator) -> None:
        while not stop.is_set():
            for name in rng.permutation(names).tolist():
                serve(name)
            time.sleep(0.002)

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

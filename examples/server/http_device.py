"""The device's side over HTTP, and many simulated devices: they come and go, are slow, vanish and upload twice."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import Counter
from uuid import uuid4

import digits_task

from sortition.federation import Device, Reply, Wait, Work
from sortition.federation.wire import read_work, write_reply

LOOPBACK = "127.0.0.1"


class HttpDevice:
    """Calls the server on behalf of a device; a call whose answer got lost can be repeated."""

    def __init__(self, port: int, name: str, token: str) -> None:
        self.name = name
        self.boot = uuid4().hex
        self._connection = http.client.HTTPConnection(LOOPBACK, port, timeout=10)
        self._headers = {"Authorization": f"Bearer {token}"}

    def check_in(self) -> Work | Wait:
        """Work, or how long to wait."""
        status, content, kind = self._post("check-in", json.dumps({"boot": self.boot}).encode())
        if status != 200:
            raise ConnectionError(f"the server answers {status}: {content.decode(errors='replace')}")
        if kind.startswith("application/json"):
            return Wait(float(json.loads(content)["wait"]))
        return read_work(content)

    def deliver(self, handle: str, reply: Reply) -> str:
        """``accepted``, ``repeated`` or ``expired``."""
        status, content, _ = self._post(f"replies/{handle}", write_reply(reply))
        if status == 410:
            return "expired"
        if status != 200:
            raise ConnectionError(f"the server answers {status}: {content.decode(errors='replace')}")
        return str(json.loads(content)["receipt"])

    def restart(self) -> None:
        """As a program does that was killed and started again."""
        self.boot = uuid4().hex

    def close(self) -> None:
        self._connection.close()

    def _post(self, path: str, body: bytes) -> tuple[int, bytes, str]:
        try:
            self._connection.request("POST", f"/devices/{self.name}/{path}", body, self._headers)
            answer = self._connection.getresponse()
            return answer.status, answer.read(), answer.getheader("content-type", "")
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise ConnectionError(str(error)) from error


class Life:
    """What one simulated device does all day."""

    def __init__(self, calls: HttpDevice, program: Device, seed: int, slow_seconds: float) -> None:
        self.calls = calls
        self.program = program
        self.random = random.Random(seed)  # noqa: S311  a simulation, not a secret
        self.is_slow = self.random.random() < 0.12
        self.is_moody = self.random.random() < 0.15
        self.slow_seconds = slow_seconds
        self.receipts: Counter[str] = Counter()

    def live(self, stop: threading.Event) -> None:
        """Check in, work, go away, come back, until told to stop."""
        stop.wait(self.random.random())
        while not stop.is_set():
            try:
                work = self.calls.check_in()
                if isinstance(work, Wait):
                    stop.wait(work.seconds * self.random.uniform(0.5, 1.0))
                else:
                    self._do(work, stop)
            except ConnectionError:  # the server is down: it will come back
                stop.wait(0.3)
        self.calls.close()

    def _do(self, work: Work, stop: threading.Event) -> None:
        trains = work.ask.kind == "train"
        if trains and self.is_moody and self.random.random() < 0.7:
            stop.wait(self.random.uniform(2, 4))  # it vanishes with its work
            self.calls.restart()
            return
        reply = self.program.handle(work)
        if trains and self.is_slow:
            stop.wait(self.slow_seconds)
        self._deliver_until_acknowledged(work.handle, reply, stop)
        if trains and self.random.random() < 0.1:
            stop.wait(self.random.uniform(1, 5))  # somebody needs the device

    def _deliver_until_acknowledged(self, handle: str, reply: Reply, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                receipt = self.calls.deliver(handle, reply)
                self.receipts[receipt] += 1
                if receipt == "accepted" and self.random.random() < 0.1:
                    self.receipts[self.calls.deliver(handle, reply)] += 1  # as if the answer had got lost
                return
            except ConnectionError:
                stop.wait(0.3)


class Fleet:
    """Many simulated devices, each in a thread."""

    def __init__(self, port: int, tokens: dict[str, str], slow_seconds: float) -> None:
        self.lives = [
            Life(HttpDevice(port, name, token), digits_task.device(name), seed, slow_seconds)
            for seed, (name, token) in enumerate(tokens.items())
        ]
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=life.live, args=(self._stop,), daemon=True) for life in self.lives]

    def __enter__(self) -> Fleet:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        ends = time.monotonic() + 15
        for thread in self._threads:
            thread.join(max(ends - time.monotonic(), 0))

    @property
    def receipts(self) -> Counter[str]:
        """What the server said of uploads."""
        return sum((life.receipts for life in self.lives), Counter())

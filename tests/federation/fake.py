"""A network that is a clock and a list: devices answer after so many seconds, and nobody really waits."""

from __future__ import annotations

import numpy as np

from sortition.federation.arrangement import arranged
from sortition.federation.driver import Driver, Selection
from sortition.federation.messages import Peer, Profile, Reply
from sortition.federation.messenger import Messenger
from sortition.federation.model_engine import ModelEngine
from sortition.federation.options import Options
from sortition.federation.overlapping_messenger import OverlappingMessenger
from sortition.federation.server_checkpoint import RunFiles
from sortition.selectors import load

MODEL = {"w": np.zeros(2, np.float32)}
NEVER = float("inf")


class Clock:
    """Seconds that pass only when somebody waits."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Device:
    """A client: how long it takes for each kind of work, and what it sends."""

    def __init__(
        self, name, *, facts=None, signals=("loss",), train=1.0, query=0.1, profile=0.0, w=(1.0, 1.0), loss=1.0
    ):
        self.name, self.facts, self.signals, self.loss = name, dict(facts or {}), signals, loss
        self.seconds = {"train": train, "rehearse": train, "query": query, "profile": profile}
        self.w, self.fails, self.got = w, None, []

    def answer(self, ask, handle):
        self.got.append(ask)
        if self.fails is not None and ask.kind != "profile":
            return Reply(handle, "failed", self.fails)
        if ask.kind == "profile":
            facts = {name: np.asarray(self.facts[name]) for name in (*ask.facts, *ask.optional) if name in self.facts}
            return Reply(handle, profile=Profile(self.name, facts, self.signals))
        rows = dict.fromkeys(ask.signals, np.asarray(self.loss))
        return Reply(handle, rows=rows, model={"w": np.asarray(self.w, np.float32)})


class Network:
    """A transport whose messages take as long as their devices say."""

    def __init__(self, devices, clock=None):
        self.clock = clock or Clock()
        self.devices = {f"session-{number}": device for number, device in enumerate(devices)}
        self.offline, self.under_way, self.asks, self.cancelled = set(), [], [], []

    def device(self, name):
        return next(device for device in self.devices.values() if device.name == name)

    def online(self):
        return {session: Peer() for session, device in self.devices.items() if device.name not in self.offline}

    def post(self, asks):
        handles = []
        for ask in asks:
            handle = f"message-{len(self.asks)}"
            self.asks.append(ask)
            device = self.devices[ask.session]
            arrives = self.clock.now + device.seconds[ask.kind]
            self.under_way.append((arrives, handle, device.answer(ask, handle)))
            handles.append(handle)
        return handles

    def poll(self, wait):
        due = self._due()
        if not due and wait > 0:
            coming = [arrives for arrives, _, _ in self.under_way]
            self.clock.now = max(self.clock.now, min([self.clock.now + wait, *coming]))
            due = self._due()
        self.under_way = [message for message in self.under_way if message not in due]
        return [reply for _, _, reply in due]

    def _due(self):
        return [message for message in self.under_way if message[0] <= self.clock.now]

    def cancel(self, handles):
        self.cancelled += handles
        return ()

    def asked(self, kind, name):
        """How often a device was sent work of a kind."""
        return sum(ask.kind == kind for ask in self.device(name).got)


class Federation:
    """A driver on such a network."""

    def __init__(self, network, method="uniform", *, cohort=2, on_round=None, logger=None, **options):
        selector = load(method) if isinstance(method, str) else method
        self.network = network
        self.options = Options(arrangement=arranged("Test", selector), cohort=cohort, on_round=on_round, **options)
        self.engine = ModelEngine(MODEL)
        kind = OverlappingMessenger if self.options.pace.settings.overlaps else Messenger
        self.messenger = kind(network, self.engine, self.options, clock=network.clock, logger=logger)
        self.files = RunFiles(self.messenger, backend="test")
        self.complaints = []
        self.driver = Driver(
            self.messenger,
            Selection(selector, None, self.options.seed, self.options.guards),
            self.options.pace,
            policy=self.messenger.policy,
            started=self.started,
            keep=self.files.keep,
            sinks=() if on_round is None else (on_round,),
            complain=self.complaints.append,
        )

    def started(self, registrar):
        self.messenger.needs = registrar.needs
        self.files.watch(registrar)

    def play(self, rounds=1):
        return [self.driver.play_round() for _ in range(rounds)]

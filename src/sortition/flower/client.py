"""The client's side: ``answer(app, make_client)`` makes a ClientApp answer what selectors ask.

Per signal one ``query.<signal>`` handler, one for the profile, one for rehearsals; and training whose reply carries the
declared reports. An app that has a train function of its own keeps it. What is not declared is not sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from sortition.core import signals as core
from sortition.core.arrays import Array
from sortition.core.client import LocalClient
from sortition.core.errors import InputError, bad
from sortition.core.signals import Signal
from sortition.flower import wire
from sortition.flower.app_training import OwnTraining

SIGNALS = (
    core.LOSS,
    core.BATCH_LOSS,
    core.GRADIENT,
    core.UPDATE,
    core.STEP_GRADIENT,
    core.BIAS_UPDATE,
    core.HEAD_UPDATE,
    core.TRAINING_LOSS,
    core.DISPERSION,
    core.DURATION,
    core.probe(np.zeros(1), np.ones(1)),  # the moments come with the question
)
Facts = Callable[[Context], Mapping[str, npt.ArrayLike]]
TRAIN = "train.default"


@dataclass(frozen=True)
class Received:
    """What a client is made from: the model and config that arrived, the task, and Flower's context."""

    model: dict[str, Array]
    config: Mapping[str, Any]
    task: wire.Task
    context: Context

    @property
    def vector(self) -> Array:
        """The model as one vector (P,)."""
        return wire.flatten(self.model)


MakeClient = Callable[[Received], LocalClient]


def stable_name(context: Context) -> str:
    """``name`` or ``partition-id`` of the node's config; empty if it has neither."""
    config = context.node_config
    return str(config.get("name", config.get("partition-id", "")))


def answer(
    app: ClientApp,
    make_client: MakeClient,
    *,
    facts: Facts | None = None,
    signals: Iterable[Signal] = (),
    name: Callable[[Context], str] = stable_name,
) -> None:
    """Let an app answer selectors; call it below the app's own ``@app.train()``, if there is one.

    Args:
        app: the ClientApp.
        make_client: from what was received to a LocalClient; for PyTorch, ``sortition.flower.pytorch(load)``.
        facts: the node's static facts (``sizes``, ``label_counts``, ``features``, ``groups``), of which only those
            that the selector declares are sent; default: ``make_client.facts``.
        signals: further signals, such as a method's own; one of a known name replaces it.
        name: the node's stable name.
    """
    if not callable(make_client):
        raise bad("answer(make_client)", "a function from Received to LocalClient", make_client)
    known = {signal.name: signal for signal in (*SIGNALS, *signals) if signal.of != "pairs"}
    office = _Office(make_client, facts or getattr(make_client, "facts", None), known, name)
    office.own = app._registered_funcs.pop(TRAIN, None)
    if office.own is None and getattr(make_client, "trains", True) is False:
        raise InputError("pytorch(load, rule) must be given a rule where the app has no @app.train() function above.")
    app.train()(office.train)
    app.query("profile")(office.profile)
    app.query("rehearse")(office.rehearse)
    for signal in known.values():
        app.query(wire.action(signal.name))(office.measure)


class _Office:
    """The handlers of one app."""

    def __init__(
        self, make_client: MakeClient, facts: Facts | None, known: dict[str, Signal], name: Callable[[Context], str]
    ) -> None:
        self.make_client, self.facts, self.known, self.name = make_client, facts, known, name
        self.own: Callable[[Message, Context], Message] | None = None

    def profile(self, message: Message, context: Context) -> Message:
        """Name, the asked facts, and what can be answered."""
        wanted = (wire.Task.of(message.content) or wire.Task()).facts
        held = dict(self.facts(context)) if wanted and self.facts is not None else {}
        missing = [fact for fact in wanted if fact not in held]
        if missing:
            raise bad("answer(facts)", f"a function that gives {', '.join(missing)}", sorted(held))
        about = ConfigRecord({"name": self.name(context), "signals": sorted(self.known)})
        rows = wire.record({fact: np.asarray(held[fact]) for fact in wanted})
        return Message(RecordDict({wire.SELF: about, wire.FACTS: rows}), reply_to=message)

    def measure(self, message: Message, context: Context) -> Message:
        """One signal's row."""
        client, received = self._client(message, context)
        name = received.task.signal
        payload = wire.tables(message.content[wire.PAYLOAD]) if wire.PAYLOAD in message.content else {}
        row = self._signal(name).compute(client, payload)
        rows = wire.record({name: np.asarray(row, np.float64)})
        return Message(RecordDict({wire.ROWS: rows}), reply_to=message)

    def rehearse(self, message: Message, context: Context) -> Message:
        """Train for a question; only the model goes back."""
        client, received = self._client(message, context)
        return Message(RecordDict({received.task.model: self._trained(client, received)}), reply_to=message)

    def train(self, message: Message, context: Context) -> Message:
        """Train; the declared reports ride on the reply. Signals of the received model are taken before training."""
        if wire.Task.of(message.content) is None and self.own is not None:
            return self.own(message, context)  # a strategy of somebody else's
        client, received = self._client(message, context)
        wanted = [self._signal(name) for name in received.task.reports]
        rows = {s.name: s.row(client) for s in wanted if s.of == "model"}
        arrays = self._trained(client, received)
        rows |= {s.name: s.row(client) for s in wanted if s.of == "training"}
        metrics = client.reply.metrics if isinstance(client, OwnTraining) else MetricRecord()
        content = RecordDict({received.task.model: arrays, "metrics": metrics})
        if rows:
            content[wire.ROWS] = wire.record(rows)
        return Message(content, reply_to=message)

    def _client(self, message: Message, context: Context) -> tuple[LocalClient, Received]:
        task = wire.Task.of(message.content)
        if task is None:
            raise InputError("This app trains for sortition.flower.SelectorStrategy; the message came from another.")
        config = message.content.get(task.config, {})
        received = Received(wire.tables(message.content[task.model]), config, task, context)
        client, own = self.make_client(received), self.own
        if own is None:
            return client, received

        def run() -> tuple[RecordDict, float]:
            begun = time.monotonic()
            return own(message, context).content, time.monotonic() - begun

        return OwnTraining(client, received.model, received.config, run), received

    def _trained(self, client: LocalClient, received: Received) -> ArrayRecord:
        if isinstance(client, OwnTraining):
            client.train()
            return wire.record(client.reply.model)
        update = np.asarray(client.train().update)
        return wire.record(wire.unflatten(received.vector + update, received.model))

    def _signal(self, name: str) -> Signal:
        signal = wire.found(name, self.known)
        if signal is None:
            raise bad("signal", f"one of {', '.join(sorted(self.known))}", name, "Pass it to answer(signals=…).")
        return signal

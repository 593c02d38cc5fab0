"""The client's side: ``answer(app, client)`` makes a ClientApp answer what selectors ask.

The app's own functions, mods and lifespan stay as they are. Questions are answered before Flower's routing, so no mod
sees them; training is the app's, through its mods, once, and the declared reports are added to the reply that leaves
the mods. What is not declared is not sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from copy import copy, deepcopy
from dataclasses import dataclass
from functools import cached_property

from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from sortition.clients import Answers, AppClient, AppReply, Received
from sortition.clients.answers import Facts
from sortition.clients.received_model import MakeClient
from sortition.core.arrays import Array
from sortition.core.errors import InputError, bad
from sortition.core.signals import Signal
from sortition.flower import codec


def stable_name(context: Context) -> str:
    """Return ``name`` or ``partition-id`` of the node's config; empty if it has neither."""
    config = context.node_config
    return str(config.get("name", config.get("partition-id", "")))


def node_tags(context: Context) -> list[str]:
    """Return ``tags`` of the node's config, which commas separate."""
    return [tag.strip() for tag in str(context.node_config.get("tags", "")).split(",") if tag.strip()]


def answer(
    app: ClientApp,
    client: MakeClient | None = None,
    *,
    facts: Facts | None = None,
    signals: Iterable[Signal] = (),
    name: Callable[[Context], str] = stable_name,
    tags: Callable[[Context], list[str]] = node_tags,
) -> None:
    """Let an app answer selectors; call it below the app's own ``@app.train()``, if there is one.

    Args:
        app: the ClientApp.
        client: a class or function from :class:`~sortition.clients.Received` to a client with those methods of
            ``sortition.core.LocalClient`` that selectors ask for; ``sortition.clients.pytorch(load)`` for PyTorch.
            None for methods that ask nothing.
        facts: the node's static facts (``sizes``, ``label_counts``, ``features``, ``groups``, and any others that a
            selector of your own reads), of which only those that are declared are sent; default: ``client.facts``.
        signals: further signals, such as a method's own; one of a known name replaces it, with rows of the same length.
        name: the node's stable name.
        tags: words by which the server may call clients eligible.
    """
    if not isinstance(app, ClientApp):
        raise bad("answer(app)", "a ClientApp", app)
    if isinstance(app, _AnsweringApp):
        raise InputError("answer(app) must be called once; this app answers already.")
    if not hasattr(app, "_lifespan"):
        raise InputError(
            "sortition.flower must run with flwr 1.40 or 1.41; this version keeps an app's lifespan apart."
        )
    actions = _has_train_action(app)
    trains = not _register_client_training(app) or actions
    if not trains and not _can_train(client):
        raise InputError(
            "answer(app, client) must be given a client that trains (such as pytorch(load, rule)) where the app has "
            "no @app.train() function above."
        )
    app.office = _Office(Answers(client, facts, signals, app_trains=trains), name, tags)
    if type(app) is ClientApp:
        app.__class__ = _AnsweringApp
    else:
        app.__class__ = type("Answering", (_AnsweringApp, type(app)), {})


def _register_client_training(app: ClientApp) -> bool:
    """Register the client's training, behind the app's mods; return False where the app has a train function."""
    try:
        register = app.train()
    except ValueError:
        raise InputError(
            "answer(app) must be given an app with @app.train() functions; got one made from client_fn, which Flower's "
            "message strategies cannot train. Write its fit() as an @app.train() function."
        ) from None
    try:
        register(_train_client)
    except ValueError:
        return False
    return True


def _can_train(client: MakeClient | None) -> bool:
    """Tell whether clients train, as far as that is seen before one is made."""
    if isinstance(client, type):
        return hasattr(client, "train")
    return client is not None and getattr(client, "trains", True) is not False


def _has_train_action(app: ClientApp) -> bool:
    """Tell whether it has an ``@app.train("action")``, for strategies whose messages are of that type."""
    return any(kind.partition(".")[0] == "train" for kind in getattr(app, "_registered_funcs", ()))


@dataclass(frozen=True)
class _Office:
    """What an app answers, and how its node is called."""

    answerer: Answers
    name: Callable[[Context], str]
    tags: Callable[[Context], list[str]]

    def answers_to(self, kind: str) -> bool:
        """Tell whether a message type is one of our questions."""
        return kind in (codec.PROFILE, codec.REHEARSE) or kind in map(codec.query_of, self.answerer.known)

    def profile(self, assignment: codec.Assignment, context: Context) -> RecordDict:
        """Return name, tags, the declared facts, and what can be answered."""
        profile = {
            "name": self.name(context),
            "tags": self.tags(context),
            "signals": self.answerer.names,
            "unsure": self.answerer.unsure,
        }
        facts = self.answerer.facts_of(context, assignment.facts, assignment.optional)
        return RecordDict({codec.SELF: ConfigRecord(profile), codec.FACTS: codec.to_record(facts)})


_training_exchange: ContextVar[_Exchange] = ContextVar("the exchange that trains now")


def _train_client(message: Message, context: Context) -> Message:
    """Train by the client itself, in an app without a train function."""
    exchange = _training_exchange.get(None)
    if exchange is None:
        raise InputError("This app trains for sortition.flower.SelectorStrategy; the message came from another.")
    key = next(iter(message.content.array_records))
    arrays = codec.to_record(exchange.client.trained_by_itself())
    return Message(RecordDict({key: arrays, "metrics": MetricRecord()}), reply_to=message)


class _AnsweringApp(ClientApp):
    """A ClientApp that answers our questions itself, and adds our reports to what it trains."""

    office: _Office

    def __call__(self, message: Message, context: Context) -> Message:
        """Answer, train and report, or do what the app would do."""
        assignment = codec.Assignment.of(message.content)
        kind = message.metadata.message_type
        if assignment is None:
            return super().__call__(message, context)  # from another strategy
        if kind.partition(".")[0] == "train":
            return _Exchange(self, super().__call__, message, context=context, assignment=assignment).train_and_report()
        if not self.office.answers_to(kind):
            return super().__call__(message, context)
        with self._lifespan(context):
            if kind == codec.PROFILE:
                return Message(self.office.profile(assignment, context), reply_to=message)
        return _Exchange(self, super().__call__, message, context=context, assignment=assignment).answer_query()


class _Exchange:
    """One message of ours and its reply."""

    def __init__(
        self,
        app: _AnsweringApp,
        call: Callable[[Message, Context], Message],
        message: Message,
        context: Context,
        assignment: codec.Assignment,
    ) -> None:
        self.app = app
        self.call = call
        self.message = message
        self.context = context
        self.assignment = assignment
        self.answerer = app.office.answerer
        self.kind = message.metadata.message_type
        self.content = message.content
        self.reply: Message | None = None

    @cached_property
    def client(self) -> AppClient:
        """The client behind the app, made where a question or a report needs one."""
        assignment = self.assignment
        received = Received(
            model=codec.to_arrays(self.content[assignment.model]),
            config=self.content.get(assignment.config, {}),
            t=assignment.t,
            client=assignment.client,
            purpose=assignment.purpose,
            context=self.context,
            run_config=self.context.run_config,
        )
        return AppClient(
            received, self._train_app, self.answerer.make_client, trains_itself=not self.answerer.app_trains
        )

    def _run_app(self) -> Message:
        """Let the app train as on any train message: with its mods, and without records of ours.

        A training that is only tried leaves nothing in the node's state, where apps keep layers of their own.
        """
        mark = _training_exchange.set(self)
        context = self.context
        message_type = self.kind
        is_a_trial = self.kind.partition(".")[0] != "train"
        if is_a_trial:
            context = copy(context)
            context.state = deepcopy(context.state)
            message_type = self.assignment.kind
        self.message.content = codec.without_ours(self.content)
        self.message.metadata.message_type = message_type
        try:
            self.reply = self.call(self.message, context)
        finally:
            self.message.content = self.content
            self.message.metadata.message_type = self.kind
            _training_exchange.reset(mark)
        return self.reply

    def _train_app(self) -> AppReply:
        """Let the app train, and return its model, its metrics and the seconds that it took."""
        started = time.monotonic()
        reply = self._run_app()
        if reply.has_error():
            raise InputError(f"The app's training fails: {reply.error.reason}")
        records = reply.content.array_records
        key = next(iter(records), "")
        if len(records) > 1:
            key = self.assignment.model
        if key not in records:
            raise InputError(f"The app's train function must return the model as an ArrayRecord; got {len(records)}.")
        metrics = next(iter(reply.content.metric_records.values()), MetricRecord())
        return AppReply(codec.to_arrays(records[key]), metrics, time.monotonic() - started)

    def train_and_report(self) -> Message:
        """Let the app train; return its reply with the declared reports.

        Signals of the received model are computed before training.
        """
        signals = [self.answerer.signal(name) for name in self.assignment.signals]
        signals_of_training = [signal for signal in signals if signal.of == "training"]
        rows = self._rows([signal for signal in signals if signal.of == "model"])
        if signals_of_training:
            self.client.train()
        reply = self.reply or self._run_app()
        rows |= self._rows(signals_of_training)
        if rows and not reply.has_error():
            reply.content[codec.ROWS] = codec.to_record(rows)
        return reply

    def _rows(self, signals: list[Signal]) -> dict[str, Array]:
        """Return the rows of these signals."""
        if not signals:
            return {}
        with self.app._lifespan(self.context):
            return {signal.name: self.answerer.row(signal.name, self.client) for signal in signals}

    def answer_query(self) -> Message:
        """Answer a question: return the row of one signal, or the model of a rehearsal."""
        if self.kind == codec.REHEARSE:
            model = codec.to_record(self.client.train().reply.model)
            return Message(RecordDict({self.assignment.model: model}), reply_to=self.message)
        payload = None
        if codec.PAYLOAD in self.content:
            payload = codec.to_arrays(self.content[codec.PAYLOAD])
        (name,) = self.assignment.signals
        signal = self.answerer.signal(name)
        if signal.of == "training":
            self.client.train()  # not inside `_lifespan`: the app enters its own when it trains
        with self.app._lifespan(self.context):
            row = self.answerer.row(signal.name, self.client, payload)
        return Message(RecordDict({codec.ROWS: codec.to_record({signal.name: row})}), reply_to=self.message)

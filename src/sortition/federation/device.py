"""The client's side without a framework: what a device does with the work that it is given.

::

    device = Device(Answers(Client, facts), train, name="phone-7")
    work = mailbox.check_in("phone-7")                     # or what came over your network
    mailbox.deliver(work.handle, device.handle(work))
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sortition.clients import Answers, AppClient, AppReply, Received
from sortition.core.arrays import Array
from sortition.core.errors import bad
from sortition.federation.device_mailbox import Work
from sortition.federation.messages import Ask, Handle, Profile, Reply

Train = Callable[[Received], AppReply]


class Device:
    """Answers selectors and trains.

    Args:
        answers: what it can answer.
        train: from what was received to the trained model and its metrics. It is also called for rehearsals and for
            questions about a training, whose models are thrown away, so it must leave nothing behind on the device.
            None where the client that ``answers`` makes trains itself, as ``sortition.clients.pytorch(load, rule)``.
        name: a stable name, for transports that do not prove one.
        tags: words by which the operator may call it eligible.
        context: what ``facts`` and clients are made from; default: the name.
        config: settings for ``train``, as ``Received.config``.
    """

    def __init__(
        self,
        answers: Answers,
        train: Train | None = None,
        *,
        name: str = "",
        tags: Sequence[str] = (),
        context: object = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        if not isinstance(answers, Answers):
            raise bad("Device.answers", "Answers", answers, "Write Answers(client, facts).")
        if train is not None and not callable(train):
            raise bad("Device.train", "a function from Received to AppReply, or None", train)
        if answers.app_trains != (train is not None):
            rule = "a function where Answers(app_trains=True), which is the default, and None where it is False"
            raise bad("Device.train", rule, train)
        self.answers = answers
        self.train = train
        self.name = name
        self.tags = tuple(tags)
        self.context = context
        if context is None:
            self.context = name
        self.config = dict(config or {})

    def handle(self, work: Work) -> Reply:
        """Do the work; a program that raises makes a reply that says so."""
        try:
            return self._reply(work.handle, work.ask)
        except Exception as error:  # whatever the user's functions raise, the server must hear of it
            return Reply(work.handle, "failed", reason=_words(error))

    def _reply(self, handle: Handle, ask: Ask) -> Reply:
        """Do what is asked, whatever the user's functions raise."""
        if ask.kind == "profile":
            return Reply(handle, profile=self._profile(ask))
        client = self._client(ask)
        if ask.kind == "query":
            payload = dict(ask.payload) or None
            return Reply(handle, rows={name: self.answers.row(name, client, payload) for name in ask.signals})
        if ask.kind == "rehearse":
            return Reply(handle, model=client.train().reply.model)
        return self._trained(handle, ask, client)

    def _profile(self, ask: Ask) -> Profile:
        return Profile(
            name=self.name,
            facts=self.answers.facts_of(self.context, ask.facts, ask.optional),
            signals=tuple(self.answers.names),
            tags=self.tags,
            unsure=tuple(self.answers.unsure),
        )

    def _trained(self, handle: Handle, ask: Ask, client: AppClient) -> Reply:
        """Return the trained model with its reports; those on the received model are taken before it is trained."""
        after_training = [name for name in ask.signals if self.answers.signal(name).of == "training"]
        before_training = [name for name in ask.signals if name not in after_training]
        early_rows, fault = self._reports(before_training, client)
        model = client.train().reply.model
        if fault:
            return Reply(handle, model=model, unreported=fault)
        late_rows, fault = self._reports(after_training, client)
        if fault:
            return Reply(handle, model=model, unreported=fault)
        return Reply(handle, model=model, rows=early_rows | late_rows)

    def _reports(self, names: Sequence[str], client: AppClient) -> tuple[dict[str, Array], str]:
        """Return the rows, and why there are none: the model is worth sending without them."""
        try:
            return {name: self.answers.row(name, client) for name in names}, ""
        except Exception as error:
            return {}, _words(error)

    def _client(self, ask: Ask) -> AppClient:
        """Return the client behind one ask; it trains when the training is first asked for, and once."""
        received = Received(
            model={name: np.array(value) for name, value in ask.model.items()},
            config=self.config,
            t=ask.round,
            client=ask.client,
            purpose=ask.purpose,
            context=self.context,
        )
        client = AppClient(
            received, lambda: self._run(client), self.answers.make_client, trains_itself=self.train is None
        )
        return client

    def _run(self, client: AppClient) -> AppReply:
        """Train, by the user's function or by the client itself."""
        began = time.monotonic()
        received = client.received
        if self.train is None:
            model = client.trained_by_itself()
            return AppReply(model, duration=time.monotonic() - began)
        copies = {name: value.copy() for name, value in received.model.items()}  # a function may train in place
        reply = self.train(replace(received, model=copies))
        if not isinstance(reply, AppReply):
            raise bad("Device.train", "a function that returns AppReply(model, metrics)", reply)
        model = {name: np.asarray(value) for name, value in reply.model.items()}
        return replace(reply, model=model, duration=reply.duration or time.monotonic() - began)


def _words(error: Exception) -> str:
    """Say an error in one line."""
    return f"{type(error).__name__}: {error}"

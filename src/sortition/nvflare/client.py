"""NVFlare's client interface, with answers for selectors: the only change of a training script is its import.

::

    from sortition.nvflare import client as flare      # in place of: import nvflare.client as flare

    flare.answer(facts=lambda site: {"sizes": len(data)})   # a client with loss() for methods that ask losses
    flare.init()
    while flare.is_running():
        model = flare.receive()
        ...                                            # train as ever
        flare.send(flare.FLModel(params=params, metrics={"train_loss": loss}))

Questions about the model are answered inside :func:`receive`. A question that needs a training, and a rehearsal, look
like any other round to the script; :func:`send` sends what was asked for instead of the model. Everything else of
``nvflare.client`` is there under its own name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import nvflare.client as flare
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType

from sortition.clients import Answers, AppClient, AppReply, Received
from sortition.clients.answers import Facts
from sortition.clients.named_arrays import Model
from sortition.clients.received_model import MakeClient
from sortition.core.arrays import Array
from sortition.core.errors import SortitionError, bad
from sortition.core.signals import Signal
from sortition.federation.messages import Ask
from sortition.nvflare import meta_codec

__all__ = ["FLModel", "ParamsType", "answer", "init", "is_running", "is_train", "receive", "send"]


class SiteApi(Protocol):
    """What a session uses of NVFlare's client interface."""

    def get_site_name(self) -> str:
        """Return the name of this site."""
        ...

    def send(self, model: FLModel, clear_cache: bool = True, /) -> None:
        """Send a message to the server."""
        ...


class SiteSession:
    """Answers the server for a script, and holds the message that the script works on.

    Args:
        answerer: what the script can answer.
        api: sends, and knows the site's name.
        tags: words by which the server may call the site eligible.
        clock: gives seconds; how long a training took is measured by it.
    """

    def __init__(
        self,
        answerer: Answers,
        api: SiteApi = flare,
        tags: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.answerer = answerer
        self.api = api
        self.clock = clock
        self.tags = [str(tag) for tag in tags]
        self.message: FLModel | None = None
        self.ask: Ask | None = None
        self.received_at = 0.0
        self._server_model: Model = {}  # the received model, where signals of a training compare with it

    def handle_message(self, message: FLModel) -> FLModel | None:
        """Return the message, if the script must train for it; else answer it, and return None.

        NVFlare gives the message of a round as often as it is asked for, until something is sent.
        """
        if message is self.message:
            return message
        ask = meta_codec.ask_of(message, self.api.get_site_name())
        self.message = message
        self.ask = ask
        self.received_at = self.clock()
        if ask is None:
            return message
        if ask.kind == "profile":
            self._reply(lambda: self._profile(ask))
            return None
        if ask.kind == "query" and not self._trains(ask):
            self._reply(lambda: {"rows": self._rows(ask, self._client(message, ask, None))})
            return None
        message.meta = {
            key: value for key, value in message.meta.items() if key not in (meta_codec.KEY, meta_codec.CLIENTS)
        }
        if ask.signals:
            arrays = meta_codec.as_model(message.params)
            self._server_model = {name: value.copy() for name, value in arrays.items()}  # scripts may train in place
        return message

    def _trains(self, ask: Ask) -> bool:
        """Tell whether a question needs a local training; one that nobody knows is answered with an error."""
        try:
            return any(self.answerer.signal(name).of == "training" for name in ask.signals)
        except SortitionError:
            return False

    def _profile(self, ask: Ask) -> dict[str, object]:
        return {
            "facts": self.answerer.facts_of(self.api.get_site_name(), ask.facts, ask.optional),
            "signals": self.answerer.names,
            "tags": self.tags,
            "unsure": self.answerer.unsure,
        }

    def _rows(self, ask: Ask, client: AppClient) -> dict[str, Array]:
        payload = dict(ask.payload) or None
        return {name: self.answerer.row(name, client, payload) for name in ask.signals}

    def _client(self, message: FLModel, ask: Ask, sent: FLModel | None) -> AppClient:
        model = self._server_model
        if sent is None:
            model = meta_codec.as_model(message.params)
        received = Received(
            model=model,
            config={},
            t=ask.round,
            client=ask.client,
            purpose=ask.purpose,
            context=self.api.get_site_name(),
        )

        def run() -> AppReply:
            if sent is None:
                raise SortitionError("This question must not train.")
            return AppReply(meta_codec.full_model(sent, model), sent.metrics or {}, self.clock() - self.received_at)

        return AppClient(received, run, self.answerer.make_client)

    def _reply(self, make_content: Callable[[], Mapping[str, object]]) -> None:
        """Send an answer without a model."""
        content = _content_or_error(make_content)
        self.ask = None
        self.message = None
        self.api.send(meta_codec.reply(content))

    def send_result(self, sent: FLModel, clear_cache: bool = True) -> None:
        """Send what the script trained: as it is, with reports, or only the rows that were asked for."""
        ask = self.ask
        message = self.message
        if clear_cache:
            self.ask = None
            self.message = None
        if ask is None or message is None:
            self.api.send(sent, clear_cache)
            return
        content = _content_or_error(lambda: {"rows": self._rows(ask, self._client(message, ask, sent))})
        if clear_cache:
            self._server_model = {}
        if ask.kind == "query":
            self.api.send(meta_codec.reply(content), clear_cache)
            return
        sent.meta = {**(sent.meta or {}), meta_codec.KEY: content}
        self.api.send(sent, clear_cache)


def _content_or_error(make_content: Callable[[], Mapping[str, object]]) -> Mapping[str, object]:
    """Return what a site answers, or what went wrong: a script that raised would never answer again."""
    try:
        return make_content()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


_session = SiteSession(Answers())


def answer(
    client: MakeClient | None = None,
    *,
    facts: Facts | None = None,
    signals: Iterable[Signal] = (),
    tags: Iterable[str] = (),
) -> None:
    """Say what this script can answer; call it before :func:`receive`.

    Args:
        client: a class or function from :class:`~sortition.clients.Received` to a client with those methods of
            ``sortition.core.LocalClient`` that selectors ask for; ``sortition.clients.pytorch(load)`` for PyTorch.
            None for methods that ask nothing but what the training itself shows.
        facts: from the site's name to its facts (``sizes``, ``label_counts`` …); only those that the selector declares,
            and those that the job asks for beside them (``battery`` …), are sent. Default: ``client.facts``.
        signals: further signals, such as a method's own.
        tags: words by which the job may call this site eligible.
    """
    global _session
    if isinstance(tags, str):
        raise bad("answer(tags)", "a list of texts", tags)
    _session = SiteSession(Answers(client, facts, signals), tags=tags)


def init(*args: object, **options: object) -> object:
    """Initialise the client as ``nvflare.client.init`` does."""
    return flare.init(*args, **options)


def is_running() -> bool:
    """Tell whether there is something to train; questions that need no training are answered on the way."""
    while flare.is_running():
        message = flare.receive()
        if message is None:
            return False
        if _session.handle_message(message) is not None:
            return True
    return False


def receive(timeout: float | None = None) -> FLModel | None:
    """Return the model to train, the same until :func:`send`; None when the job is over, or after the timeout."""
    began = time.monotonic()
    seconds_left = timeout
    while True:
        if timeout is not None:
            seconds_left = max(began + timeout - time.monotonic(), 0.0)
        message = flare.receive(seconds_left)
        if message is None or _session.handle_message(message) is not None:
            return message


def is_train() -> bool:
    """Tell whether the script must train: in a round, for a question about training, or for a rehearsal."""
    return _session.ask is not None or bool(flare.is_train())


def send(model: FLModel, clear_cache: bool = True) -> None:
    """Send what was trained, with the reports that the selector declared."""
    _session.send_result(model, clear_cache)


def __getattr__(name: str) -> Any:
    """Return what else NVFlare's own module has."""
    return getattr(flare, name)

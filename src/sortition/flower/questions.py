"""A selector's questions as messages: ``query.<signal>`` to the asked, and two exchanges for a rehearsal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from logging import WARNING
from typing import Any

from flwr.app import DEFAULT_TTL, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid

from sortition.clients.models import Model
from sortition.core.arrays import Array, Ids
from sortition.core.errors import InputError
from sortition.core.questions import Measure
from sortition.flower import wire
from sortition.flower.base_strategy import BaseStrategy
from sortition.flower.exchange import Replies, exchange
from sortition.flower.roster import Roster
from sortition.flower.updates import ModelCheck, moved


@dataclass
class RoundMessages:
    """Writes the messages of one round; the strategy configures clients once, for training or for trying it."""

    base: BaseStrategy
    roster: Roster
    grid: Grid
    server_round: int
    arrays: ArrayRecord
    config: ConfigRecord
    t: int
    available: Ids
    configured: dict[int, Message] = field(default_factory=dict)

    def train(self, clients: Sequence[int], timeout: float, reports: tuple[str, ...]) -> dict[int, Message]:
        """The strategy's own train messages to these clients, with an assignment beside their records."""
        if not self.configured:
            self._configure(clients)
        messages = {client: self.configured[client] for client in clients}
        for client, message in messages.items():
            message.content = self._assigned(message.content, client, reports=reports)
            message.metadata.ttl = _lifetime(message.metadata.ttl, timeout)
        return messages

    def question(
        self, kind: str, client: int, timeout: float, *, trains: bool, payload: Any = None, **assignment: Any
    ) -> Message:
        """A question to one client; one for which it trains carries its train config."""
        if trains and not self.configured:
            self._configure(self.available.tolist())
        if trains:
            content = {**self.configured[client].content, self.base.model: self.arrays}
            assignment["kind"] = self.configured[client].metadata.message_type
        else:
            config = self.base.question_config(self.server_round, self.config)
            content = {self.base.model: self.arrays, self.base.config: config}
        records = self._assigned(content, client, payload, **assignment)
        return Message(records, self.roster.node(client), kind, ttl=timeout)

    def under(self, model: Model) -> RoundMessages:
        """The same with another model."""
        return replace(self, arrays=wire.to_record(model))

    def _configure(self, clients: Sequence[int]) -> None:
        nodes = {self.roster.node(client): client for client in clients}
        made = self.base.configure(self.server_round, self.arrays, self.config, self.grid, list(nodes))
        self.configured = {nodes[node]: message for node, message in made.items()}

    def _assigned(self, content: Mapping[str, Any], client: int, payload: Any = None, **assignment: Any) -> RecordDict:
        """Records, which other messages may share, with an assignment beside them."""
        made = wire.Assignment(self.t, client, model=self.base.model, config=self.base.config)
        records = {**content, wire.ASSIGNMENT: replace(made, **assignment).record()}
        if payload:
            records[wire.PAYLOAD] = wire.to_record(payload)
        return RecordDict(records)


def _lifetime(own: float, timeout: float) -> float:
    """Seconds after which a train message lapses: with its round, or sooner if the strategy says so."""
    if math.isinf(timeout):
        return own
    return timeout if own >= DEFAULT_TTL else min(own, timeout)


class Interview:
    """Asks, with a time limit; silence makes a shorter reading, and rehearsed updates are held to the guards."""

    def __init__(self, timeout: float, check: ModelCheck) -> None:
        self.timeout, self.check = timeout, check
        self._heard: set[str] = set()

    def ask(self, grid: Grid, write: RoundMessages, question: Measure, model: Model) -> dict[int, Array]:
        """The rows that came back, by client."""
        signal, purpose, trains = question.signal, "train", question.signal.of == "training"
        if question.after is not None:
            purpose = "rehearsal"
            write = write.under(self._rehearse(grid, write, question, model))
        about: dict[str, Any] = {"payload": signal.payload, "signal": signal.name, "purpose": purpose, "trains": trains}
        kind = wire.query(signal)
        asked = {k: write.question(kind, k, self.timeout, **about) for k in question.ids.tolist()}
        replies = exchange(grid, asked, self.timeout)
        found = {client: wire.received_arrays(content, wire.ROWS) for client, content in replies.contents.items()}
        rows = {client: sent[signal.name] for client, sent in found.items() if signal.name in sent}
        self._log(signal.name, asked, rows, replies, write.roster.names)
        return rows

    def _rehearse(self, grid: Grid, write: RoundMessages, question: Measure, model: Model) -> Model:
        """w + Σ a_k Δ_k of a training that leaves no trace."""
        cohort = question.after
        if cohort is None:
            return model
        asked = {
            k: write.question(wire.REHEARSE, k, self.timeout, trains=True, purpose="rehearsal")
            for k in cohort.ids.tolist()
        }
        replies = exchange(grid, asked, self.timeout)
        models, _ = self.check.usable(replies.contents, model, write.base.model)
        self._log("rehearsal", asked, models, replies, write.roster.names)
        done = cohort.ids[[k in models for k in cohort.ids.tolist()]]
        weights, _ = cohort.weights_of(done)
        return {**model, **moved(model, models, done, weights)} if done.size else model

    def _log(
        self, name: str, asked: Mapping[int, Any], answered: Mapping[int, Any], replies: Replies, names: Sequence[str]
    ) -> None:
        """Log who did not answer; that nobody can is a mistake of the app, said at once."""
        if answered:
            self._heard.add(name)
        for client, reason in replies.failed.items():
            log(WARNING, "Client %s failed to answer %s: %s", names[client], name, reason.strip())
        silent = [names[k] for k in asked if k not in replies.messages and k not in replies.failed]
        if silent:
            log(WARNING, "No answer to %s from %s in %g s", name, ", ".join(silent), self.timeout)
        if asked and len(replies.failed.keys() - replies.lost) == len(asked) and name not in self._heard:
            reason = next(iter(replies.failed.values())).strip()
            raise InputError(f"None of the {len(asked)} clients asked can answer {name!r}: {reason}")

"""A selector's questions as messages: ``query.<signal>`` to the asked, and two exchanges for a rehearsal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from logging import WARNING
from typing import Any

from flwr.app import Message, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid

from sortition.core.arrays import Array
from sortition.core.errors import InputError
from sortition.core.guards.settings import Guards
from sortition.core.questions import Measure
from sortition.flower import aggregation, wire
from sortition.flower.base_strategy import Stock
from sortition.flower.exchange import Replies, exchange
from sortition.flower.roster import Roster


@dataclass(frozen=True)
class Sender:
    """Writes the messages of one round: the content of a train message, and a task for each client."""

    content: RecordDict
    roster: Roster
    task: wire.Task

    def message(self, kind: str, client: int, ttl: float, *, payload: Any = None, **task: Any) -> Message:
        """A message to one client."""
        records = dict(self.content)
        records[wire.TASK] = replace(self.task, client=client, **task).record()
        if payload:
            records[wire.PAYLOAD] = wire.record(payload)
        return Message(RecordDict(records), self.roster.node(client), kind, ttl=ttl)

    def under(self, model: dict[str, Array]) -> Sender:
        """The same with another model."""
        return replace(self, content=RecordDict({**self.content, self.task.model: wire.record(model)}))


class Interview:
    """Asks, with a time limit; silence makes a shorter reading, and rehearsed updates are held to the guards."""

    def __init__(self, timeout: float, guards: Guards) -> None:
        self.timeout, self.guards = timeout, guards
        self._heard: set[str] = set()

    def about(self, content: RecordDict, roster: Roster, t: int, stock: Stock) -> Sender:
        """Who writes this round's messages."""
        return Sender(content, roster, wire.Task(t=t, model=stock.model, config=stock.config))

    def ask(self, grid: Grid, send: Sender, question: Measure, model: dict[str, Array]) -> dict[int, Array]:
        """The rows that came back, by client."""
        signal, purpose = question.signal, "train"
        if question.after is not None:
            purpose = "rehearsal"
            send = send.under(self._rehearse(grid, send, question, model))
        asked = {
            client: send.message(
                wire.query(signal), client, self.timeout, payload=signal.payload, signal=signal.name, purpose=purpose
            )
            for client in question.ids.tolist()
        }
        replies = exchange(grid, asked, self.timeout)
        found = {client: wire.received(content, wire.ROWS) for client, content in replies.contents.items()}
        rows = {client: told[signal.name] for client, told in found.items() if signal.name in told}
        self._tell(signal.name, asked, rows, replies, send.roster.names)
        return rows

    def _rehearse(self, grid: Grid, send: Sender, question: Measure, model: dict[str, Array]) -> dict[str, Array]:
        """w + Σ a_k Δ_k of a training that leaves no trace."""
        cohort = question.after
        if cohort is None:
            return model
        asked = {k: send.message(wire.REHEARSE, k, self.timeout, purpose="rehearsal") for k in cohort.ids.tolist()}
        replies = exchange(grid, asked, self.timeout)
        models, _ = aggregation.sound(replies.contents, model, self.guards)
        self._tell("rehearsal", asked, models, replies, send.roster.names)
        return aggregation.mean(model, models, *aggregation.weighed(cohort, models)[:2])

    def _tell(self, name: str, asked: Any, answered: Any, replies: Replies, names: Sequence[str]) -> None:
        """Log who did not answer; that nobody can is a mistake of the app, said at once."""
        if answered:
            self._heard.add(name)
        for client, reason in replies.failed.items():
            log(WARNING, "Client %s failed to answer %s: %s", names[client], name, reason.strip())
        silent = [names[k] for k in asked if k not in replies.contents and k not in replies.failed]
        if silent:
            log(WARNING, "No answer to %s from %s in %g s", name, ", ".join(silent), self.timeout)
        if asked and len(replies.failed.keys() - replies.lost) == len(asked) and name not in self._heard:
            reason = next(iter(replies.failed.values())).strip()
            raise InputError(f"None of the {len(asked)} clients asked can answer {name!r}: {reason}")

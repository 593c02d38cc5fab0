"""The messenger where work outlives a step: clients at work for several versions, late updates, buffered steps.

Every client at work has the model that it was sent. A stale model is rebased before anything looks at it: in place of
w_k the server takes w_v + (w_k − w_{v−τ}), v being the version now. What is in flight is in every checkpoint, under a
handle of its own, so that a mailbox takes the reply of a device that was at work while the server restarted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import numpy as np

from sortition.audit.encoding import encode_ids
from sortition.audit.entries import encode_excluded
from sortition.clients.models import shared_update
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.errors import StorageError
from sortition.core.rounds import Cohort
from sortition.core.signals import UPDATE
from sortition.core.turn import Turn
from sortition.federation.driver import Arrivals, Ending
from sortition.federation.messages import Ask, Handle, Reply
from sortition.federation.messenger import (
    FIRST_LOOK,
    LONGEST_LOOK,
    LONGEST_REASON,
    PRESENT,
    Messenger,
    StoppedError,
    Training,
)
from sortition.federation.pace import Staleness
from sortition.federation.screening import Judge

LATE_ROUNDS = 10  # rounds' deadlines for which a late update is waited for, where max_staleness does not say
TOO_SLOW = "no answer before the deadline"
RESTARTED = "the server restarted"
BROKEN = "its connection broke"


@dataclass
class Flight:
    """The work of one client.

    Attributes:
        ask: what it is to do; its key is the handle of the message.
        version: of the model that it was sent.
        began: when it was dispatched.
        expires: when nobody waits for it any longer.
        posted: whether the message was sent since this server started.
    """

    ask: Ask
    version: int
    began: float
    expires: float
    posted: bool = False


@dataclass(frozen=True)
class Landed:
    """An update that waits for its step: the reply, and the seconds that it took."""

    reply: Reply
    seconds: float


class OverlappingMessenger(Messenger):
    """Asks and trains the members of a federation whose rounds overlap.

    Attributes:
        flights: the work of each client, until its step.
        landed: updates that wait for their step, in the order in which they came.
        prepared: called when work is noted and before it is sent: a checkpoint written here loses nothing.
        judge: holds updates against what the registrar remembers, once there is one.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.flights: dict[int, Flight] = {}
        self.landed: dict[int, Landed] = {}
        self.prepared: Callable[[], object] = lambda: None
        self.judge: Judge | None = None
        self._taken: list[int] = []  # whose updates the step is made of
        self._ended: set[int] = set()  # whose work ended since the last step
        self._sent: list[int] = []  # who was dispatched since the last step
        self._lost: dict[int, Ending] = {}  # work that is lost since the server restarted
        self._step_is_over = True
        self._current: set[int] = set()  # the members of the round whose answers make its step
        self._wanted_answers = 0

    # -- who is there --------------------------------------------------------------------------------------------------

    def available(self) -> Ids:
        """Who can be chosen now; nobody is waited for while others are at work."""
        self.members.selections += 1
        pace = self.options.pace
        if self._step_is_over:
            self._step_is_over = False
            self._answered.clear()
            self._late.clear()
            self._faults = {}
            self._models = {}
            self._shortened = {}
            self._ended = set()
            self._sent = []
        at_work = bool(self.flights)
        candidates = self._idle_and_eligible(self._present_now()) if at_work else self._wait_for_candidates()
        waiting_or_ended = self.landed.keys() | self._ended | self.flights.keys() | self._lost.keys()
        self.candidates = candidates[[client not in waiting_or_ended for client in candidates.tolist()]]
        self.policy.disregard(waiting_or_ended)
        self._try_reports()
        self._questions_end = self.clock() + pace.seconds_for_questions
        return self.policy.with_excluded(self.candidates)

    def _present_now(self) -> Ids:
        online = self._look_around()
        self._enter(online)
        return self.members.answering(self.members.present(online))

    def lost(self) -> Mapping[int, Ending]:
        """Work that is lost since the server restarted."""
        lost = self._lost
        self._lost = {}
        self._ended |= lost.keys()
        return lost

    # -- work begins ---------------------------------------------------------------------------------------------------

    def dispatch(self, turn: Turn, cohort: Cohort) -> None:
        """Note everybody's work, let it be saved, and send it."""
        now = self.clock()
        seconds = self._seconds_of_a_training()
        self._ends = now + seconds
        for client, ask in self.orders(turn, cohort).items():
            named = replace(ask, key=uuid4().hex, seconds=seconds)
            self.flights[client] = Flight(named, turn.version, began=now, expires=now + seconds)
        self._sent += cohort.ids.tolist()
        if self.options.pace.rule.kind == "rounds":
            self._current = set(cohort.ids.tolist())
            self._wanted_answers = self.options.pace.target(cohort)
            self._ends = now + self.options.pace.deadline if cohort.ids.size else math.inf
        self._check_memory()
        self.prepared()
        self._post_unsent()

    def orders(self, turn: Turn, cohort: Cohort) -> dict[int, Ask]:
        """What each member of the cohort is to do."""
        seconds = self._seconds_of_a_training()
        return {client: replace(ask, seconds=seconds) for client, ask in super().orders(turn, cohort).items()}

    def _seconds_of_a_training(self) -> float:
        """How long an update is waited for."""
        pace = self.options.pace
        if pace.rule.kind == "buffered":
            return pace.deadline
        versions = pace.rule.max_staleness
        return pace.deadline * (LATE_ROUNDS if versions is None else versions + 1)

    def _check_memory(self) -> None:
        versions = {flight.version for flight in self.flights.values()}
        size = sum(array.size for array in self.engine.model.values())
        self.options.pace.check_models(len(versions), len(self.landed), size)

    def _post_unsent(self) -> None:
        """Send work that no client has got: new one, and that of before a restart, once its client is back."""
        now = self.clock()
        asks: list[Ask] = []
        for client, flight in self.flights.items():
            session = self.members[client].session
            if flight.posted or client in self.landed or session is None or session not in self._peers:
                continue
            flight.ask = replace(flight.ask, session=session, seconds=max(flight.expires - now, 0.0))
            asks.append(flight.ask)
        handles = self._post(asks)
        for client, handle in handles.items():
            flight = self.flights[client]
            flight.posted = True
            if handle != flight.ask.key:  # a transport that gives handles of its own
                flight.ask = replace(flight.ask, key=handle)

    # -- events --------------------------------------------------------------------------------------------------------

    def waiting(self) -> Ids:
        """Clients whose updates wait for the step, sorted."""
        return np.array(sorted(self.landed), np.int64)

    def n_waiting(self) -> int:
        """How many they are."""
        return len(self.landed)

    def has_enough(self) -> bool:
        """Whether the step is due: by its updates, or by the clock."""
        rule = self.options.pace.rule
        if rule.kind == "buffered":
            return len(self.landed) >= (rule.buffer or 1)
        fresh = sum(client in self._current for client in self.landed)
        at_work = self._current & (self.flights.keys() - self.landed.keys())
        if not (fresh or at_work):  # nobody was chosen, or nobody is left: whatever comes next makes the step
            return bool(self.landed) or bool(self._ended)
        return fresh >= max(self._wanted_answers, 1) or not at_work or self.clock() >= self._ends

    def advance(self) -> Mapping[int, Ending]:
        """Wait until an update arrives, work ends otherwise, or the round is over."""
        landed_before = len(self.landed)
        pause = FIRST_LOOK
        while True:
            if self.stopping():
                raise StoppedError
            if not all(flight.posted for flight in self.flights.values()):
                self._present_now()
                self._post_unsent()
            self._receive(0.0)
            endings = self._land()
            closes = self._ends if self.options.pace.rule.kind == "rounds" else math.inf
            left = closes - self.clock()
            if endings or len(self.landed) > landed_before or left <= 0:
                return endings
            self._receive(min(pause, left))
            pause = min(pause * 1.5, LONGEST_LOOK)

    def _land(self) -> dict[int, Ending]:
        """Sort in what has come; whose work ended without an update."""
        now = self.clock()
        endings: dict[int, Ending] = {}
        for client in sorted(self.flights.keys() - self.landed.keys()):  # ties go by id
            flight = self.flights[client]
            reply = self._inbox.pop(flight.ask.key, None)
            if reply is not None and reply.outcome == "ok":
                self.landed[client] = Landed(reply, now - flight.began)
            elif reply is not None:
                reason = reply.reason.strip()[:LONGEST_REASON] or BROKEN
                endings[client] = Ending("failed", reason)
            elif flight.expires <= now:
                endings[client] = Ending("given_up", TOO_SLOW)
                self.members.fell_silent(client)
        for client, ending in endings.items():
            self._forget(client)
            self.logger.warning("The work of client %s has ended: %s", self.members[client].name, ending.reason)
        return endings

    def _forget(self, client: int) -> None:
        flight = self.flights.pop(client)
        self.landed.pop(client, None)
        self._pending.pop(flight.ask.key, None)
        self._ended.add(client)

    def _is_late(self, ask: Ask, handle: Handle) -> bool:
        if ask.kind != "train":
            return handle not in self._wanted
        flight = self.flights.get(ask.client)
        return flight is None or flight.ask.key != handle

    # -- the step ------------------------------------------------------------------------------------------------------

    def collect(self, turn: Turn, cohort: Cohort) -> Arrivals:
        """The sound updates of those that came first: of a buffer as many as it holds."""
        rule = self.options.pace.rule
        most = rule.buffer if rule.kind == "buffered" else None
        self._taken = sorted(list(self.landed)[:most])
        replies = {client: self._rebased(client, self.landed[client].reply) for client in self._taken}
        sent = {client: reply.model or {} for client, reply in replies.items() if not reply.fault}
        sound, faults = self.check.judge(sent, self.engine.model, self.judge)
        faults |= {client: reply.fault for client, reply in replies.items() if reply.fault}
        faults |= self.engine.objections({client: replies[client] for client in sound})
        self._faults = {client: reason[:LONGEST_REASON] for client, reason in faults.items()}
        self._models = {client: model for client, model in sound.items() if client not in faults}
        self._shortened = self.check.shortened(self._models, self.engine.model)
        self.training = Training(replies=replies, over=True)
        for client, reason in self._faults.items():
            self.logger.warning("Client %s is left out: %s", self.members[client].name, reason)
        ids = np.array(sorted(self._models), np.int64)
        return Arrivals(ids, self._faults, np.array([self.landed[client].seconds for client in ids.tolist()]))

    def _rebased(self, client: int, reply: Reply) -> Reply:
        """w_v + (w_k − w_{v−τ}); a model of another form stays as it is, and is refused when it is judged."""
        trained_from = self.flights[client].ask.model
        now = self.engine.model
        if trained_from is now or reply.model is None or reply.fault:
            return reply
        model = {
            name: _rebased_array(array, trained_from.get(name), now.get(name)) for name, array in reply.model.items()
        }
        return self.engine.rebased(reply, model)

    def drop(self, ids: Ids) -> None:
        """Forget updates that are too stale."""
        for client in ids.tolist():
            self._forget(client)

    def discounts(self, rule: Staleness, ids: Ids, staleness: Ids) -> Floats:
        """What the updates of these count."""
        if not rule.individual or not ids.size:
            return rule.discounts(staleness)
        updates = [shared_update(self._models[client], self.engine.model) for client in ids.tolist()]
        return rule.discounts(staleness, np.stack(updates))

    def step(self, cohort: Cohort, done: Ids, weights: Floats) -> Mapping[str, Any]:
        """Let the engine make the next model; work that was used has ended."""
        notes = super().step(cohort, done, weights)
        for client in self._taken:
            self.flights.pop(client)
            self.landed.pop(client)
        self._step_is_over = True
        return notes

    def costs(self, turn: Turn, arrivals: Arrivals) -> Mapping[str, Any]:
        """Names, and what a record of a federation says beside the step."""
        record: dict[str, Any] = {
            "members": len(self.members),
            "names": [self.members[client].name for client in self._sent],
            "left_out": {str(client): reason for client, reason in self._faults.items()},
            "clock": round(self.elapsed(), 3),
        }
        if len(self.members) <= PRESENT:
            record["present"] = encode_ids(self.policy.with_excluded(self.candidates))
            if self.policy.excluded:
                record["excluded_ids"] = encode_excluded(self.policy.excluded)
        if self._late:
            record["late"] = sorted(self._late)
        for client in self._models:
            self.members.trained(client)
        return record

    def check_progress(self) -> None:
        """Nothing: work that fails is said when it does, and others are chosen."""

    # -- in a checkpoint -----------------------------------------------------------------------------------------------

    def export(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Work in flight, with the models that it was sent; updates that wait are asked for again after a restart."""
        now = self.clock()
        arrays: dict[str, Array] = {}
        for flight in self.flights.values():
            for row, array in enumerate(flight.ask.model.values()):
                arrays[f"{flight.version}.{row}"] = array
        tables = [
            {
                "client": client,
                "round": flight.ask.round,
                "version": flight.version,
                "key": flight.ask.key,
                "ago": now - flight.began,
                "left": None if flight.expires == math.inf else flight.expires - now,
            }
            for client, flight in self.flights.items()
        ]
        under_way = {
            "current": sorted(self._current),
            "wanted": self._wanted_answers,
            "left": None if self._ends == math.inf else self._ends - now,
            "sent": self._sent,
            "is_over": self._step_is_over,
        }
        return arrays, {"names": list(self.engine.model), "flights": tables, "step": under_way}

    def restore(self, arrays: Mapping[str, Array], header: Mapping[str, Any]) -> None:
        """Go on with work that was in flight, where the transport takes its replies; else it is given up, by name."""
        try:
            tables = header["flights"]
            flights = {int(table["client"]): self._restored(table, arrays, header["names"]) for table in tables}
            self._restore_step(header["step"])
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"The work in flight cannot be read: {error!r}.") from None
        if getattr(self.transport, "takes_replies_after_restart", False):
            self.flights = flights
            return
        self._lost = dict.fromkeys(sorted(flights), Ending("given_up", RESTARTED))
        for client in self._lost:
            self.logger.warning("The work of client %s is given up: %s", self.members[client].name, RESTARTED)

    def _restore_step(self, step: Mapping[str, Any]) -> None:
        """Go on within the step that was under way."""
        self._current = {int(client) for client in step["current"]}
        self._wanted_answers = int(step["wanted"])
        self._ends = math.inf if step["left"] is None else self.clock() + float(step["left"])
        self._sent = [int(client) for client in step["sent"]]
        self._step_is_over = bool(step["is_over"])

    def _restored(self, table: Mapping[str, Any], arrays: Mapping[str, Array], names: list[str]) -> Flight:
        now = self.clock()
        version = int(table["version"])
        left = math.inf if table["left"] is None else float(table["left"])
        reports = tuple(signal.name for signal in self.needs.reports if signal != UPDATE)
        ask = Ask(
            kind="train",
            session="",
            client=int(table["client"]),
            round=int(table["round"]),
            seconds=left,
            model={name: arrays[f"{version}.{row}"] for row, name in enumerate(names)},
            signals=reports,
            trains=True,
            key=str(table["key"]),
        )
        return Flight(ask, version, began=now - float(table["ago"]), expires=now + left)


def _rebased_array(sent: Array, trained_from: Array | None, now: Array | None) -> Array:
    """Now's values with the change that the client made; counters and arrays of another shape stay as they are."""
    if trained_from is None or now is None or sent.shape != now.shape or sent.dtype.kind != "f":
        return sent
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused when it is judged
        moved: Array = now + (sent - trained_from)
    return moved.astype(sent.dtype, copy=False)

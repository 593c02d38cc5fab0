"""The messenger where work outlives a step: clients at work for several versions, late updates, buffered steps.

Every client at work has the model that it was sent. A stale model is rebased before anything looks at it: in place of
w_k the server takes w_v + (w_k − w_{v−τ}), v being the current version. What is in flight is in every checkpoint, under
a handle of its own, so that a mailbox takes the reply of a device that was at work while the server restarted.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from uuid import uuid4

import numpy as np

from sortition.clients.named_arrays import shared_update
from sortition.core.arrays import Array, Floats, Ids
from sortition.core.cohort import Cohort
from sortition.core.errors import StorageError
from sortition.core.storage.snapshot import StoredTable
from sortition.core.turn import Turn
from sortition.federation.driver import AnyTurn, Arrivals, Ending
from sortition.federation.messages import Ask, Handle, Reply, Transport
from sortition.federation.messenger import LONGEST_REASON, Messenger, StoppedError, Training
from sortition.federation.model_engine import Engine
from sortition.federation.model_screening import Judge
from sortition.federation.options import Options
from sortition.federation.pace import OpenSelection
from sortition.federation.staleness import Staleness

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
        judge_updates: holds updates against what the registrar remembers, once there is one.
    """

    def __init__(
        self,
        transport: Transport,
        engine: Engine,
        options: Options,
        *,
        logger: logging.Logger | None = None,
        clock: Callable[[], float] = time.monotonic,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(
            transport,
            engine,
            options,
            logger=logger,
            clock=clock,
            stopping=stopping,
        )
        self.flights: dict[int, Flight] = {}
        self.landed: dict[int, Landed] = {}
        self.prepared: Callable[[], object] = lambda: None
        self.judge_updates: Judge | None = None
        self._step_members: list[int] = []  # whose updates the step is made of
        self._ended_clients: set[int] = set()  # whose work ended since the last step
        self._dispatched: list[int] = []  # who was dispatched since the last step
        self._lost: dict[int, Ending] = {}  # work that ended while the step was made, or since the server restarted
        self._step_is_over = True
        self._has_begun = False  # whether anybody was looked for since the server started
        self._current: set[int] = set()  # the members of the round whose answers make its step
        self._needed_answers = 0
        self._last_step = self.clock()  # when it was made
        self._last_seconds: dict[int, float] = {}  # of each client's last training, where steps follow them

    # -- who is there --------------------------------------------------------------------------------------------------

    def available(self) -> Ids:
        """Return who can be chosen now; nobody is waited for while others are at work."""
        self.members.selections += 1
        is_first_of_step = self._step_is_over or not self._has_begun
        self._has_begun = True
        if self._step_is_over:
            self._step_is_over = False
            self._answered.clear()
            self._late.clear()
            self.training = Training()
            self._ended_clients = set()
            self._dispatched = []
            self._receive(0.0)
            self._lost |= self._land()  # what came while the step was made no longer takes a place
        if self.flights:
            candidates = self._idle_and_eligible(self._present_now())
        else:
            candidates = self._wait_for_candidates()
        without_place = self.landed.keys() | self._ended_clients | self.flights.keys() | self._lost.keys()
        self.candidates = candidates[[client not in without_place for client in candidates.tolist()]]
        self.policy.disregard(without_place)
        self._try_reports()
        self._questions_end = self.clock() + self.options.pace.seconds_for_questions
        reachable = self.policy.with_excluded(self.candidates)
        if is_first_of_step:
            self.present = reachable
        return reachable

    def _present_now(self) -> Ids:
        """Return the members that are online and answer, without waiting for anybody."""
        online = self._look_around()
        self._enter(online)
        return self.members.keep_answering(self.members.find_present(online))

    def lost(self) -> Mapping[int, Ending]:
        """Return, once, the work that ended while the last step was made, or since the server restarted."""
        lost = self._lost
        self._lost = {}
        self._ended_clients |= lost.keys()
        return lost

    # -- work begins ---------------------------------------------------------------------------------------------------

    def dispatch(self, turn: Turn, cohort: Cohort) -> None:
        """Note everybody's work, let it be saved, and send it."""
        began = self.clock()
        seconds = self._seconds_for_training()
        self._ends = began + seconds
        for client, ask in self.orders(turn, cohort).items():
            keyed_ask = replace(ask, key=uuid4().hex)
            self.flights[client] = Flight(keyed_ask, turn.version, began=began, expires=began + seconds)
        self._dispatched += (turn.cohort or cohort).ids.tolist()  # those who were withdrawn, too
        if self.options.pace.settings.kind == "rounds":
            self._current = set(cohort.ids.tolist())
            self._needed_answers = self.options.pace.target(cohort)
            self._ends = math.inf
            if cohort.ids.size:
                self._ends = began + self.options.pace.deadline
        self._check_memory()
        self.prepared()
        self._post_unsent()

    def _seconds_for_training(self) -> float:
        """Return how long an update is waited for."""
        pace = self.options.pace
        if pace.settings.kind == "buffered":
            return pace.deadline
        if pace.settings.max_staleness is None:
            return pace.deadline * LATE_ROUNDS
        return pace.deadline * (pace.settings.max_staleness + 1)

    def _check_memory(self) -> None:
        """Refuse more models and updates in flight than the pace allows."""
        versions = {flight.version for flight in self.flights.values()}
        size = sum(array.size for array in self.engine.model.values())
        self.options.pace.check_models(len(versions), len(self.landed), size)

    def _post_unsent(self) -> None:
        """Send work that no client has got: new work, and that of before a restart, once its client is back."""
        clock = self.clock()
        asks: list[Ask] = []
        for client, flight in self.flights.items():
            session = self.members[client].session
            if flight.posted or client in self.landed or session is None or session not in self._peers:
                continue
            flight.ask = replace(flight.ask, session=session, seconds=max(flight.expires - clock, 0.0))
            asks.append(flight.ask)
        handles = self._post(asks)
        for client, handle in handles.items():
            flight = self.flights[client]
            flight.posted = True
            if handle != flight.ask.key:  # a transport that gives handles of its own
                flight.ask = replace(flight.ask, key=handle)

    # -- events --------------------------------------------------------------------------------------------------------

    def waiting(self) -> Ids:
        """Return the clients whose updates wait for the step, sorted."""
        return np.array(sorted(self.landed), np.int64)

    def n_waiting(self) -> int:
        """Count the updates that wait for the step."""
        return len(self.landed)

    def has_enough(self) -> bool:
        """Tell whether the step is due: by its updates, or by the clock."""
        pace = self.options.pace
        if pace.settings.kind == "buffered":
            return pace.is_buffered_step_due(
                n_waiting=len(self.landed), clock=self.clock(), earliest_step=self._earliest_step()
            )
        selection = OpenSelection(
            target=self._needed_answers,
            n_arrived=sum(client in self._current for client in self.landed),
            n_at_work=len(self._current & self._at_work()),
            closes=self._ends,
        )
        has_work_ended = bool(self.landed) or bool(self._ended_clients)
        return selection.is_step_due(self.clock(), has_earlier_work_ended=has_work_ended)

    def _at_work(self) -> set[int]:
        """Return the clients whose updates have not arrived."""
        return self.flights.keys() - self.landed.keys()

    def _earliest_step(self) -> float:
        """Return the second before which no buffered step is made."""
        return self.options.pace.earliest_step(self._last_step, self._at_work(), self._last_seconds)

    def advance(self) -> Mapping[int, Ending]:
        """Wait until an update arrives, work ends otherwise, or the round is over; return how work ended."""
        n_landed = len(self.landed)
        closes = math.inf
        rule = self.options.pace.settings
        if rule.kind == "rounds":
            closes = self._ends
        elif rule.is_adaptive and self.landed:
            closes = self._earliest_step()
        endings: dict[int, Ending] = {}

        def has_something_happened() -> bool:
            if self.stopping():
                raise StoppedError
            if not all(flight.posted for flight in self.flights.values()):
                self._present_now()
                self._post_unsent()
            endings.update(self._land())
            return bool(endings) or len(self.landed) > n_landed

        self._receive_until(has_something_happened, closes)
        return endings

    def _land(self) -> dict[int, Ending]:
        """Sort in what has come; return whose work ended without an update, and how."""
        clock = self.clock()
        endings: dict[int, Ending] = {}
        for client in sorted(self._at_work()):  # ties go by id
            flight = self.flights[client]
            reply = self._inbox.pop(flight.ask.key, None)
            if reply is not None and reply.outcome == "ok":
                self.landed[client] = Landed(reply, clock - flight.began)
                if self.options.pace.settings.is_adaptive:
                    self._last_seconds[client] = clock - flight.began
            elif reply is not None:
                reason = reply.reason.strip()[:LONGEST_REASON] or BROKEN
                endings[client] = Ending("failed", reason)
            elif flight.expires <= clock:
                endings[client] = Ending("given_up", TOO_SLOW)
                self.members.note_silence(client)
        for client, ending in endings.items():
            self._forget(client)
            self.logger.warning("The work of client %s has ended: %s", self.members[client].name, ending.reason)
        return endings

    def _forget(self, client: int) -> None:
        """Drop the work of a client, which has ended without an update that is used."""
        flight = self.flights.pop(client)
        self.landed.pop(client, None)
        self._pending.pop(flight.ask.key, None)
        self._ended_clients.add(client)

    def _is_late(self, ask: Ask, handle: Handle) -> bool:
        """Tell whether it answers a question that is closed, or work that has ended."""
        if ask.kind != "train":
            return handle not in self._awaited
        flight = self.flights.get(ask.client)
        return flight is None or flight.ask.key != handle

    # -- the step ------------------------------------------------------------------------------------------------------

    def collect(self, turn: AnyTurn, cohort: Cohort) -> Arrivals:
        """Return the sound updates of those that came first: of a buffer, as many as it holds."""
        pace = self.options.pace
        first_landed = list(self.landed)
        if pace.settings.kind == "buffered" and not pace.settings.is_adaptive:
            first_landed = first_landed[: pace.buffer_size]
        self._step_members = sorted(first_landed)
        replies = {client: self._rebase(client, self.landed[client].reply) for client in self._step_members}
        training = Training(replies=replies, is_over=True)
        self.training = training
        sound_models = self._screened(replies, self.judge_updates)
        self._keep_models({client: model for client, model in sound_models.items() if client not in training.faults})
        for client, reason in training.faults.items():
            self.logger.warning("Client %s is left out: %s", self.members[client].name, reason)
        ids = np.array(sorted(training.models), np.int64)
        seconds = np.array([self.landed[client].seconds for client in ids.tolist()])
        return Arrivals(ids, training.faults, durations=seconds, reports=self._reports(ids))

    def _rebase(self, client: int, reply: Reply) -> Reply:
        """Return w_v + (w_k − w_{v−τ}); a model of another form stays as it is, and is refused when it is judged."""
        trained_from = self.flights[client].ask.model
        current = self.engine.model
        if trained_from is current or reply.model is None or reply.fault:
            return reply
        model = {
            name: _rebased_array(array, trained_from=trained_from.get(name), current=current.get(name))
            for name, array in reply.model.items()
        }
        return self.engine.rebase(reply, model)

    def drop(self, ids: Ids) -> None:
        """Forget updates that are too stale."""
        for client in ids.tolist():
            self._forget(client)

    def discounts(self, rule: Staleness, ids: Ids, staleness: Ids) -> Floats:
        """Return what the updates of these count."""
        if not rule.individual or not ids.size:
            return rule.discounts(staleness)
        updates = [shared_update(self.training.models[client], self.engine.model) for client in ids.tolist()]
        return rule.discounts(staleness, np.stack(updates))

    def step(self, cohort: Cohort, ids: Ids, weights: Floats) -> Mapping[str, object]:
        """Let the engine make the next model; work that was used has ended."""
        notes = super().step(cohort, ids, weights)
        for client in self._step_members:
            self.flights.pop(client)
            self.landed.pop(client)
        self._step_is_over = True
        self._last_step = self.clock()
        return notes

    def costs(self, turn: AnyTurn, arrivals: Arrivals) -> Mapping[str, object]:
        """Return names, and what a record of a federation says beside the step."""
        return self._federation_record(turn, self._dispatched)

    def check_progress(self) -> None:
        """Refuse nothing: work that fails is logged when it does, and others are chosen."""

    # -- in a checkpoint -----------------------------------------------------------------------------------------------

    def export(self) -> tuple[dict[str, Array], dict[str, object]]:
        """Return work in flight, with the models that it was sent; updates that wait are asked for after a restart."""
        clock = self.clock()
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
                "seconds_ago": clock - flight.began,
                "seconds_left": _as_json(flight.expires - clock),
            }
            for client, flight in self.flights.items()
        ]
        step = {
            "current": sorted(self._current),
            "needed_answers": self._needed_answers,
            "seconds_left": _as_json(self._ends - clock),
            "dispatched": self._dispatched,
            "is_over": self._step_is_over,
            "seconds_since_last": clock - self._last_step,
            "last_seconds": sorted(self._last_seconds.items()),
        }
        return arrays, {"names": list(self.engine.model), "flights": tables, "step": step}

    def restore(self, arrays: Mapping[str, Array], header: StoredTable) -> None:
        """Go on with work that was in flight, where the transport takes its replies; else give it up, by name."""
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

    def _restore_step(self, step: StoredTable) -> None:
        """Go on within the step that was under way."""
        self._current = {int(client) for client in step["current"]}
        self._needed_answers = int(step["needed_answers"])
        self._ends = self.clock() + _from_json(step["seconds_left"])
        self._dispatched = [int(client) for client in step["dispatched"]]
        self._step_is_over = bool(step["is_over"])
        self._last_step = self.clock() - float(step["seconds_since_last"])
        self._last_seconds = {int(client): float(seconds) for client, seconds in step["last_seconds"]}

    def _restored(self, table: StoredTable, arrays: Mapping[str, Array], names: list[str]) -> Flight:
        """Read the work of one client."""
        clock = self.clock()
        version = int(table["version"])
        seconds_left = _from_json(table["seconds_left"])
        ask = Ask(
            kind="train",
            client=int(table["client"]),
            round=int(table["round"]),
            seconds=seconds_left,
            model={name: arrays[f"{version}.{row}"] for row, name in enumerate(names)},
            signals=self._reported_signals(),
            trains=True,
            key=str(table["key"]),
        )
        return Flight(ask, version, began=clock - float(table["seconds_ago"]), expires=clock + seconds_left)


def _as_json(seconds: float) -> float | None:
    """Return seconds as JSON knows them: None for an infinite time."""
    if seconds == math.inf:
        return None
    return seconds


def _from_json(seconds: float | None) -> float:
    """Return what :func:`_as_json` wrote."""
    if seconds is None:
        return math.inf
    return float(seconds)


def _rebased_array(sent: Array, *, trained_from: Array | None, current: Array | None) -> Array:
    """Return the current values with the change that the client made.

    Counters and arrays of another shape stay as they are.
    """
    if trained_from is None or current is None or sent.shape != current.shape or sent.dtype.kind != "f":
        return sent
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused when it is judged
        rebased: Array = current + (sent - trained_from)
    return rebased.astype(sent.dtype, copy=False)

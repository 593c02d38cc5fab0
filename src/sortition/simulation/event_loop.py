"""The simulator where work outlives a step: an event loop over the clients' devices, with a simulated clock.

For every client that is sent to work it is known when its update arrives, or when and how its work ends otherwise. The
driver takes these events in order, ties by id, until a step is due. Trainings are done late: when an update of a
selection is needed, everything that waits is trained together, of whatever version. What a client's training gives
depends on the model and the selection it was sent with, not on when it is computed, so that a run that is resumed goes
on to the same bits.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from sortition.core.arrays import Floats, Ids
from sortition.core.cohort import NOBODY, Cohort
from sortition.core.guards.answer_screening import Answers
from sortition.core.questions import Reading
from sortition.core.turn import Turn
from sortition.federation.driver import AnyTurn, Arrivals, Ending
from sortition.federation.pace import OpenSelection
from sortition.federation.staleness import Staleness
from sortition.learning.vector import Vector
from sortition.simulation.current_round import CurrentRound, SentCohort, screen_updates, stack_received_updates
from sortition.simulation.faults import FATES
from sortition.simulation.round_cache import (
    PendingTraining,
    PendingTrainings,
    RoundCache,
    Tracked,
    joined_readings,
    tracked_by,
)
from sortition.simulation.setup import Setup
from sortition.simulation.simulation import Simulation, train_all
from sortition.simulation.world import CohortReturn

SILENCE = {"before": "it never started", "during": "it stopped on the way", "after": "its upload was lost"}
DROPPED_OUT = "it fell silent"
TOO_SLOW = "no answer before the deadline"
ID_TAKEN = "another client took its id"


class ClientWork(NamedTuple):
    """The work of one client.

    Attributes:
        client: its id.
        selection: the index of the selection that sent it.
        ends: the simulated second at which the work ends.
        seconds: how long it takes.
        examples: on how many examples it computes.
        ending: how it ends; None: with an update.
        uploads: whether an update is sent, used or not.
    """

    client: int
    selection: int
    ends: float
    seconds: float
    examples: int
    ending: Ending | None
    uploads: bool


@dataclass
class SelectionAtWork:
    """One selection at work.

    Attributes:
        index: the index of the selection.
        version: the version of the model that its members train.
        clock: the simulated second of the selection, where devices have busy hours; else 0.
        cache: the model, and what was trained with it.
        to_train: the members whose updates will arrive, in the cohort's order: they train together.
        tracked: what the training must measure.
        unfinished: members whose work has not ended.
    """

    index: int
    version: int
    clock: float
    cache: RoundCache
    to_train: Ids
    tracked: Tracked
    unfinished: set[int] = field(default_factory=set)

    def training(self) -> PendingTraining:
        """Return the training of the members that have not trained yet."""
        return self.cache.training(self.to_train, self.tracked)

    def has_trained(self, client: int) -> bool:
        """Say whether a member has trained, with all that must be measured."""
        return self.cache.has_trained(client, self.tracked)

    @property
    def is_trained(self) -> bool:
        """Tell whether all members have trained whose updates will arrive."""
        return self.cache.have_trained(self.to_train, self.tracked)


class OverlappingSimulation(Simulation):
    """One federation in memory, played step by step, with clients at work over several steps.

    Attributes:
        pace: for cohorts of the size of this run.
        selections: selections with members at work, or whose updates wait for the step, by index.
        flying: the work of each client that is at work.
        arrived: the work of each client whose update waits for the step.
    """

    def __init__(self, setup: Setup, played: int = 0) -> None:
        super().__init__(setup, played)
        self.pace = setup.cohort_pace
        self._is_buffered = setup.pace.kind == "buffered"
        self._is_adaptive = setup.pace.is_adaptive
        self.selections: dict[int, SelectionAtWork] = {}
        self.flying: dict[int, ClientWork] = {}
        self.arrived: dict[int, ClientWork] = {}
        self._queue: list[tuple[float, int]] = []  # when each client's work ends, and its id
        self._open_version = -1  # the version whose step is under way
        self._open_selection = OpenSelection()
        self._ended_now: dict[int, ClientWork] = {}  # work that ended since the last step without an update
        self._replaced: list[int] = []  # clients at work whose ids others took since the last step
        self._untrained: dict[int, SelectionAtWork] = {}  # selections whose training waits, by index
        self._last_step = 0.0  # the simulated second at which the last step was made
        self.last_seconds: dict[int, float] = {}  # how long each client's last training took, where steps follow it

    def take_over(self, selections: dict[int, SelectionAtWork], flying: dict[int, ClientWork]) -> None:
        """Go on with work that was in flight when a checkpoint was written."""
        self.selections = selections
        self.flying = flying
        self._queue = [(flight.ends, flight.client) for flight in flying.values()]
        heapq.heapify(self._queue)
        untrained = {
            flight.selection for flight in flying.values() if flight.ending is None and not self._is_trained(flight)
        }
        self._untrained = {index: selections[index] for index in sorted(untrained)}

    # -- who is there --------------------------------------------------------------------------------------------------

    def available(self) -> Ids:
        """Return who can be reached and is idle."""
        version = self.registrar.version
        world = self.setup.world_at(version)
        if self._open_version != version:
            self._open_version = version
            self._ended_now = {}
            self._last_step = self.clock
            self.current = CurrentRound.of(world, version)
            self._note_newcomers(version)
            self._drop_replaced()
        self.current.late_readings = []
        self.current.seconds_asking = 0.0
        world = world.beginning(self.clock, self.optimiser_states)
        self.current.world = world
        world.cache = RoundCache(world, self.params, self.registrar.index, version=version)
        is_idle = self.setup.reachable(version, self.clock).copy()
        is_idle[[*self.flying, *self.arrived, *self._ended_now]] = False  # nobody works twice for one step
        return self._admitted(np.flatnonzero(is_idle), version)

    def _drop_replaced(self) -> None:
        """Drop the work of clients whose ids others have taken."""
        taken_ids = self.current.joined.get("taken", ())
        self._replaced = sorted(self.flying.keys() & set(taken_ids))
        for client in taken_ids:
            self.last_seconds.pop(client, None)
        for client in self._replaced:
            self._end_without_update(self.flying.pop(client))

    def lost(self) -> Mapping[int, Ending]:
        """Return the clients whose work is lost, since others took their ids."""
        return dict.fromkeys(self._replaced, Ending("given_up", ID_TAKEN))

    # -- work begins ---------------------------------------------------------------------------------------------------

    def dispatch(self, turn: Turn, cohort: Cohort) -> None:
        """Find out when the work of each member ends, and charge what it does."""
        members, examples = self._sent_to_work(turn, cohort)
        current = self.current
        ids = cohort.ids
        t = turn.index
        self.clock = self.clock + current.seconds_asking
        world = current.world
        current.ledger.charge_training(members.started, n_answered=0, n_wasted=0)
        limit = self.pace.deadline_after(self.recent_durations)
        to_train = self._send(members, t, examples, limit)
        if ids.size:
            selection = SelectionAtWork(
                index=t,
                version=self.registrar.version,
                clock=world.fleet.clock,
                cache=world.cache,
                to_train=to_train,
                tracked=tracked_by(self.reported),
                unfinished=set(ids.tolist()),
            )
            self.selections[t] = selection
            self._untrained[t] = selection
        self._check_memory()
        if self.pace.settings.kind == "rounds":
            self._open_selection = OpenSelection(
                index=t,
                target=self.pace.target(cohort),
                n_at_work=int(ids.size),
                closes=self.clock + limit if ids.size else math.inf,
            )
        is_first_selection = len(current.sent_cohorts) == 1
        if is_first_selection:  # later ones, which fill places before the step, train with the step
            current.training = self._awaited_trainings()

    def _send(self, members: SentCohort, t: int, examples: Ids, limit: float) -> Ids:
        """Send the members of a selection to work; return those whose updates will arrive.

        Nobody waits longer than ``limit`` seconds for one.
        """
        world = self.current.world
        seconds = world.costs.seconds(members.ids, t)
        has_dropped_out = world.fleet.dropouts(members.ids, t)
        to_train = []
        for row, client in enumerate(members.ids.tolist()):
            fate_index = int(members.fates[row])
            fate = FATES[fate_index] if fate_index >= 0 else ""
            silence = SILENCE.get(fate, "")
            if not silence and has_dropped_out[row]:
                silence = DROPPED_OUT
            training_seconds = float(seconds[row])
            ending, seconds_to_end = self._ending(training_seconds, silence, limit)
            if ending is None:
                to_train.append(client)
            flight = ClientWork(
                client=client,
                selection=t,
                ends=self.clock + seconds_to_end,
                seconds=training_seconds,
                examples=int(examples[row]),
                ending=ending,
                uploads=not silence or fate == "after",
            )
            self.flying[client] = flight
            heapq.heappush(self._queue, (flight.ends, client))
        return np.array(to_train, np.int64)

    def _ending(self, seconds: float, silence: str, limit: float) -> tuple[Ending | None, float]:
        """Return how the work of a client ends (None: with an update), and after how many seconds.

        Args:
            seconds: how long it takes.
            silence: why it sends no update; empty where it sends one.
            limit: how long the server waits for a client where updates are buffered.
        """
        if self._is_buffered and limit < math.inf and (silence or seconds > limit):
            return Ending("given_up", silence or TOO_SLOW), limit
        if silence:
            return Ending("failed", silence), seconds
        return None, seconds

    def _check_memory(self) -> None:
        """Refuse to hold more models than fit into memory."""
        n_models = len({selection.version for selection in self.selections.values()})
        self.pace.check_models(n_models, len(self.flying) + len(self.arrived), self.params.size)

    def _awaited_trainings(self) -> PendingTrainings:
        """Return all trainings that wait, if one of them is needed for the coming step; otherwise none."""
        if not self._untrained:
            return PendingTrainings()
        if self._is_buffered and not self._needed_selections() & self._untrained.keys():
            return PendingTrainings()
        return PendingTrainings([selection.training() for selection in self._untrained.values()])

    def _needed_selections(self) -> set[int]:
        """Return the selections whose updates make the coming step, where updates are buffered."""
        n_missing = max(self.pace.buffer_size - len(self.arrived), 0)
        next_events = islice(filter(self._is_current, sorted(self._queue)), n_missing)
        next_flights = [self.flying[client] for _, client in next_events]
        needed = {flight.selection for flight in next_flights if flight.ending is None}
        return needed | {flight.selection for flight in self.arrived.values()}

    # -- events --------------------------------------------------------------------------------------------------------

    def _is_current(self, event: tuple[float, int]) -> bool:
        """Say whether an event of the queue is still to come: the client is at work, and not for another selection."""
        ends, client = event
        flight = self.flying.get(client)
        return flight is not None and flight.ends == ends

    def waiting(self) -> Ids:
        """Return the clients whose updates wait for the step, sorted."""
        return np.array(sorted(self.arrived), np.int64)

    def n_waiting(self) -> int:
        """Return how many clients' updates wait for the step."""
        return len(self.arrived)

    def has_enough(self) -> bool:
        """Tell whether enough updates have arrived for the step, or its time has come."""
        if self._is_buffered:
            return self.pace.is_buffered_step_due(
                n_waiting=len(self.arrived), clock=self.clock, earliest_step=self._earliest_step()
            )
        has_work_ended = bool(self.arrived) or bool(self._ended_now)
        return self._open_selection.is_step_due(self.clock, has_earlier_work_ended=has_work_ended)

    def _earliest_step(self) -> float:
        """Return the simulated second before which no buffered step is made."""
        return self.pace.earliest_step(self._last_step, self.flying, self.last_seconds)

    def advance(self) -> Mapping[int, Ending]:
        """Let the clock run until the driver has something to do; return work that ended without an update.

        That is at the next event where places are filled between steps. Elsewhere updates arrive until a step is due,
        or somebody's work ends without one.
        """
        endings = self._take_next_event()
        if self.pace.refills_between_steps:
            return endings
        while self.flying and not endings and not self.has_enough():
            endings = self._take_next_event()
        return endings

    def _take_next_event(self) -> Mapping[int, Ending]:
        """Let the clock run to the next event, or to the end of the round; return work that ended without an update."""
        queue = self._queue
        while queue and not self._is_current(queue[0]):
            heapq.heappop(queue)
        if not queue:
            return {}
        ends, client = queue[0]
        open_selection = self._open_selection
        closes = open_selection.closes
        if self._is_adaptive and self.arrived:
            closes = self._earliest_step()
        if ends > closes:
            self.clock = max(self.clock, closes)
            return {}
        heapq.heappop(queue)
        if ends > self.clock:
            self.clock = ends
        flight = self.flying.pop(client)
        if flight.selection == open_selection.index:
            open_selection.n_at_work -= 1
            if flight.ending is None:
                open_selection.n_arrived += 1
        if flight.ending is None:
            self.arrived[client] = flight
            if self._is_adaptive:
                self.last_seconds[client] = flight.seconds
            return {}
        self._end_without_update(flight)
        return {client: flight.ending}

    def _end_without_update(self, flight: ClientWork) -> None:
        """Charge work that gives no update, and forget it."""
        self.current.ledger.passes["wasted"] += flight.examples
        self.current.ledger.charge_training(NOBODY, n_answered=0, n_wasted=int(flight.uploads))
        self.note_durations(np.empty(0), n_unanswered=1)
        self._ended_now[flight.client] = flight
        self._forget(flight.selection, [flight.client])

    def _forget(self, index: int, clients: Collection[int]) -> None:
        """Forget the results of members of selection ``index`` whose work has ended; after the last one, its model."""
        selection = self.selections[index]
        selection.unfinished.difference_update(clients)
        selection.cache.forget(clients)
        if not selection.unfinished:
            del self.selections[index]
            self._untrained.pop(index, None)

    def _train_cohort(self) -> None:
        """Train nobody here: :meth:`collect` trains what the step needs."""

    # -- the step ------------------------------------------------------------------------------------------------------

    def collect(self, turn: AnyTurn, cohort: Cohort) -> Arrivals:
        """Return the sound updates of all that arrived, screened together."""
        current = self.current
        ids = self.registrar.flights.sort_by_selection(self.waiting())
        flights = [self.arrived[client] for client in ids.tolist()]
        parts = _by_selection(flights)
        idle_seconds = time.perf_counter() - current.opened_at - current.training.seconds
        self._train_what_is_needed(parts)
        outcome = current.world.outcome(
            [(self.selections[index].cache, ids[rows]) for index, rows in parts.items()],
            self.reported,
            durations=np.array([flight.seconds for flight in flights]),
        )
        screened = screen_updates(outcome, self._arriving_updates(outcome, parts), self.registrar.judge_updates)
        current.ledger.charge_training(NOBODY, n_answered=ids.size, n_wasted=0)
        examples = np.array([flight.examples for flight in flights], np.int64)
        reports = self._keep_results(screened, self._arriving_reports(outcome, parts), examples)
        self.note_durations(outcome.durations, n_unanswered=0)
        self.arrived = {}
        for index, rows in parts.items():
            self._forget(index, ids[rows].tolist())
        current.watch.lap("train", less=idle_seconds)
        durations = outcome.durations[screened.is_sound]
        return Arrivals(screened.sound_ids, screened.reasons, durations=durations, reports=reports)

    def _train_what_is_needed(self, needed_selections: Collection[int]) -> None:
        """Train everything that waits, if the step needs some of it and nobody trained it beforehand."""
        self._untrained = {index: selection for index, selection in self._untrained.items() if not selection.is_trained}
        if any(index in self._untrained for index in needed_selections):
            train_all([PendingTrainings([selection.training() for selection in self._untrained.values()])])
            self._untrained = {}

    def _is_trained(self, flight: ClientWork) -> bool:
        return self.selections[flight.selection].has_trained(flight.client)

    def _arriving_updates(self, outcome: CohortReturn, parts: Mapping[int, slice]) -> Vector:
        """Return the updates as they arrive (k, P), some of them damaged."""
        faults = self.setup.faults
        if not faults.faults.damaged:
            return outcome.deltas
        updates = [np.empty((0, self.params.size), np.float32)]
        for index, rows in parts.items():
            updates.append(stack_received_updates(faults.updates(index, _part_of(outcome, rows)), self.params))
        return np.concatenate(updates)

    def _arriving_reports(self, outcome: CohortReturn, parts: Mapping[int, slice]) -> dict[str, Answers]:
        """Return the reports as they arrive, by signal, some of them damaged."""
        faults = self.setup.faults
        if not faults.faults.damaged:
            return dict(outcome.reports)
        reports = [faults.reports(index, _part_of(outcome, rows)) for index, rows in parts.items()]
        if len(reports) == 1:
            return reports[0]
        return {name: _joined_answers([part[name] for part in reports]) for name in outcome.reports}

    def _weights_of(self, ids: Ids) -> Floats:
        """Return the weights that the updates of these clients will have in the step."""
        pace = self.setup.pace
        discounts = self.discounts(pace.staleness_rule, ids, self.registrar.staleness(ids))
        return self.registrar.flights.weigh(ids, discounts, pace.normalise).weights

    def drop(self, ids: Ids) -> None:
        """Drop the updates of these clients, which are too stale."""
        for client in ids.tolist():
            self._end_without_update(self.arrived.pop(client))

    def discounts(self, rule: Staleness, ids: Ids, staleness: Ids) -> Floats:
        """Return the factors by which the updates of these clients count less."""
        return rule.discounts(staleness, self.current.updates.rows)

    def step(self, cohort: Cohort, done: Ids, weights: Floats) -> Mapping[str, Any]:
        """Combine the updates, and make the server's step."""
        if not cohort.ids.size and not self.flying:
            self._wait_for_somebody()
        if done.size:
            self._advance_model(cohort, done, weights, self.current.updates)
        return {}


def _by_selection(flights: list[ClientWork]) -> dict[int, slice]:
    """Return the rows of each selection; those of one follow each other."""
    rows: dict[int, slice] = {}
    start = 0
    for selection, members in groupby(flights, key=attrgetter("selection")):
        stop = start + len(list(members))
        rows[selection] = slice(start, stop)
        start = stop
    return rows


def _part_of(outcome: CohortReturn, rows: slice) -> CohortReturn:
    """Return some rows of what came back."""
    reports = {name: Reading(reading.ids[rows], reading.values[rows]) for name, reading in outcome.reports.items()}
    return CohortReturn(
        ids=outcome.ids[rows],
        deltas=outcome.deltas[rows],
        reports=reports,
        durations=outcome.durations[rows],
        losses=outcome.losses[rows],
    )


def _joined_answers(parts: list[Answers]) -> Answers:
    """Return the answers of several selections together."""
    readings = [part for part in parts if isinstance(part, Reading)]
    if len(readings) == len(parts):
        return joined_readings(readings)
    rows: dict[int, Any] = {}
    for part in parts:
        if isinstance(part, Reading):
            rows |= dict(zip(part.ids.tolist(), part.values, strict=True))
        else:
            rows |= part
    return rows

"""The simulator where work outlives a step: an event loop over the clients' devices, with a simulated clock.

Every client that is sent to work has a moment at which its update arrives or its work ends otherwise; the driver takes
these in order, ties by id, until a step is due. Trainings are done late: when an update of a selection is needed,
everything that waits is trained together, of whatever version. What a client's training gives depends on the model
and the selection it was sent with, not on when it is computed, so that a run that is resumed goes on to the same bits.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sortition.aggregation.limits import shortened_rows
from sortition.core.arrays import Floats, Ids
from sortition.core.errors import bad
from sortition.core.guards.screening import Answers, norms
from sortition.core.questions import Reading
from sortition.core.rounds import Cohort
from sortition.core.signals import Signal
from sortition.core.turn import Turn
from sortition.federation.driver import Arrivals, Ending
from sortition.federation.pace import Staleness
from sortition.learning.vector import Vector
from sortition.simulation.faults import FATES
from sortition.simulation.ledger import Ledger
from sortition.simulation.round_cache import RoundCache, Tracked, Training, Trainings, tracked_by
from sortition.simulation.setup import Setup
from sortition.simulation.simulation import (
    InRound,
    ServerData,
    Simulation,
    Stopwatch,
    _as_rows,
    _done_part,
    _rows_of,
    train_all,
)
from sortition.simulation.world import TrainedCohort

SILENCE = {"before": "it never started", "during": "it stopped on the way", "after": "its upload was lost"}
DROPPED_OUT = "it fell silent"
TOO_SLOW = "no answer before the deadline"
TAKEN = "another client took its id"


@dataclass(frozen=True)
class Flight:
    """The work of one client.

    Attributes:
        client: who.
        selection: the index of the selection that sent it.
        ends: the simulated second at which it ends.
        seconds: how long it takes.
        examples: on how many it computes.
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
class Work:
    """One selection at work.

    Attributes:
        index: of the selection.
        version: of the model.
        clock: the simulated second of the selection, where devices have busy hours; else 0.
        cache: the model, and what was trained with it.
        to_train: the members whose updates will arrive, in the cohort's order: they train together.
        tracked: what the training must measure.
        left: members whose work has not ended.
    """

    index: int
    version: int
    clock: float
    cache: RoundCache
    to_train: Ids
    tracked: Tracked
    left: set[int] = field(default_factory=set)

    def training(self) -> Training:
        """What is not trained yet."""
        return self.cache.training(self.to_train, self.tracked)


class OverlappingSimulation(Simulation):
    """One federation in memory, played step by step, with clients at work over several steps.

    Attributes:
        work: selections with members at work, or whose updates wait for the step.
        flying: the work of each client.
        arrived: work whose update waits for the step.
    """

    def __init__(self, setup: Setup, played: int = 0) -> None:
        super().__init__(setup, played)
        self.work: dict[int, Work] = {}
        self.flying: dict[int, Flight] = {}
        self.arrived: dict[int, Flight] = {}
        self._queue: list[tuple[float, int]] = []  # when each client's work ends
        self._step = -1  # the version whose step is under way
        self._current = -1  # the selection whose answers make a round's step
        self._wanted = 0  # how many of them
        self._fresh = 0  # how many have come
        self._open_members = 0  # how many of that selection are at work
        self._closes = math.inf  # when a round's step is made at the latest
        self._ended_now: dict[int, Flight] = {}  # work of this step without an update
        self._lost: list[int] = []  # clients whose ids were taken in this step
        self._untrained: dict[int, Work] = {}  # selections whose training waits

    def take_over(self, work: dict[int, Work], flying: dict[int, Flight]) -> None:
        """Go on with work that was in flight when a checkpoint was written."""
        self.work = work
        self.flying = flying
        self._queue = [(flight.ends, flight.client) for flight in flying.values()]
        heapq.heapify(self._queue)
        unfinished = {f.selection for f in flying.values() if f.ending is None and not self._has(f)}
        self._untrained = {index: work[index] for index in sorted(unfinished)}

    # -- who is there --------------------------------------------------------------------------------------------------

    def available(self) -> Ids:
        """Who can be reached and is idle."""
        version = self.registrar.version
        setup = self.setup.at(version)
        if self._step != version:
            self._step = version
            self._ended_now = {}
            ledger = Ledger(self.params.size, setup.world.n_clients)
            self.now = InRound(setup, version, ledger, Stopwatch())
            self._note_newcomers(version)
            self._lose_taken()
        self.now.late = []
        self.now.asked_seconds = 0.0
        self.now.setup = setup.at_clock(self.clock).remembering(self.local)
        world = self.now.setup.world
        world.begin(RoundCache(world, self.params, self.registrar.index, version=version))
        mask = setup.reachable(version, self.clock).copy()
        mask[list(self.flying)] = False
        mask[list(self.arrived)] = False
        mask[list(self._ended_now)] = False  # one place a client and step
        return self._admitted(np.flatnonzero(mask), version)

    def _lose_taken(self) -> None:
        """Drop the work of clients whose ids others have taken."""
        self._lost = sorted(set(self.now.joined.get("taken", ())) & self.flying.keys())
        for client in self._lost:
            self._drop(self.flying.pop(client))

    def lost(self) -> Mapping[int, Ending]:
        """Clients whose work is lost, since others took their ids."""
        return dict.fromkeys(self._lost, Ending("given_up", TAKEN))

    # -- work begins ---------------------------------------------------------------------------------------------------

    def dispatch(self, turn: Turn, cohort: Cohort) -> None:
        """Find out when the work of each member ends, and charge what it does."""
        now, ids, t = self.now, cohort.ids, turn.index
        for reading in now.late:
            for client, row in zip(reading.ids.tolist(), reading.values, strict=True):
                turn.answer({client: row})
        if "select" not in now.watch.seconds:
            now.watch.lap("select", less=now.asking)
            now.watch.seconds["measure"] = now.asking
        self.clock = self.clock + now.asked_seconds
        world = now.setup.world
        fates, progress = now.setup.faults.fates(t, ids)
        seconds = world.costs.seconds(ids, t)
        dropped = world.fleet.dropouts(ids, t)
        examples = _done_part(world.costs.examples(ids), progress)
        steps = _done_part(world.costs.steps(ids), progress)
        started = fates != FATES.index("before")
        now.ledger.compute(ids[started], examples[started], steps[started])
        now.ledger.training(ids[started], 0, 0)
        now.dispatched.append((ids, fates))
        silent = (fates >= 0) | dropped
        limit = self.setup.cohort_pace.deadline_after(self.seen)
        for row, client in enumerate(ids.tolist()):
            fate = FATES[fates[row]] if fates[row] >= 0 else ""
            self._send(
                client=client,
                selection=t,
                seconds=float(seconds[row]),
                examples=int(examples[row]),
                silence=(SILENCE.get(fate, DROPPED_OUT)) if silent[row] else "",
                uploads=not silent[row] or fate == "after",
                limit=limit,
            )
        answering = [c for c in ids.tolist() if self.flying[c].ending is None]
        work = Work(
            index=t,
            version=self.registrar.version,
            clock=world.fleet.clock,
            cache=world.cache,
            to_train=np.array(answering, np.int64),
            tracked=tracked_by(self.reported),
            left=set(ids.tolist()),
        )
        if ids.size:
            self.work[t] = work
            self._untrained[t] = work
        self._check_memory()
        if self.setup.pace.kind == "rounds":
            self._current = t
            self._wanted = self.setup.cohort_pace.target(cohort)
            self._fresh = 0
            self._open_members = int(ids.size)
            self._closes = self.clock + limit if ids.size else math.inf
        now.training = self._awaited()

    def _send(
        self, *, client: int, selection: int, seconds: float, examples: int, silence: str, uploads: bool, limit: float
    ) -> None:
        """Send one client to work."""
        buffered = self.setup.pace.kind == "buffered"
        ending = Ending("failed", silence) if silence else None
        lasts = seconds
        if buffered and (silence or seconds > limit) and limit < math.inf:
            ending = Ending("given_up", silence or TOO_SLOW)
            lasts = limit
        ends = self.clock + lasts
        self.flying[client] = Flight(client, selection, ends, seconds, examples, ending, uploads)
        heapq.heappush(self._queue, (ends, client))

    def _check_memory(self) -> None:
        models = {work.version for work in self.work.values()}
        self.setup.cohort_pace.check_models(len(models), len(self.flying) + len(self.arrived), self.params.size)

    def _awaited(self) -> Trainings:
        """All trainings that wait, if one of them is needed for the coming step; else none."""
        if not self._untrained:
            return Trainings(())
        if self.setup.pace.kind == "buffered":
            wanted = max((self.setup.pace.buffer or 1) - len(self.arrived), 0)
            ahead = heapq.nsmallest(wanted, (f for f in self._queue if self._is_current(f)))
            needed = {self.flying[client].selection for _, client in ahead if self.flying[client].ending is None}
            needed |= {flight.selection for flight in self.arrived.values()}
            if not needed & self._untrained.keys():
                return Trainings(())
        return self._all_trainings()

    def _all_trainings(self) -> Trainings:
        """Everything that waits for its training, of any version."""
        return Trainings([work.training() for work in self._untrained.values()])

    # -- events --------------------------------------------------------------------------------------------------------

    def _is_current(self, entry: tuple[float, int]) -> bool:
        flight = self.flying.get(entry[1])
        return flight is not None and flight.ends == entry[0]

    def waiting(self) -> Ids:
        """Clients whose updates wait for the step, sorted."""
        return np.array(sorted(self.arrived), np.int64)

    def n_waiting(self) -> int:
        """How many they are."""
        return len(self.arrived)

    def has_enough(self) -> bool:
        """Whether the step is due: by its updates, or by the clock."""
        if self.setup.pace.kind == "buffered":
            return len(self.arrived) >= (self.setup.pace.buffer or 1)
        if not (self._fresh or self._open_members):  # nobody was chosen, or nobody is left: what comes next makes it
            return bool(self.arrived) or bool(self._ended_now)
        return self._fresh >= max(self._wanted, 1) or not self._open_members or self.clock >= self._closes

    def advance(self) -> Mapping[int, Ending]:
        """Let the clock run to the next arrival, or to the end of the round."""
        while self._queue and not self._is_current(self._queue[0]):
            heapq.heappop(self._queue)
        if not self._queue:
            return {}
        ends, client = self._queue[0]
        if ends > self._closes:
            self.clock = max(self.clock, self._closes)
            return {}
        heapq.heappop(self._queue)
        self.clock = max(self.clock, ends)
        flight = self.flying.pop(client)
        if flight.selection == self._current:
            self._open_members -= 1
            self._fresh += flight.ending is None
        if flight.ending is None:
            self.arrived[client] = flight
            return {}
        self._drop(flight)
        return {client: flight.ending}

    def _drop(self, flight: Flight) -> None:
        """Charge work that came to nothing."""
        self.now.ledger.passes["wasted"] += flight.examples
        self.now.ledger.training(np.empty(0, np.int64), 0, int(flight.uploads))
        self.note_durations(np.empty(0), 1)
        self._ended_now[flight.client] = flight
        self._settle([flight])

    def _settle(self, flights: Iterable[Flight]) -> None:
        """Forget the models and results of work that has ended."""
        for flight in flights:
            work = self.work[flight.selection]
            work.left.discard(flight.client)
            work.cache.forget(flight.client)
            if not work.left:
                del self.work[flight.selection]
                self._untrained.pop(flight.selection, None)

    # -- the step ------------------------------------------------------------------------------------------------------

    def collect(self, turn: Turn, cohort: Cohort) -> Arrivals:
        """The sound updates of all that arrived, screened together."""
        now = self.now
        ids = self.registrar.flights.in_order(self.waiting())
        flights = [self.arrived[client] for client in ids.tolist()]
        waited = 0.0 if now.training is None else time.perf_counter() - now.left - now.training.seconds
        self._train_what_is_needed(flights)
        outcome = self._outcome(ids, flights)
        updates = self._damaged_updates(outcome, flights)
        lengths = norms(updates)
        reasons, now.longest = self.registrar.judge_updates(ids, lengths)
        now.ledger.training(ids[:0], ids.size, 0)
        now.ledger.reports(self.reported, outcome.reports)
        reports = self._damaged_reports(outcome, flights)
        sound = np.isin(np.arange(ids.size), list(reasons), invert=True)
        kept = ids[sound]
        if reasons:
            if now.setup.faults.faults.damaged:  # otherwise the method diverged, and its work counts as done
                now.ledger.passes["wasted"] += sum(flights[row].examples for row in reasons)
            reports = {name: _rows_of(rows, kept) for name, rows in reports.items()}
        if reasons:
            updates = updates[sound]
            lengths = lengths[sound]
        now.updates = shortened_rows(updates, lengths, now.longest)
        now.losses = outcome.losses[sound]
        now.reports = reports | self._of_server_now(kept)
        if outcome.states is not None and self.local is not None:
            self.local = self.local.after(outcome.ids, outcome.states)
        durations = np.array([flight.seconds for flight in flights])
        self.note_durations(durations, 0)
        self.arrived = {}
        self._settle(flights)
        now.watch.lap("train", less=waited)
        unsound = {int(ids[row]): reason for row, reason in sorted(reasons.items())}
        return Arrivals(kept, unsound, durations[sound])

    def _train_what_is_needed(self, flights: list[Flight]) -> None:
        """Train what the step waits for, unless somebody did it beforehand; then whatever else is missing."""
        awaited = () if self.now.training is None else self.now.training.parts
        undone = [part for part in awaited if not part.is_done]
        if undone:
            train_all([Trainings(undone)])
        missing = {flight.selection for flight in flights if not self._has(flight)}
        if missing:
            train_all([Trainings([self.work[index].training() for index in sorted(missing | self._untrained.keys())])])
        self._untrained = {index: work for index, work in self._untrained.items() if work.training().ids.size}

    def _has(self, flight: Flight) -> bool:
        work = self.work[flight.selection]
        return not work.cache.training(np.array([flight.client]), work.tracked).ids.size

    def _by_selection(self, outcome: TrainedCohort, flights: list[Flight]) -> list[tuple[int, TrainedCohort]]:
        """The same, one part a selection."""
        selections = np.array([flight.selection for flight in flights], np.int64)
        parts: list[tuple[int, TrainedCohort]] = []
        for index in dict.fromkeys(selections.tolist()):
            mask = selections == index
            part = TrainedCohort(
                ids=outcome.ids[mask],
                deltas=outcome.deltas[mask],
                reports={name: Reading(r.ids[mask], r.values[mask]) for name, r in outcome.reports.items()},
                durations=outcome.durations[mask],
                losses=outcome.losses[mask],
            )
            parts.append((index, part))
        return parts

    def _outcome(self, ids: Ids, flights: list[Flight]) -> TrainedCohort:
        """What the training of these gave, as they send it."""
        world = self.now.setup.world
        deltas = [np.empty((0, self.params.size), np.float32)]
        losses: list[np.float32] = []
        states: list[Vector] = []
        rows: dict[str, list[Any]] = {signal.name: [] for signal in self.reported}
        selections = np.array([flight.selection for flight in flights], np.int64)
        for index in dict.fromkeys(selections.tolist()):
            cache = self.work[index].cache
            members = ids[selections == index]
            deltas.append(cache.updates(members))
            blocks = [cache.trained(client) for client in members.tolist()]
            losses += [block.losses[row] for block, row in blocks]
            states += [block.states[row] for block, row in blocks if block.states is not None]
            for signal in self.reported:
                rows[signal.name].append(cache.read(signal, members).values)
        sent = deltas[1] if len(deltas) == 2 else np.concatenate(deltas)
        reports = {signal.name: self._reading(signal, ids, rows[signal.name]) for signal in self.reported}
        if world.adversaries is not None:
            sent = world.adversaries.updates(ids, sent)
        durations = np.array([flight.seconds for flight in flights])
        kept = np.stack(states) if states else None
        return TrainedCohort(ids, sent, reports, durations, np.array(losses, np.float32), kept)

    def _reading(self, signal: Signal, ids: Ids, parts: list[Any]) -> Reading:
        """What clients report, true or not, of all selections together."""
        reading = Reading(ids, np.concatenate(parts)) if parts else Reading.empty()
        world = self.now.setup.world
        if world.adversaries is None:
            return reading
        return world.adversaries.reading(signal, reading, world.label_counts)

    def _damaged_updates(self, outcome: TrainedCohort, flights: list[Flight]) -> Vector:
        """The updates as they arrive (k, P)."""
        faults = self.now.setup.faults
        if not faults.faults.damaged:
            return outcome.deltas
        parts = [np.empty((0, self.params.size), np.float32)]
        for t, part in self._by_selection(outcome, flights):
            parts.append(_as_rows(faults.updates(t, part), self.params))
        return np.concatenate(parts)

    def _damaged_reports(self, outcome: TrainedCohort, flights: list[Flight]) -> dict[str, Answers]:
        if not self.now.setup.faults.faults.damaged:
            return dict(outcome.reports)
        parts = [self.now.setup.faults.reports(t, part) for t, part in self._by_selection(outcome, flights)]
        if len(parts) == 1:
            return parts[0]
        joined: dict[str, Answers] = {}
        for name in outcome.reports:
            readings = [part[name] for part in parts]
            if all(isinstance(reading, Reading) for reading in readings):
                values = [reading.values for reading in readings if isinstance(reading, Reading)]
                joined[name] = Reading(outcome.ids, np.concatenate(values)) if values else Reading.empty()
            else:
                rows: dict[int, Any] = {}
                for reading in readings:
                    if isinstance(reading, Reading):
                        rows |= dict(zip(reading.ids.tolist(), reading.values, strict=True))
                    else:
                        rows |= reading
                joined[name] = rows
        return joined

    def _of_server_now(self, ids: Ids) -> dict[str, Answers]:
        """What the server computes itself from the updates that arrived, with the weights that they will have."""
        signals, updates = self.registrar.needs.of_server, self.now.updates
        if not signals or not ids.size or updates is None:
            return {}
        rule = self.setup.pace
        discounts = self.discounts(rule.rule, ids, self.registrar.staleness(ids))
        weights = self.registrar.flights.weigh(ids, discounts, rule.normalise).weights
        server = ServerData(self.now.setup.world, self.params, ids, updates, weights, self.now.t)
        answers: dict[str, Answers] = {signal.name: Reading(ids, signal.of_cohort(server)) for signal in signals}
        self.now.ledger.server_passes += server.examples
        return answers

    def drop(self, ids: Ids) -> None:
        """Forget updates that are too stale."""
        for client in ids.tolist():
            self._drop(self.arrived.pop(client))

    def discounts(self, rule: Staleness, ids: Ids, staleness: Ids) -> Floats:
        """What the updates of these count."""
        return rule.discounts(staleness, self.now.updates)

    def step(self, cohort: Cohort, done: Ids, weights: Floats) -> Mapping[str, Any]:
        """Combine the updates, and make the server's step."""
        now = self.now
        if now.updates is None:
            raise bad("step", "called after collect", "a call without")
        if not cohort.ids.size and not self.flying:
            self._wait_for_somebody()
        if done.size:
            self._move(cohort, done, weights, now.updates)
        return {}

    def costs(self, turn: Turn, arrivals: Arrivals) -> Mapping[str, Any]:
        """Costs, clock, faults and test figures of the step."""
        now = self.now
        sent = np.concatenate([np.empty(0, np.int64), *(ids for ids, _ in now.dispatched)])
        now.fates = np.concatenate([np.empty(0, np.int64), *(fates for _, fates in now.dispatched)])
        return self._costs(sent, sent[now.fates != FATES.index("before")])

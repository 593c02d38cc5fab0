"""Keeps a selection over the rounds: begin a turn, dispatch its cohort, receive updates, save, resume.

A turn works on a copy of the state, which becomes the registrar's own when its cohort is dispatched. So an abandoned
turn leaves no trace, a save during an open turn stores what was before it, and a replay of it repeats it. Members of a
cohort that was dispatched are in flight until ``receive`` makes a step of their updates or ``give_up`` ends their work;
clients may join meanwhile. ``finish`` is all of it in one, for rounds that do not overlap.

Every change is prepared aside and booked at once (``_book``): whoever interrupts finds all of it, or nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sortition.core import registrar_snapshot
from sortition.core.arrays import Array, Floats, Ids, as_array, as_ids, frozen, not_among
from sortition.core.errors import bad
from sortition.core.flights import Arrived, Dispatched, Flights, Normalise, Received
from sortition.core.guards.eligibility import Admission, Eligibility
from sortition.core.guards.lengths import Lengths
from sortition.core.guards.scales import MODEL
from sortition.core.guards.screening import is_compared
from sortition.core.guards.settings import Guards
from sortition.core.intake import Intake, UpdateVerdict, with_ids
from sortition.core.observer import Observer, Reports, check_observer
from sortition.core.one_thread import OneThread
from sortition.core.questions import NEVER, Feedback, Reading
from sortition.core.rounds import NOBODY, Cohort, Population, Round
from sortition.core.selector import Needs, Selector, resolved_for
from sortition.core.signals import ModelSize
from sortition.core.state import State
from sortition.core.storage import snapshot
from sortition.core.streams import stream
from sortition.core.turn import Turn, TurnContext
from sortition.core.validation import is_whole

WHO = "A registrar and its turns"


class Registrar:
    """Keeps one selector's state over the rounds of one federation, and nothing else: the caller owns all I/O.

    Args:
        selector: the method.
        population: static facts of the clients.
        horizon: how many rounds there will be, where known.
        seed: of all the selector's draws.
        guards: how far clients are trusted; default: no honest client notices.
        observer: sees every turn; an audit log is one.
        model: how long the model's vectors are; without it the length that most clients send counts.

    Call it, and the turns that it gives, from one thread at a time; a second thread is refused.
    """

    def __init__(
        self,
        selector: Selector[Any],
        population: Population,
        *,
        horizon: int | None = None,
        seed: int = 0,
        guards: Guards | None = None,
        observer: Observer | None = None,
        model: ModelSize | None = None,
    ) -> None:
        if not isinstance(selector, Selector):
            raise bad("Registrar.selector", "a Selector", selector, "Make one with sortition.selectors.load(name).")
        if not isinstance(population, Population):
            raise bad("Registrar.population", "a Population", population, "Make one with Population(sizes).")
        if horizon is not None and not is_whole(horizon, 1):
            raise bad("Registrar.horizon", "a whole number ≥ 1 or None", horizon)
        check_observer("Registrar.observer", observer)
        self.guards = Guards() if guards is None else guards
        if not isinstance(self.guards, Guards):
            raise bad("Registrar.guards", "a Guards", guards)
        self.horizon = None if horizon is None else int(horizon)
        self.seed = seed
        self.observer = observer
        self._unresolved, self.selector = selector, resolved_for(selector, population)
        self.owner = type(selector).__name__
        self.index = 0
        self.counters = {"late": 0, "duplicate": 0, "stale": 0, "rejected": 0}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._model, self.lengths = model, self._lengths_of(model, population.n_clients)
        self.version = 0
        self.events = 0  # entries of an audit log, without its header
        self.flights = Flights()
        self.intake: Intake | None = None  # what came since the last step
        self.chosen: Ids = NOBODY  # since the last step
        self.online: Ids = NOBODY  # who was reachable at the latest selection, busy or not
        self._open: Turn | None = None
        self._latest: Turn | None = None  # the turn that was dispatched last, before the step
        self._last_round: tuple[Ids, int] = (NOBODY, 1)  # whom and how many it could choose
        self._thread = OneThread(WHO)
        self._selection = object()  # by which a turn is recognised as one of this registrar
        self.eligibility = Eligibility(self.guards, population, self._remembered_signals())
        self.population, self._view = population, self._disclosed(population, self.eligibility)
        self.state: State = self.selector.init(population.n_clients, stream(seed, "initial state"))

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle holds: like a snapshot, what was before an open turn; observers stay behind."""
        attributes = self.__dict__.copy()
        for name in ("_open", "_latest", "_thread", "_selection", "observer"):
            del attributes[name]
        return attributes

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        self.__dict__.update(attributes)
        self.observer = None
        self._open = None
        self._latest = None
        self._thread = OneThread(WHO)
        self._selection = object()

    def __copy__(self) -> Self:
        """An independent registrar: two that share their memory would spoil each other's."""
        return copy.deepcopy(self)

    @property
    def needs(self) -> Needs:
        """What the method, as it was resolved, reads, asks and wants reported."""
        return self.selector.needs

    def _lengths_of(self, model: ModelSize | None, n_clients: int) -> Lengths:
        return Lengths((*self.needs.asks, *self.needs.reports), model, n_clients)

    def _remembered_signals(self) -> list[str]:
        """The signals of which the guards may remember how long clients' rows are."""
        signals = (*self.needs.asks, *self.needs.reports)
        return list(dict.fromkeys(signal.name for signal in signals if is_compared(signal)))

    def _disclosed(self, population: Population, eligibility: Eligibility) -> Population:
        """What the selector sees of a population."""
        return population.disclose(self.needs.reads, self.owner, eligibility.shown)

    @property
    def quarantined(self) -> Array:
        """(N,) rounds in which each client sent something unsound."""
        return self.eligibility.strikes

    def count(self, what: str) -> None:
        """One more late, duplicate or stale message."""
        self.counters[what] += 1

    # -- a selection ----------------------------------------------------------------------------------------------

    def begin(
        self,
        available: npt.ArrayLike,
        budget: int,
        *,
        in_flight: npt.ArrayLike | None = None,
        clock: float | None = None,
        excluded: Mapping[str, npt.ArrayLike] | None = None,
    ) -> Turn:
        """Start a selection among clients that are reachable and idle.

        An earlier turn that is still open is abandoned without a trace. Clients in flight cannot be chosen: to give one
        of them is refused.

        Args:
            available: ids of the clients that can be chosen.
            budget: places to fill.
            in_flight: ids of clients at work; default: those that were dispatched here and have not ended.
            clock: seconds since the start, simulated or real, where there is a clock.
            excluded: available clients that a policy leaves out, by the key of its rule; the method does not see them.
        """
        with self._thread.inside():
            ids = as_ids("available", available, ordered=True).copy()  # the caller keeps his own
            busy = self.flights.ids if in_flight is None else as_ids("in_flight", in_flight, ordered=True)
            left_out = {rule: as_ids("excluded", clients).copy() for rule, clients in (excluded or {}).items()}
            return self._begin(ids, budget, busy, clock, left_out)

    def _begin(self, ids: Ids, budget: int, busy: Ids, clock: float | None, excluded: Mapping[str, Ids]) -> Turn:
        self._check_known(ids)
        self._check_idle(ids, busy)
        round = Round(
            index=self.index,
            horizon=self.horizon,
            available=ids,
            budget=budget,
            population=self._view,
            rng=stream(self.seed, "selection", self.index),
            version=self.version,
            in_flight=frozen(busy),
            clock=clock,
        )
        eligible = _without(ids, excluded)
        admitted = self.eligibility.admit(eligible, int(budget), self.version, self.seed, draw=self.index)
        if admitted.ids is not ids:
            round = replace(round, available=admitted.ids)
        self._abandon()
        context = self._context(ids, admitted, busy, clock, excluded)
        turn = self._open = Turn(context, self.state.copy(), round if admitted.ids.size else None, admitted.notes)
        turn.scales = self.eligibility.remembered_scales(self.version)
        if self.observer is not None:
            self.observer.begun(turn, ids, int(budget))
        return turn

    def _check_known(self, ids: Ids) -> None:
        people = self.population
        if ids.size and ids[-1] >= people.n_clients:
            raise bad("available", f"ids below {people.n_clients}", int(ids[-1]), "Newcomers enter with join().")
        if self.needs.reads and not people.knows(ids):
            raise bad("available", "known clients", "clients whose facts are missing", f"{self.owner} reads them.")

    def _check_idle(self, ids: Ids, busy: Ids) -> None:
        at_work = _common(ids, busy)
        if not at_work.size:
            at_work = _common(ids, self.flights.ids)
        if at_work.size:
            hint = "End its work first: finish(turn), receive(ids) or give_up(ids, reason)."
            raise bad("available", "idle clients", f"client {int(at_work[0])}, who is in flight", hint)
        ended = _common(ids, self.flights.ended)
        if ended.size:
            got = f"client {int(ended[0])}, whose work ended since the last step"
            raise bad("available", "clients that can have one place a step", got, "It can be chosen after the step.")

    def _context(
        self, available: Ids, admitted: Admission, busy: Ids, clock: float | None, excluded: Mapping[str, Ids]
    ) -> TurnContext:
        return TurnContext(
            selection=self._selection,
            selector=self.selector,
            guards=self.guards,
            seed=self.seed,
            index=self.index,
            shapes=self.lengths.in_force(self.shapes),
            longest=self.lengths.longest,
            available=available,
            excluded=excluded,
            kept_out=admitted.kept_out,
            just_come=admitted.just_come,
            scale=self._scale,
            shortest=self._shortest,
            capped=self.eligibility.capped,
            reweighted=self.eligibility.reweighted,
            observer=self.observer,
            version=self.version,
            in_flight=busy,
            clock=clock,
            late=lambda: self.count("late"),
            thread=self._thread,
        )

    def _scale(self, name: str) -> float | None:
        """How long the rows of a signal usually are, as remembered now."""
        scales = self.eligibility.scales
        return None if scales is None else scales.scale(name, self.version)

    def _shortest(self, norms: Floats) -> float:
        """The length to which updates of these lengths are shortened while there is no scale."""
        scales = self.eligibility.scales
        if scales is None:
            return float(norms.min(initial=np.inf))
        return scales.shortest(MODEL, self.version, norms)

    def judge_updates(self, ids: Ids, norms: Floats) -> UpdateVerdict:
        """Judge the updates that a step is to be made of by their lengths ‖Δ_k‖ (k,), in the order of ``ids``.

        Whoever aggregates leaves out those that are refused, hands them to :meth:`receive` as ``blamed``, and shortens
        what is longer than ``longest``: each update, and the update that they make together.
        """
        with self._thread.inside():
            intake = self._intake().copy()
            verdict = intake.judge_updates(ids, norms)
            self.intake = intake
            return verdict

    def dispatch(self, turn: Turn) -> None:
        """Send the cohort of a turn to work.

        What the method remembered while it chose counts from now on; its members are in flight until
        :meth:`finish`, :meth:`receive` or :meth:`give_up` ends their work, and the next selection may begin.
        """
        with self._thread.inside():
            if turn is not self._open:
                raise bad("dispatch(turn)", "the turn that is open", "a turn that has ended")
            if turn.cohort is None:
                raise bad("dispatch(turn)", "a turn whose questions are answered", "one with an open question")
            books = self._dispatched_books(turn, turn.cohort)
            if self.observer is not None and hasattr(self.observer, "dispatched"):
                self.observer.dispatched(turn)
            self._book(books)

    def _dispatched_books(self, turn: Turn, cohort: Cohort) -> dict[str, Any]:
        """What changes when a cohort is sent to work."""
        state = turn.state
        state.grow(self.population.n_clients)  # clients may have joined since it began
        selection = Dispatched.begun(turn.index, turn.version, cohort, turn.clock, skipped=turn.skipped)
        online = turn.available
        if turn.in_flight.size and self.eligibility.counts:
            online = np.insert(online, np.searchsorted(online, turn.in_flight), turn.in_flight)
        intake = turn.intake if self.intake is None else self.intake.joined_by(turn.intake)
        return {
            "state": state,
            "flights": self.flights.with_selection(selection),
            "intake": intake,
            "chosen": np.concatenate([self.chosen, cohort.ids]) if self.chosen.size else cohort.ids,
            "online": online,
            "index": self.index + 1,
            "events": self.events + 1,
            "_open": None,
            "_latest": turn,
            "_last_round": (turn.available if turn.round is None else turn.round.available, _budget_of(turn)),
        }

    @property
    def open_selection(self) -> Dispatched | None:
        """The latest selection whose step is not made yet: what a server that restarts goes on with."""
        return None if self.intake is None else self.flights.selections[-1]

    def is_dispatched(self, turn: Turn) -> bool:
        """Whether this turn's cohort was sent to work since the last step, as the latest one."""
        return turn is self._latest

    def _book(self, books: dict[str, Any]) -> None:
        """Make all these changes at once: an interrupt comes before them or after them, never in between."""
        vars(self).update(books)

    def abandon(self, turn: Turn) -> None:
        """End an open turn without a trace; the same selection can begin anew. One that was dispatched stays."""
        with self._thread.inside():
            if turn is self._open:
                self._abandon()

    def _abandon(self) -> None:
        if self._open is not None:
            self._open.close(abandoned=True)
            self._open = None

    # -- work in flight ends ---------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> Ids:
        """Sorted ids of the clients that are at work."""
        return self.flights.ids

    def staleness(self, ids: npt.ArrayLike) -> Ids:
        """How many versions were made since each of these clients in flight was sent to work."""
        return self.flights.staleness(self._flying("staleness(ids)", ids), self.version)

    def _flying(self, who: str, ids: npt.ArrayLike) -> Ids:
        clients = as_ids(who, ids)
        outside = self.flights.missing(clients)
        if outside.size:
            raise bad(who, "clients in flight", f"client {int(outside[0])}, who is not")
        return clients

    def give_up(self, ids: npt.ArrayLike, reason: str) -> None:
        """End the work of clients in flight without an update: it failed, came too late, or nobody waits for it."""
        with self._thread.inside():
            clients = self._flying("give_up(ids)", ids)
            if not clients.size:
                return
            books = {"flights": self.flights.given_up(clients), "events": self.events + 1}
            if self.observer is not None:
                self.observer.gave_up(clients, reason)
            self._book(books)

    def receive(
        self,
        ids: npt.ArrayLike = (),
        reports: Reports | None = None,
        *,
        discounts: npt.ArrayLike | None = None,
        normalise: Normalise = "mass",
        durations: npt.ArrayLike | None = None,
        blamed: Mapping[int, str] | None = None,
        excused: Collection[int] = (),
    ) -> Received:
        """Make a step of the updates that have arrived: the method observes once, and the next version begins.

        Args:
            ids: clients in flight whose updates arrived and are used, in any order.
            reports: per declared signal name a Reading, a mapping from id to row, or one row per id in ``ids``.
            discounts: one factor per id in ``ids`` by which its update counts less; default: 1 each.
            normalise: ``mass``: the weights sum to 1; ``count``: they are divided by the number of updates alone.
            durations: seconds from dispatch to arrival, one per id in ``ids``.
            blamed: clients in flight that sent an unsound update, and why: a strike each, and their work has ended.
            excused: of these, whose refused update is no strike, beside those that :meth:`judge_updates` excused.
        """
        with self._thread.inside():
            if self._open is not None:
                hint = "Dispatch or abandon the open turn first."
                raise bad("receive", "called while no selection is open", f"selection {self._open.index}", hint)
            arrived_ids = self._flying("receive(ids)", ids)
            unsound = self._flying("receive(blamed)", np.array(sorted(blamed or {}), np.int64))
            arrivals = Arrived(
                ids=arrived_ids,
                reports={} if reports is None else reports,
                discounts=_numbers("receive(discounts)", discounts, arrived_ids.size),
                durations=_numbers("receive(durations)", durations, arrived_ids.size),
                blamed=dict(blamed or {}),
            )
            step, books = self._step_books(arrivals, unsound, normalise, set(excused))
            if self.observer is not None:
                sent = {name: with_ids(name, rows, arrived_ids) for name, rows in arrivals.reports.items()}
                self.observer.stepped(step, sent)
            books["events"] = self.events + 1
            self._book(books)
            return step

    def _step_books(
        self, arrivals: Arrived, unsound: Ids, normalise: Normalise, excused: set[int]
    ) -> tuple[Received, dict[str, Any]]:
        """A step of work in flight, and what changes with it."""
        intake = self._intake().copy()
        intake.blamed |= arrivals.blamed
        intake.excused |= excused
        flights = self.flights.given_up(unsound)
        done = flights.in_order(arrivals.ids)
        order = np.argsort(arrivals.ids)[np.searchsorted(np.sort(arrivals.ids), done)]
        given_order = {name: with_ids(name, rows, arrivals.ids) for name, rows in arrivals.reports.items()}
        readings = intake.reports(done, given_order)
        discounts = None if arrivals.discounts is None else arrivals.discounts[order]
        weighed = flights.weigh(done, discounts, normalise)
        usable = done
        if done.size < min(self.guards.minimum, weighed.cohort.ids.size):
            intake.guarded["too_few_completed"] = int(done.size)
            usable = done[:0]
            readings = dict.fromkeys(readings, Reading.empty())
        staleness = flights.staleness(done, self.version)
        durations = np.full(done.size, np.nan) if arrivals.durations is None else arrivals.durations[order]
        step = Received(
            version=self.version,
            ids=usable,
            weights=weighed.weights[: usable.size],
            staleness=staleness[: usable.size],
            durations=durations[: usable.size],
            discounts=discounts,
            normalise=normalise,
            arrived=done,
            cohort=weighed.cohort,
            blamed=arrivals.blamed,
            excused=intake.excused,
            rejected=intake.rejected,
            guarded=intake.guarded,
            notes=weighed.notes,
        )
        state = self.state
        whole = weighed.whole
        skipped = whole.skipped if whole is not None else not weighed.cohort.ids.size
        if not skipped and type(self.selector).observe is not Selector.observe:
            state = self.state.copy()
            feedback = Feedback(
                self._round_now(),
                weighed.cohort,
                usable,
                readings,
                self.owner,
                staleness=step.staleness,
                durations=step.durations,
            )
            self.selector.observe(state, feedback)
        books = self._stepped_books(state, intake, usable, online=self.online, chosen=self.chosen)
        return step, books | {"flights": flights.stepped(done)}

    def _intake(self) -> Intake:
        """What came since the last step."""
        return self.fresh_intake() if self.intake is None else self.intake

    def fresh_intake(self) -> Intake:
        """Before anything has come."""
        return Intake(
            selector=self.selector,
            guards=self.guards,
            shapes=self.lengths.in_force(self.shapes),
            scale=self._scale,
            shortest=self._shortest,
            longest=self.lengths.longest,
        )

    def _round_now(self) -> Round:
        """The latest selection, as the method is told when it observes."""
        if self._latest is not None and self._latest.round is not None:
            return self._latest.round
        available, budget = self._last_round
        return Round(
            index=max(0, self.index - 1),
            horizon=self.horizon,
            available=available,
            budget=budget,
            population=self._view,
            rng=stream(self.seed, "observation", self.version),
            version=self.version,
            in_flight=self.flights.ids,
        )

    def _stepped_books(self, state: State, intake: Intake, used: Ids, *, online: Ids, chosen: Ids) -> dict[str, Any]:
        """What changes with every step, beside the flights: state, guards, counters and the version."""
        state.grow(self.population.n_clients)
        shapes = dict(intake.shapes)
        counters = {name: count + intake.counters.get(name, 0) for name, count in self.counters.items()}
        lengths = self.lengths
        overturned: dict[str, int] = {}
        if intake.votes:
            lengths = lengths.grown(self.population.n_clients)  # a copy: the old one stays as it is
            overturned = lengths.vote(intake.votes, shapes)
        elif lengths.votes:
            overturned = lengths.vote((), shapes)
        strikes = intake.strikes(overturned)
        eligibility = self.eligibility
        if strikes or eligibility.counts:
            eligibility = eligibility.copied()
            eligibility.record(online, chosen, used)
            eligibility.remember(intake.sent_norms(), self.version)
            eligibility.blame(strikes, self.version)
        if overturned:
            shapes |= {name: (length,) for name, length in overturned.items()}
            state = self.selector.init(self.population.n_clients, stream(self.seed, "initial state"))
            intake.guarded["overturned"] = overturned
        return {
            "state": state,
            "shapes": shapes,
            "counters": counters,
            "lengths": lengths,
            "eligibility": eligibility,
            "intake": None,
            "chosen": NOBODY,
            "version": self.version + 1,
            "_latest": None,
        }

    def finish(
        self,
        turn: Turn,
        ids: npt.ArrayLike | None = None,
        reports: Reports | None = None,
        *,
        durations: npt.ArrayLike | None = None,
    ) -> Ids:
        """Close a round: dispatch, a step of those who answered, and the others are given up, all in one.

        It counts wholly or not at all, also where it is interrupted. Returned are those whose updates may be
        aggregated: nobody, if fewer than the minimum.

        Args:
            turn: what :meth:`begin` gave.
            ids: members of the cohort whose updates arrived (default: all).
            reports: per declared signal name a Reading, a mapping from id to row, or one row per id in ``ids``.
            durations: seconds from dispatch to arrival, one per id in ``ids``.
        """
        if not isinstance(turn, Turn):
            raise bad("finish(turn)", "what begin() gave", turn)
        with self._thread.inside():
            return self._finish(turn, ids, reports, durations)

    def _finish(
        self, turn: Turn, ids: npt.ArrayLike | None, reports: Reports | None, durations: npt.ArrayLike | None
    ) -> Ids:
        if turn is not self._open and turn is not self._latest:
            return self._not_open(turn)
        if turn.cohort is None:
            raise bad("finish(turn)", "a turn whose questions are answered", "one with an open question")
        cohort = turn.cohort
        done = cohort.ids if ids is None else as_ids("finish(ids)", ids)
        outside = not_among(done, np.sort(cohort.ids))
        if outside.size:
            raise bad("finish(ids)", "members of the cohort", f"client {int(outside[0])}")
        if self.flights.selections and self._has_others_at_work(turn):
            hint = "Use receive(ids) where selections overlap."
            raise bad("finish(turn)", "called when no other cohort is in flight", "work of another selection", hint)
        seconds = _numbers("finish(durations)", durations, done.size)
        earlier = turn.intake
        earlier_state = turn.state
        version = self.version
        try:
            turn.intake = earlier.copy()
            turn.durations = seconds
            usable, books = self._finish_books(turn, cohort, done, {} if reports is None else reports, seconds)
            turn.state = books["state"]  # observers see what the method remembers from now on
            if self.observer is not None:
                self.observer.finished(turn, done, reports or {})
            if turn is self._open:
                books |= {"index": self.index + 1, "events": self.events + 1, "_open": None}
            self._book(books)
        except BaseException:
            if self.version == version:  # nothing is booked: the turn is as it was
                turn.intake = earlier
                turn.state = earlier_state
            raise
        turn.close()
        turn.state = self.state
        turn.usable = usable
        return usable

    def _has_others_at_work(self, turn: Turn) -> bool:
        return any(selection.index != turn.index for selection in self.flights.selections)

    def _finish_books(
        self, turn: Turn, cohort: Cohort, done: Ids, reports: Reports, durations: Floats | None
    ) -> tuple[Ids, dict[str, Any]]:
        """The step of a round whose whole cohort ends with it, and what changes with it."""
        intake = turn.intake
        readings = intake.reports(done, reports)
        usable = done
        if done.size < min(self.guards.minimum, cohort.ids.size):
            intake.guarded["too_few_completed"] = int(done.size)
            usable = done[:0]
            readings = dict.fromkeys(readings, Reading.empty())
        state = turn.state if turn is self._open else self.state
        if turn.round is not None and type(self.selector).observe is not Selector.observe:
            state = state.copy()
            seconds = NEVER if durations is None else durations[: usable.size]
            feedback = Feedback(turn.round, cohort, usable, readings, self.owner, durations=seconds)
            self.selector.observe(state, feedback)
        books = self._stepped_books(state, intake, usable, online=turn.available, chosen=cohort.ids)
        return usable, books | {"flights": Flights()}

    def _not_open(self, turn: Turn) -> Ids:
        """Count a turn that was finished before, or abandoned; nobody's update counts."""
        if turn.selection is not self._selection:
            raise bad("finish(turn)", "a turn of this registrar", "a turn of another one")
        self.count("duplicate" if turn.index < self.version else "stale")
        return np.empty(0, np.int64)

    def _forget(self, changed: Mapping[str, int]) -> None:
        """Where vectors have another length now, what was learnt from the others is of no use."""
        self.shapes = {**self.shapes, **{name: (length,) for name, length in changed.items()}}
        if changed:
            self.state = self.selector.init(self.population.n_clients, stream(self.seed, "initial state"))

    # -- clients join; the server stops and goes on ----------------------------------------------------------------

    def join(self, population: Population) -> None:
        """Go on with a larger (or better known) population; ids never shift.

        An open turn goes on among those who were there when it began. A population that is refused leaves the registrar
        as it was.
        """
        if not isinstance(population, Population):
            raise bad("join(population)", "a Population", population)
        with self._thread.inside():
            self._join(population)

    def _join(self, population: Population) -> None:
        population.check_successor_of(self.population)
        eligibility = self.eligibility.grown(population)
        view, state = self._disclosed(population, eligibility), self.state.copy()
        state.grow(population.n_clients)
        self.population, self._view, self.eligibility, self.state = population, view, eligibility, state
        self.lengths = self.lengths.grown(population.n_clients)
        if self.observer is not None:
            self.observer.joined(population)

    def resize(self, model: ModelSize) -> None:
        """Go on with a model of another size; memory of vectors whose length changes is lost.

        An open turn is abandoned; while clients are in flight, this is refused.
        """
        if model == self._model:
            return
        with self._thread.inside():
            if self.flights.ids.size:
                hint = "Call receive(ids) or give_up(ids, reason) first."
                raise bad("resize", "called when nobody is in flight", f"{self.flights.ids.size} clients", hint)
            lengths = self.lengths.resized(self._lengths_of(model, self.population.n_clients))
            self._abandon()
            self._model, self.lengths = model, lengths
            self._forget(self.lengths.other_than(self.shapes))

    def export(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Everything that the next round depends on, as named arrays and a JSON-able header."""
        with self._thread.inside():
            return registrar_snapshot.export(self)

    def options(self) -> dict[str, Any]:
        """Which optional facts the selection has used from its first round on."""
        wanted = self._unresolved.needs.optional
        return {"optional": [name for name in wanted if name in self.needs.reads]} if wanted else {}

    def restore(self, arrays: Mapping[str, Array], header: Mapping[str, Any]) -> Self:
        """Take over what :meth:`export` gave, refused if of another selection; another model acts as :meth:`resize`."""
        with self._thread.inside():
            twin = self._resolved_as(registrar_snapshot.optional(header, self._unresolved.needs))
            found = registrar_snapshot.parse(arrays, header, twin)  # what follows cannot be refused
            self.selector, self._view = twin.selector, twin._view
            self.state, self.counters, self.shapes, self.index = found.state, found.counters, found.shapes, found.index
            self.eligibility, self.lengths = found.eligibility, found.lengths
            self._abandon()
            self._book(found.under_way.books())
            self._forget(self.lengths.other_than(self.shapes))
        return self

    def _resolved_as(self, facts: list[str] | None) -> Registrar:
        """A registrar that uses the optional facts of a saved selection, whatever else is known by now."""
        if facts is None or facts == self.options().get("optional"):
            return self
        settings: dict[str, Any] = {"horizon": self.horizon, "seed": self.seed, "guards": self.guards}
        return Registrar(self._unresolved.resolved(facts), self.population, model=self._model, **settings)

    def save(self, path: str | Path) -> None:
        """Write a snapshot, atomically; of an open turn, what was before it."""
        snapshot.save(path, *self.export())

    @classmethod
    def load(
        cls,
        path: str | Path,
        selector: Selector[Any],
        population: Population,
        *,
        horizon: int | None = None,
        guards: Guards | None = None,
        model: ModelSize | None = None,
    ) -> Registrar:
        """Go on from a snapshot; horizon and guards default to its own, another model acts as :meth:`resize`."""
        arrays, header = snapshot.load(path)
        seed, saved_horizon, saved_guards = registrar_snapshot.settings(header, path)
        horizon = saved_horizon if horizon is None else horizon
        guards = saved_guards if guards is None else guards
        return cls(selector, population, horizon=horizon, seed=seed, guards=guards, model=model).restore(arrays, header)


def _without(available: Ids, excluded: Mapping[str, Ids]) -> Ids:
    """The available clients without those that a policy leaves out."""
    if not excluded:
        return available
    left_out = np.concatenate(list(excluded.values()))
    outside = not_among(left_out, available)
    if outside.size:
        raise bad("begin(excluded)", "clients that are available", f"client {int(outside[0])}")
    return available[np.isin(available, left_out, invert=True)]


def _common(ids: Ids, others: Ids) -> Ids:
    """Those of the second sorted array that are in the first."""
    if not (ids.size and others.size):
        return others[:0]
    place = np.minimum(np.searchsorted(ids, others), ids.size - 1)
    common: Ids = others[ids[place] == others]
    return common


def _budget_of(turn: Turn) -> int:
    return 1 if turn.round is None else int(turn.round.budget)


def _numbers(who: str, values: npt.ArrayLike | None, count: int) -> Floats | None:
    """One finite or unknown (NaN) number per client, where any are given."""
    if values is None:
        return None
    numbers = as_array(who, values)
    if numbers.shape != (count,) or numbers.dtype.kind not in "fiu" or (numbers < 0).any():
        raise bad(who, f"one number ≥ 0 per id, {count} in all", numbers)
    return np.asarray(numbers, np.float64)

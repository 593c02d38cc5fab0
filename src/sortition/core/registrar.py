"""Keeps a selection over the rounds: begin a turn, dispatch its cohort, receive updates, save, resume.

A turn works on a copy of the state, which becomes the registrar's own when its cohort is dispatched. So an abandoned
turn leaves no trace, a save during an open turn stores what was before it, and a replay of it repeats it. Members of a
cohort that was dispatched are in flight until ``receive`` makes a step of their updates or ``give_up`` ends their work;
clients may join meanwhile. ``finish`` is all of it in one, for rounds that do not overlap.

Every change is prepared aside and applied at once (``_apply``): whoever interrupts finds all of it, or nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from sortition.core import saved_state
from sortition.core.arrays import Array, Floats, Ids, as_array, as_ids, as_immutable, as_read_only, find_outside
from sortition.core.cohort import NOBODY, Cohort, Round, replace_available
from sortition.core.errors import bad
from sortition.core.guards.answer_screening import RowShape, has_scale
from sortition.core.guards.common_weights import check_weighing
from sortition.core.guards.eligibility_and_quarantine import Admission, Eligibility
from sortition.core.guards.row_dimensions import Dimensions
from sortition.core.guards.scales import MODEL
from sortition.core.guards.settings import Guards
from sortition.core.in_flight import ArrivedUpdates, DispatchedSelection, Flights, Normalise, ServerStep
from sortition.core.intake import Intake, UpdateVerdict, attach_ids
from sortition.core.observer import Observer, Reports, check_observer
from sortition.core.one_thread import OneThread
from sortition.core.population import Population
from sortition.core.questions import NO_DURATIONS, Feedback, Reading
from sortition.core.saved_state import LastSelection, RegistrarMemory
from sortition.core.selector import AnySelector, Needs, Selector, resolve_for
from sortition.core.signals import ModelSize
from sortition.core.state import State
from sortition.core.storage import snapshot
from sortition.core.storage.snapshot import StoredTable
from sortition.core.streams import stream
from sortition.core.turn import Moment, Turn, TurnContext
from sortition.core.validation import is_whole

WHO = "A registrar and its turns"


class _Changes(RegistrarMemory, total=False):
    """Attributes of a registrar with their next values, which are set together."""

    selector: AnySelector
    needs: Needs
    population: Population
    _disclosed_population: Population
    _open_turn: Turn | None
    _latest_turn: Turn | None


class Registrar:
    """Keeps one selector's state over the rounds of one federation, and nothing else: the caller owns all I/O.

    Args:
        selector: the method.
        population: static facts of the clients.
        horizon: how many rounds there will be, where known.
        seed: of all the selector's draws.
        guards: how far clients are trusted; the defaults reject only broken values.
        observer: sees every turn; an audit log is one.
        model: the dimensions of the model's vectors; without it the dimension that most clients send counts.

    Call it, and the turns that it gives, from one thread at a time; a second thread is refused.
    """

    def __init__(
        self,
        selector: AnySelector,
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
        if guards is None:
            guards = Guards()
        if not isinstance(guards, Guards):
            raise bad("Registrar.guards", "a Guards", guards)
        if horizon is not None:
            horizon = int(horizon)
        self.guards = guards
        self.horizon = horizon
        self.seed = seed
        self.observer = observer
        self.selector = resolve_for(selector, population)
        self.needs = self.selector.needs  # what the method, as it was resolved, reads, asks and wants reported
        self.method_name = type(selector).__name__
        check_weighing(guards, self.needs.reads, self.method_name)
        self.index = 0
        self.version = 0
        self.n_log_entries = 0  # without the header of the audit log
        self.counters = {"late": 0, "duplicate": 0, "stale": 0, "rejected": 0}
        self.row_shapes: dict[str, RowShape] = {}
        self.dimensions = self._dimensions_of(model, population.n_clients)
        self.flights = Flights()
        self.intake: Intake | None = None  # what came since the last step
        self.chosen_since_step: Ids = NOBODY
        self.last_reachable: Ids = NOBODY  # who was reachable at the latest selection, busy or not
        self.eligibility = Eligibility(self.guards, population, self._remembered_signals())
        self.population = population
        self.state: State = self.selector.init(population.n_clients, stream(seed, "initial state"))
        self._unresolved_selector = selector
        self._model_size = model
        self._disclosed_population = self._disclose(population, self.eligibility)
        self._open_turn: Turn | None = None
        self._latest_turn: Turn | None = None  # the turn that was dispatched last, before the step
        self._last_selection = LastSelection(available=NOBODY, budget=1)
        self._one_thread = OneThread(WHO)
        self._turn_token = object()  # by which a turn is recognised as one of this registrar

    def __getstate__(self) -> dict[str, object]:
        """Return what a copy or a pickle holds: as in a snapshot, neither an open turn nor observers."""
        attributes = self.__dict__.copy()
        for name in ("_open_turn", "_latest_turn", "_one_thread", "_turn_token", "observer", "needs"):
            del attributes[name]
        return attributes

    def __setstate__(self, attributes: dict[str, object]) -> None:
        self.__dict__.update(attributes)
        self.needs = self.selector.needs  # signals cannot be pickled
        self.observer = None
        self._open_turn = None
        self._latest_turn = None
        self._one_thread = OneThread(WHO)
        self._turn_token = object()

    def __copy__(self) -> Self:
        """Return an independent registrar: two that share their memory would spoil each other's."""
        return copy.deepcopy(self)

    def _dimensions_of(self, model: ModelSize | None, n_clients: int) -> Dimensions:
        return Dimensions((*self.needs.questions, *self.needs.reports), model, n_clients)

    def _remembered_signals(self) -> list[str]:
        """List the signals whose rows have norms that the guards may remember."""
        signals = (*self.needs.questions, *self.needs.reports)
        return list(dict.fromkeys(signal.name for signal in signals if has_scale(signal)))

    def _disclose(self, population: Population, eligibility: Eligibility) -> Population:
        """Return what the selector sees of a population."""
        return population.disclose(self.needs.reads, self.method_name, eligibility.shown)

    @property
    def strikes(self) -> Array:
        """(N,) rounds in which each client sent something unsound."""
        return self.eligibility.strikes

    def count(self, kind: str) -> None:
        """Count one more late, duplicate or stale message."""
        self.counters[kind] += 1

    # -- a selection ----------------------------------------------------------------------------------------------

    def begin(
        self,
        available: npt.ArrayLike,
        budget: int,
        *,
        in_flight: npt.ArrayLike | None = None,
        clock: float | None = None,
        deadline: float | None = None,
        excluded: Mapping[str, npt.ArrayLike] | None = None,
    ) -> Turn:
        """Start a selection among clients that are reachable and idle.

        An earlier turn that is still open is abandoned without a trace. Clients in flight cannot be chosen: to give one
        of them is refused.

        Args:
            available: ids of the clients that can be chosen; an array is copied unless it is read-only.
            budget: places to fill.
            in_flight: ids of clients at work; default: those that were dispatched here and have not ended.
            clock: seconds since the start, simulated or real, where there is a clock.
            deadline: seconds after which nobody waits for the chosen any longer, where that is known.
            excluded: available clients that a policy leaves out, by the key of its rule; the method does not see them.
        """
        with self._one_thread:
            ids = as_immutable(as_ids("available", available, ordered=True))
            busy = self.flights.ids
            if in_flight is not None and in_flight is not busy:
                busy = as_ids("in_flight", in_flight, ordered=True)
            left_out = {rule: as_ids("excluded", clients).copy() for rule, clients in (excluded or {}).items()}
            moment = Moment(in_flight=busy, clock=clock, deadline=deadline)
            return self._begin(ids, budget, moment, left_out)

    def _begin(self, ids: Ids, budget: int, moment: Moment, excluded: Mapping[str, Ids]) -> Turn:
        self._check_known(ids)
        self._check_idle(ids, moment.in_flight)
        choice = Round(
            index=self.index,
            horizon=self.horizon,
            available=NOBODY,
            budget=budget,
            population=self._disclosed_population,
            rng=stream(self.seed, "selection", self.index),
            version=self.version,
            in_flight=as_read_only(moment.in_flight),
            clock=moment.clock,
            deadline=moment.deadline,
        )
        eligible = _leave_out(ids, excluded)
        admitted = self.eligibility.admit(eligible, int(budget), version=self.version, seed=self.seed, index=self.index)
        round: Round | None = None
        if admitted.ids.size:
            round = replace_available(choice, admitted.ids)
        self._abandon()
        context = self._context(ids, admitted, moment, excluded)
        turn = Turn(context, self.state.copy(), round, admitted.notes)
        self._open_turn = turn
        turn.scales = self.eligibility.remembered_scales(self.version)
        if self.observer is not None:
            self.observer.begun(turn, ids, int(budget))
        return turn

    def _check_known(self, ids: Ids) -> None:
        """Refuse ids beyond the population, and clients whose facts the method reads and nobody gave."""
        n_clients = self.population.n_clients
        if ids.size and ids[-1] >= n_clients:
            raise bad("available", f"ids below {n_clients}", int(ids[-1]), "Newcomers enter with join().")
        if self.needs.reads and not self.population.knows(ids):
            raise bad(
                "available", "known clients", "clients whose facts are missing", f"{self.method_name} reads them."
            )

    def _check_idle(self, ids: Ids, busy: Ids) -> None:
        """Refuse clients that are at work, or whose work ended since the last step."""
        at_work = _intersect(ids, self.flights.ids)
        if not at_work.size and busy is not self.flights.ids:
            at_work = _intersect(ids, self.flights.not_in_flight(busy))
        if at_work.size:
            hint = "End its work first: finish(turn), receive(ids) or give_up(ids, reason)."
            raise bad("available", "idle clients", f"client {int(at_work[0])}, who is in flight", hint)
        waiting = _intersect(ids, self.flights.ended_ids)
        if waiting.size:
            client = f"client {int(waiting[0])}, whose work ended since the last step"
            raise bad("available", "clients that can have one place a step", client, "It can be chosen after the step.")

    def _context(self, available: Ids, admitted: Admission, moment: Moment, excluded: Mapping[str, Ids]) -> TurnContext:
        """Collect what a turn is given of this registrar."""
        return TurnContext(
            registrar_token=self._turn_token,
            selector=self.selector,
            guards=self.guards,
            seed=self.seed,
            index=self.index,
            row_shapes=self.dimensions.in_force(self.row_shapes),
            largest_dimension=self.dimensions.largest_dimension,
            available=available,
            excluded=excluded,
            kept_out=admitted.kept_out,
            just_come=admitted.just_come,
            scale_of=self._scale_of,
            limit_without_scale=self._limit_without_scale,
            capped=self.eligibility.capped,
            reweigh=self.eligibility.reweigh,
            observer=self.observer,
            version=self.version,
            moment=moment,
            count_late_answer=lambda: self.count("late"),
            one_thread=self._one_thread,
        )

    def _scale_of(self, name: str) -> float | None:
        """Return the usual norm of a signal's rows at this version; None where it is not known."""
        scales = self.eligibility.scales
        if scales is None:
            return None
        return scales.scale(name, self.version)

    def _limit_without_scale(self, norms: Floats) -> float:
        """Return the norm to which updates of these norms are shortened while there is no scale."""
        scales = self.eligibility.scales
        if scales is None:
            return float(norms.min(initial=np.inf))
        return scales.limit_without_scale(MODEL, self.version, norms)

    def judge_updates(self, ids: Ids, norms: Floats) -> UpdateVerdict:
        """Judge the updates about to be aggregated by their norms ‖Δ_i‖, shape (k,), in the order of ``ids``.

        Whoever aggregates leaves out those that are refused, hands their clients to :meth:`receive` as ``blamed``, and
        shortens what exceeds ``norm_limit``: each update, and the update that they make together. The norms are
        recorded for the scale that the guards remember; where a client's update is judged again, its last norm counts.
        """
        with self._one_thread:
            intake = self._current_intake().copy()
            verdict = intake.judge_updates(ids, norms)
            self.intake = intake
            return verdict

    def dispatch(self, turn: Turn) -> None:
        """Send the cohort of a turn to work.

        What the method remembered while it chose counts from now on; its members are in flight until
        :meth:`finish`, :meth:`receive` or :meth:`give_up` ends their work, and the next selection may begin.
        """
        with self._one_thread:
            if turn is not self._open_turn:
                raise bad("dispatch(turn)", "the turn that is open", "a turn that has ended")
            if turn.cohort is None:
                raise bad("dispatch(turn)", "a turn whose questions are answered", "one with an open question")
            changes = self._changes_of_dispatch(turn, turn.cohort)
            if self.observer is not None and hasattr(self.observer, "dispatched"):
                self.observer.dispatched(turn)
            self._apply(changes)

    def _changes_of_dispatch(self, turn: Turn, cohort: Cohort) -> _Changes:
        """Return what the registrar becomes when this cohort is sent to work; nothing is changed yet."""
        state = turn.state
        state.grow(self.population.n_clients)  # clients may have joined since it began
        selection = DispatchedSelection(
            index=turn.index, version=turn.version, cohort=cohort, since=turn.clock, skipped=turn.skipped
        )
        reachable = turn.available
        if turn.in_flight.size and self.eligibility.remembers_rounds:
            reachable = np.insert(reachable, np.searchsorted(reachable, turn.in_flight), turn.in_flight)
        intake = turn.intake
        if self.intake is not None:
            intake = self.intake.merge(turn.intake)
        chosen_since_step = cohort.ids
        if self.chosen_since_step.size:
            chosen_since_step = np.concatenate([self.chosen_since_step, cohort.ids])
        if turn.round is None:  # the turn was skipped: the method was not asked
            last_selection = LastSelection(available=turn.available, budget=1)
        else:
            last_selection = LastSelection(available=turn.round.available, budget=int(turn.round.budget))
        return _Changes(
            state=state,
            flights=self.flights.with_selection(selection),
            intake=intake,
            chosen_since_step=chosen_since_step,
            last_reachable=reachable,
            index=self.index + 1,
            n_log_entries=self.n_log_entries + 1,
            _open_turn=None,
            _latest_turn=turn,
            _last_selection=last_selection,
        )

    @property
    def open_selections(self) -> tuple[DispatchedSelection, ...]:
        """The selections since the last step, the oldest first: what a server that restarts goes on with."""
        if self.intake is None:
            return ()
        return tuple(selection for selection in self.flights.selections if selection.version == self.version)

    def is_dispatched(self, turn: Turn) -> bool:
        """Tell whether this turn's cohort was sent to work since the last step, as the latest one."""
        return turn is self._latest_turn

    def _apply(self, changes: Mapping[str, object]) -> None:
        """Make all these changes at once: an interrupt comes before them or after them, never in between."""
        vars(self).update(changes)

    def abandon(self, turn: Turn) -> None:
        """End an open turn without a trace; the same selection can begin anew. One that was dispatched stays."""
        with self._one_thread:
            if turn is self._open_turn:
                self._abandon()

    def _abandon(self) -> None:
        """Close the open turn, if there is one."""
        if self._open_turn is not None:
            self._open_turn.close(abandoned=True)
            self._open_turn = None

    # -- work in flight ends ---------------------------------------------------------------------------------------

    @property
    def in_flight(self) -> Ids:
        """Sorted ids of the clients that are at work."""
        return self.flights.ids

    def staleness(self, ids: npt.ArrayLike) -> Ids:
        """Return how many versions were made since each of these clients in flight was sent to work."""
        return self.flights.staleness(self._check_in_flight("staleness(ids)", ids), self.version)

    def _check_in_flight(self, subject: str, ids: npt.ArrayLike) -> Ids:
        """Return the ids, in their order; refuse a client that is not in flight."""
        clients = as_ids(subject, ids)
        outside = self.flights.not_in_flight(clients)
        if outside.size:
            raise bad(subject, "clients in flight", f"client {int(outside[0])}, who is not")
        return clients

    def give_up(self, ids: npt.ArrayLike, reason: str) -> None:
        """End the work of clients in flight without an update: it failed, came too late, or nobody waits for it."""
        with self._one_thread:
            clients = self._check_in_flight("give_up(ids)", ids)
            if not clients.size:
                return
            changes = _Changes(flights=self.flights.after_giving_up(clients), n_log_entries=self.n_log_entries + 1)
            if self.observer is not None:
                self.observer.gave_up(clients, reason)
            self._apply(changes)

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
    ) -> ServerStep:
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
        with self._one_thread:
            if self._open_turn is not None:
                hint = "Dispatch or abandon the open turn first."
                raise bad("receive", "called while no selection is open", f"selection {self._open_turn.index}", hint)
            arrived_ids = self._check_in_flight("receive(ids)", ids)
            blamed = dict(blamed or {})
            blamed_ids = NOBODY
            if blamed:
                blamed_ids = self._check_in_flight("receive(blamed)", np.array(sorted(blamed), np.int64))
            rows_by_signal = _as_reports("receive(reports)", reports)
            reports_by_id = {name: attach_ids(name, rows, arrived_ids) for name, rows in rows_by_signal.items()}
            arrivals = ArrivedUpdates(
                ids=arrived_ids,
                reports=reports_by_id,
                discounts=_as_amounts("receive(discounts)", discounts, arrived_ids.size),
                durations=_as_amounts("receive(durations)", durations, arrived_ids.size),
                blamed=blamed,
            )
            intake = self._current_intake().copy()
            intake.blamed |= blamed
            intake.excused |= set(excused)
            step, changes = self._step(arrivals, intake, self.flights.after_giving_up(blamed_ids), normalise)
            if self.observer is not None:
                self.observer.stepped(step, reports_by_id)
            changes["n_log_entries"] = self.n_log_entries + 1
            self._apply(changes)
            return step

    def _step(
        self, arrivals: ArrivedUpdates, intake: Intake, flights: Flights, normalise: Normalise
    ) -> tuple[ServerStep, _Changes]:
        """Make a step of work in flight, and prepare what changes with it."""
        order = flights.selection_order(arrivals.ids)
        completed = arrivals.ids[order]
        discounts = None
        if arrivals.discounts is not None:
            discounts = arrivals.discounts[order]
        durations = np.full(completed.size, np.nan)
        if arrivals.durations is not None:
            durations = arrivals.durations[order]
        readings = intake.screen_reports(completed, arrivals.reports)
        weighed = flights.weigh(completed, discounts, normalise)
        usable, readings = self._apply_minimum(intake, completed, readings, weighed.cohort)
        step = ServerStep(
            version=self.version,
            ids=usable,
            weights=weighed.weights[: usable.size],
            staleness=flights.staleness(completed, self.version)[: usable.size],
            durations=durations[: usable.size],
            discounts=discounts,
            normalise=normalise,
            arrived=completed,
            cohort=weighed.cohort,
            blamed=arrivals.blamed,
            excused=intake.excused,
            rejected=intake.rejected,
            guarded=intake.guarded,
            notes=weighed.notes,
        )
        state = self.state
        if not weighed.skipped and self._observes():
            state = self.state.copy()
            feedback = Feedback(
                round=self._latest_round(),
                cohort=weighed.cohort,
                ids=usable,
                reports=readings,
                _method_name=self.method_name,
                staleness=step.staleness,
                durations=step.durations,
            )
            self.selector.observe(state, feedback)
        changes = self._changes_of_step(
            state, intake, usable, reachable=self.last_reachable, chosen=self.chosen_since_step
        )
        changes["flights"] = flights.after_step(completed)
        return step, changes

    def _apply_minimum(
        self, intake: Intake, completed: Ids, readings: dict[str, Reading], cohort: Cohort
    ) -> tuple[Ids, dict[str, Reading]]:
        """Return whose updates and which reports are used: none if fewer clients completed than the guards' minimum."""
        if completed.size >= min(self.guards.minimum, cohort.ids.size):
            return completed, readings
        intake.guarded["too_few_completed"] = int(completed.size)
        return completed[:0], dict.fromkeys(readings, Reading.empty())

    def _observes(self) -> bool:
        """Tell whether the method learns from what came back."""
        return type(self.selector).observe is not Selector.observe

    def _current_intake(self) -> Intake:
        """Return what clients sent since the last step."""
        if self.intake is None:
            return self.fresh_intake()
        return self.intake

    def fresh_intake(self) -> Intake:
        """Return an empty intake."""
        return Intake(
            selector=self.selector,
            guards=self.guards,
            row_shapes=self.dimensions.in_force(self.row_shapes),
            scale_of=self._scale_of,
            limit_without_scale=self._limit_without_scale,
            largest_dimension=self.dimensions.largest_dimension,
        )

    def _latest_round(self) -> Round:
        """Return the latest selection, as the method is told when it observes."""
        if self._latest_turn is not None and self._latest_turn.round is not None:
            return self._latest_turn.round
        return Round(
            index=max(0, self.index - 1),
            horizon=self.horizon,
            available=self._last_selection.available,
            budget=self._last_selection.budget,
            population=self._disclosed_population,
            rng=stream(self.seed, "observation", self.version),
            version=self.version,
            in_flight=self.flights.ids,
        )

    def _changes_of_step(self, state: State, intake: Intake, usable: Ids, *, reachable: Ids, chosen: Ids) -> _Changes:
        """Prepare what changes with every step, beside the flights: state, guards, counters and the version."""
        state.grow(self.population.n_clients)
        row_shapes = dict(intake.row_shapes)
        counters = {name: count + intake.counters.get(name, 0) for name, count in self.counters.items()}
        dimensions = self.dimensions
        overturned: dict[str, int] = {}
        if intake.votes:
            dimensions = dimensions.copy_for(self.population.n_clients)  # a copy: the old one stays as it is
            overturned = dimensions.vote(intake.votes, row_shapes)
        elif dimensions.votes:
            overturned = dimensions.vote((), row_shapes)
        strikes = intake.strikes(overturned)
        eligibility = self.eligibility
        if strikes or eligibility.remembers_rounds:
            eligibility = eligibility.copy()
            eligibility.record(reachable, chosen, usable)
            eligibility.remember(intake.scale_votes(), self.version)
            eligibility.blame(strikes, self.version)
        if overturned:
            row_shapes |= {name: (dimension,) for name, dimension in overturned.items()}
            state = self.selector.init(self.population.n_clients, stream(self.seed, "initial state"))
            intake.guarded["overturned"] = overturned
        return _Changes(
            state=state,
            row_shapes=row_shapes,
            counters=counters,
            dimensions=dimensions,
            eligibility=eligibility,
            intake=None,
            chosen_since_step=NOBODY,
            version=self.version + 1,
            _latest_turn=None,
        )

    def finish(
        self,
        turn: Turn,
        ids: npt.ArrayLike | None = None,
        reports: Reports | None = None,
        *,
        durations: npt.ArrayLike | None = None,
    ) -> Ids:
        """Close a round in one call: dispatch its cohort, make a step of those who answered, and give the others up.

        The call counts wholly or not at all, also where it is interrupted. It returns those whose updates may be
        aggregated: nobody, if fewer than the minimum answered.

        Args:
            turn: what :meth:`begin` gave.
            ids: members of the cohort whose updates arrived (default: all).
            reports: per declared signal name a Reading, a mapping from id to row, or one row per id in ``ids``.
            durations: seconds from dispatch to arrival, one per id in ``ids``.
        """
        if not isinstance(turn, Turn):
            raise bad("finish(turn)", "what begin() gave", turn)
        with self._one_thread:
            if turn is not self._open_turn and turn is not self._latest_turn:
                self._count_ended(turn)
                return np.empty(0, np.int64)
            if turn.cohort is None:
                raise bad("finish(turn)", "a turn whose questions are answered", "one with an open question")
            completed = turn.cohort.ids
            if ids is not None:
                completed = as_ids("finish(ids)", ids)
            outside = find_outside(completed, np.sort(turn.cohort.ids))
            if outside.size:
                raise bad("finish(ids)", "members of the cohort", f"client {int(outside[0])}")
            if any(selection.index != turn.index for selection in self.flights.selections):
                hint = "Use receive(ids) where selections overlap."
                raise bad("finish(turn)", "called when no other cohort is in flight", "work of another selection", hint)
            seconds = _as_amounts("finish(durations)", durations, completed.size)
            rows_by_signal = _as_reports("finish(reports)", reports)
            return self._finish(turn, turn.cohort, completed, rows_by_signal, durations=seconds)

    def _finish(self, turn: Turn, cohort: Cohort, completed: Ids, reports: Reports, *, durations: Floats | None) -> Ids:
        """Close the round of a turn, or leave the turn as it was."""
        earlier_intake = turn.intake
        earlier_state = turn.state
        earlier_durations = turn.durations
        version = self.version
        try:
            turn.intake = earlier_intake.copy()
            turn.durations = durations
            usable, changes = self._changes_of_finish(turn, cohort, completed, reports, durations=durations)
            turn.state = changes["state"]  # observers see what the method remembers from now on
            if self.observer is not None:
                self.observer.finished(turn, completed, reports)
            if turn is self._open_turn:
                changes["index"] = self.index + 1
                changes["n_log_entries"] = self.n_log_entries + 1
                changes["_open_turn"] = None
            self._apply(changes)
        except BaseException:
            if self.version == version:  # nothing is applied: the turn is as it was
                turn.intake = earlier_intake
                turn.state = earlier_state
                turn.durations = earlier_durations
            raise
        turn.close()
        turn.state = self.state
        turn.usable = usable
        return usable

    def _changes_of_finish(
        self, turn: Turn, cohort: Cohort, completed: Ids, reports: Reports, *, durations: Floats | None
    ) -> tuple[Ids, _Changes]:
        """Make the step of a round whose whole cohort ends with it; return whose updates are used, and what changes."""
        intake = turn.intake
        readings = intake.screen_reports(completed, reports)
        usable, readings = self._apply_minimum(intake, completed, readings, cohort)
        state = self.state
        if turn is self._open_turn:
            state = turn.state
        if turn.round is not None and self._observes():
            state = state.copy()
            seconds = NO_DURATIONS
            if durations is not None:
                seconds = durations[: usable.size]
            feedback = Feedback(
                round=turn.round,
                cohort=cohort,
                ids=usable,
                reports=readings,
                _method_name=self.method_name,
                durations=seconds,
            )
            self.selector.observe(state, feedback)
        changes = self._changes_of_step(state, intake, usable, reachable=turn.available, chosen=cohort.ids)
        changes["flights"] = Flights()
        return usable, changes

    def _count_ended(self, turn: Turn) -> None:
        """Count a turn that was finished before, or abandoned; refuse one of another registrar."""
        if turn.registrar_token is not self._turn_token:
            raise bad("finish(turn)", "a turn of this registrar", "a turn of another one")
        if turn.index < self.version:
            self.count("duplicate")
        else:
            self.count("stale")

    def _adopt_dimensions(self, changed: Mapping[str, int]) -> None:
        """Set the dimensions of these signals; if there are any, the method's whole memory starts anew."""
        self.row_shapes = {**self.row_shapes, **{name: (dimension,) for name, dimension in changed.items()}}
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
        with self._one_thread:
            self._join(population)

    def _join(self, population: Population) -> None:
        population.check_successor_of(self.population)
        eligibility = self.eligibility.copy_for(population)
        state = self.state.copy()
        state.grow(population.n_clients)
        changes = _Changes(
            population=population,
            eligibility=eligibility,
            state=state,
            dimensions=self.dimensions.copy_for(population.n_clients),
            _disclosed_population=self._disclose(population, eligibility),
        )
        self._apply(changes)
        if self.observer is not None:
            self.observer.joined(population)

    def resize(self, model: ModelSize) -> None:
        """Go on with a model of another size; if a signal's dimension changes, the method forgets all it learnt.

        An open turn is abandoned; while clients are in flight, this is refused.
        """
        if model == self._model_size:
            return
        with self._one_thread:
            if self.flights.ids.size:
                hint = "Call receive(ids) or give_up(ids, reason) first."
                raise bad("resize", "called when nobody is in flight", f"{self.flights.ids.size} clients", hint)
            dimensions = self.dimensions.resized(self._dimensions_of(model, self.population.n_clients))
            self._abandon()
            self._model_size = model
            self.dimensions = dimensions
            self._adopt_dimensions(self.dimensions.changed_since(self.row_shapes))

    def export(self) -> tuple[dict[str, Array], dict[str, object]]:
        """Return everything that the next round depends on, as named arrays and a JSON-able header."""
        with self._one_thread:
            return saved_state.export(self)

    def used_optional_facts(self) -> list[str] | None:
        """Return the optional facts that the selection uses from its first round on; None for a method without any."""
        optional_facts = self._unresolved_selector.needs.optional
        if not optional_facts:
            return None
        return [name for name in optional_facts if name in self.needs.reads]

    def restore(self, arrays: Mapping[str, Array], header: StoredTable) -> Self:
        """Take over what :meth:`export` returned; refuse that of another selection.

        A model of another size than the saved one's acts as :meth:`resize`.
        """
        with self._one_thread:
            twin = self._twin_with_facts(saved_state.read_optional_facts(header, self._unresolved_selector.needs))
            memory = saved_state.parse(arrays, header, twin)  # what follows cannot be refused
            self._abandon()
            resolved = _Changes(
                selector=twin.selector,
                needs=twin.needs,
                _disclosed_population=twin._disclosed_population,
                _latest_turn=None,
            )
            self._apply({**resolved, **memory})
            self._adopt_dimensions(self.dimensions.changed_since(self.row_shapes))
        return self

    def _twin_with_facts(self, facts: list[str] | None) -> Registrar:
        """Return a registrar whose method uses these optional facts, as a saved selection did; itself if it does."""
        if facts is None or facts == self.used_optional_facts():
            return self
        return Registrar(
            self._unresolved_selector.resolve(facts),
            self.population,
            horizon=self.horizon,
            seed=self.seed,
            guards=self.guards,
            model=self._model_size,
        )

    def save(self, path: str | Path) -> None:
        """Write a snapshot atomically; an open turn is left out, as if it had not begun."""
        arrays, header = self.export()
        snapshot.save(path, arrays, header)

    @classmethod
    def load(
        cls,
        path: str | Path,
        selector: AnySelector,
        population: Population,
        *,
        horizon: int | None = None,
        guards: Guards | None = None,
        model: ModelSize | None = None,
    ) -> Registrar:
        """Go on from a snapshot; horizon and guards default to its own, another model acts as :meth:`resize`."""
        arrays, header = snapshot.load(path)
        saved = saved_state.read_settings(header, path)
        if horizon is None:
            horizon = saved.horizon
        if guards is None:
            guards = saved.guards
        registrar = cls(selector, population, horizon=horizon, seed=saved.seed, guards=guards, model=model)
        return registrar.restore(arrays, header)


def _leave_out(available: Ids, excluded: Mapping[str, Ids]) -> Ids:
    """Return the available clients without those that a policy leaves out."""
    if not excluded:
        return available
    left_out = np.concatenate(list(excluded.values()))
    outside = find_outside(left_out, available)
    if outside.size:
        raise bad("begin(excluded)", "clients that are available", f"client {int(outside[0])}")
    return available[np.isin(available, left_out, invert=True)]


def _intersect(ids: Ids, others: Ids) -> Ids:
    """Return the ids that are in both sorted arrays."""
    if not (ids.size and others.size):
        return others[:0]
    position = np.minimum(np.searchsorted(ids, others), ids.size - 1)
    common: Ids = others[ids[position] == others]
    return common


def _as_reports(subject: str, reports: Reports | None) -> Reports:
    """Return the reports, an empty mapping where none are given; refuse what is no mapping."""
    if reports is None:
        return {}
    if not isinstance(reports, Mapping):
        raise bad(subject, "a mapping from a signal's name to its rows", reports)
    return reports


def _as_amounts(subject: str, values: npt.ArrayLike | None, count: int) -> Floats | None:
    """Return discounts or durations, one number ≥ 0 (or NaN) per client; None where none are given."""
    if values is None:
        return None
    numbers = as_array(subject, values)
    if numbers.shape != (count,) or numbers.dtype.kind not in "fiu" or (numbers < 0).any():
        raise bad(subject, f"one number ≥ 0 per id, {count} in all", numbers)
    return np.asarray(numbers, np.float64)

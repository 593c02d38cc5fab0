"""The program of a federation, written once: choose, ask, dispatch, collect, screen, finish, step, record, save.

A :class:`Backend` does the work of each step for whole cohorts: in the simulator (``sortition.simulation``), or over a
network (:class:`~sortition.federation.messenger.Messenger`, on any transport). The driver opens a round, which ends
with a cohort at work, and closes it, which ends with the next model and a record. What happens in between, training, is
the clients' business: Flower's own loop runs there, and runs in lock-step train there together.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, cast

import numpy as np

from sortition.audit.encoding import json_value
from sortition.core.arrays import Floats, Ids
from sortition.core.cohort import NOBODY, Cohort, Notes
from sortition.core.errors import bad
from sortition.core.guards.answer_screening import Answers
from sortition.core.guards.settings import Guards
from sortition.core.in_flight import DispatchedSelection, ServerStep
from sortition.core.population import Population
from sortition.core.questions import Measure
from sortition.core.registrar import Registrar
from sortition.core.round_record import QuestionRecord, RoundRecord
from sortition.core.selector import AnySelector
from sortition.core.signals import ModelSize
from sortition.core.turn import MeteredQuestion, Turn
from sortition.federation.pace import CohortPace
from sortition.federation.policies import PolicyKeeper
from sortition.federation.shadow import Shadows
from sortition.federation.staleness import Staleness

RECORD_KEYS = tuple(RoundRecord.__annotations__)  # the keys of a record
USED_ELSEWHERE = "another job used up its limit"


@dataclass(frozen=True)
class Arrivals:
    """What came back from a cohort in time.

    Attributes:
        ids: members whose update arrived and is sound, in the cohort's order.
        faults: members whose update is unsound, and why.
        durations: seconds from the dispatch of each of ``ids`` to its arrival; None where there is no clock.
        reports: what the members of ``ids`` reported, by signal.
    """

    ids: Ids
    faults: Mapping[int, str] = field(default_factory=dict)
    durations: Floats | None = None
    reports: Mapping[str, Answers] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class PastTurn:
    """What is known of a turn whose cohort a server sent to work before it restarted."""

    index: int
    version: int
    cohort: Cohort
    skipped: bool
    metered_questions: tuple[MeteredQuestion, ...] = ()
    rejected: Mapping[int, str] = field(default_factory=dict)
    guarded: Mapping[str, object] = field(default_factory=dict)
    excluded: Mapping[str, Ids] = field(default_factory=dict)
    in_flight: Ids = field(default_factory=lambda: NOBODY)

    @classmethod
    def of(cls, selection: DispatchedSelection) -> PastTurn:
        """Return the turn of a selection as the registrar knows it."""
        return cls(index=selection.index, version=selection.version, cohort=selection.cohort, skipped=selection.skipped)


AnyTurn = Turn | PastTurn


class Backend(Protocol):
    """What the driver needs: clients that can be asked and trained, whole cohorts at a time."""

    def available(self) -> Ids:
        """Return who can be chosen now, sorted; may wait for clients."""
        ...

    def population(self) -> Population | None:
        """Return what is known of the clients, if that has changed since it was last asked for."""
        ...

    def model_size(self) -> ModelSize:
        """Return how long the vectors are that belong to the model."""
        ...

    def ask(self, turn: Turn, question: Measure) -> Answers:
        """Ask clients, and return the rows of those who answered."""
        ...

    def dispatch(self, turn: Turn, cohort: Cohort) -> None:
        """Send the cohort to work; return at once."""
        ...

    def collect(self, turn: Turn, cohort: Cohort) -> Arrivals:
        """Wait until the round is over, and return whose update can be used."""
        ...

    def step(self, cohort: Cohort, ids: Ids, weights: Floats) -> Mapping[str, object]:
        """Make the next model of the updates of these members, and return notes; with nobody, the model stays."""
        ...

    def costs(self, turn: AnyTurn, arrivals: Arrivals) -> Mapping[str, object]:
        """Return what the record says beside what every backend knows: fates, names, costs, a clock, test figures."""
        ...

    def elapsed(self) -> float | None:
        """Return the seconds since the start, simulated or real; None where there is no clock."""
        ...


class OverlappingBackend(Backend, Protocol):
    """What the driver needs where work outlives a step."""

    def collect(self, turn: AnyTurn, cohort: Cohort) -> Arrivals:
        """Return whose updates the step uses."""
        ...

    def waiting(self) -> Ids:
        """Return the clients whose updates have arrived and wait for the step."""
        ...

    def n_waiting(self) -> int:
        """Count the updates that wait for the step."""
        ...

    def has_enough(self) -> bool:
        """Tell whether a step is due by what has arrived, or by the clock."""
        ...

    def lost(self) -> Mapping[int, Ending]:
        """Return whose work was lost between two steps, and how."""
        ...

    def advance(self) -> Mapping[int, Ending]:
        """Wait until something happens; return whose work ended without an update, and how."""
        ...

    def drop(self, ids: Ids) -> None:
        """Forget the updates of these, which wait for the step and are too stale."""
        ...

    def discounts(self, rule: Staleness, ids: Ids, staleness: Ids) -> Floats:
        """Return what the updates of these count, in their order; :meth:`Backend.collect` returned them."""
        ...


@dataclass(frozen=True)
class Ending:
    """How work ended without an update.

    Attributes:
        fate: ``failed``: the client or its connection broke; ``given_up``: nobody waits for it any longer;
            ``too_stale``: its update came after too many versions.
        reason: a few words.
    """

    fate: Literal["failed", "given_up", "too_stale"]
    reason: str


@dataclass(frozen=True)
class Selection:
    """Who chooses, and how far clients are trusted.

    Attributes:
        selector: the method.
        horizon: rounds that it plans for.
        seed: of its draws.
        guards: how far clients are trusted.
    """

    selector: AnySelector
    horizon: int | None = None
    seed: int = 0
    guards: Guards = field(default_factory=Guards)

    def registrar(self, population: Population, model: ModelSize) -> Registrar:
        """Make a registrar of these clients."""
        return Registrar(
            self.selector, population, horizon=self.horizon, seed=self.seed, guards=self.guards, model=model
        )


@dataclass
class OpenRound:
    """A round whose cohort is chosen.

    Attributes:
        turn: the registrar's, or what is known of it if its cohort was sent to work before the server restarted.
        available: how many could be chosen.
        later_turns: those of further selections before the same step.
        endings: whose work ended before the step without an update, and how.
        withdrawn: members of the cohort that are not sent to work: another job used up their limit meanwhile.
    """

    turn: AnyTurn
    available: int
    later_turns: list[AnyTurn] = field(default_factory=list)
    endings: dict[int, Ending] = field(default_factory=dict)
    withdrawn: Ids = field(default_factory=lambda: NOBODY)

    @property
    def cohort(self) -> Cohort:
        """Who trains."""
        return _without(_chosen_by(self.turn), self.withdrawn)


class Driver:
    """Plays the rounds of one federation on a backend.

    Args:
        backend: asks and trains.
        selection: who chooses.
        pace: how many are chosen, and when a round is over.
        policy: how often and when devices may be used; the backend asks it who is eligible.
        shadows: other methods that choose beside the live one.
        started: called once with the registrar, before its first round: it restores one that goes on, and lets
            observers watch it.
        keep: called with each record, first of all: it writes journal and checkpoint.
        sinks: called with each record when it is kept; one that raises is reported to ``complain`` and ends nothing.
        complain: takes a sentence about a sink that raised.
    """

    def __init__(
        self,
        backend: Backend,
        selection: Selection,
        pace: CohortPace,
        *,
        policy: PolicyKeeper,
        shadows: Shadows | None = None,
        started: Callable[[Registrar], object] = lambda registrar: None,
        keep: Callable[[RoundRecord], object] = lambda record: None,
        sinks: tuple[Callable[[RoundRecord], object], ...] = (),
        complain: Callable[[str], object] = print,
    ) -> None:
        self.backend = backend
        self.selection = selection
        self.pace = pace
        self.policy = policy
        self.registrar: Registrar | None = None
        self.round: OpenRound | None = None
        self.shadows = shadows
        self.durations: Sequence[float] = ()  # of the trainings so far, for a deadline that follows them
        self.selection_seconds = 0.0  # how long the method computed for the choices of this round
        self._started = started
        self._keep = keep
        self.sinks = sinks
        self._complain = complain

    def play_round(self) -> RoundRecord:
        """Play one round from its choice to its record."""
        self.open_round()
        self.dispatch()
        return self.close_round()

    # -- the first half of a round -------------------------------------------------------------------------------------

    def open_round(self) -> OpenRound:
        """Choose a cohort, asking clients what the method wants to know."""
        available = self.backend.available()
        registrar = self.update_registrar()
        self.selection_seconds = 0.0
        lost: dict[int, Ending] = {}
        if self.pace.settings.overlaps:
            lost = dict(self._overlapping.lost())
            self._give_up(registrar, lost)
        past_turns = [PastTurn.of(selection) for selection in registrar.open_selections]
        if past_turns:  # their cohorts were sent to work before the server restarted
            self.round = OpenRound(
                turn=past_turns[0],
                available=available.size,
                later_turns=list(past_turns[1:]),
                endings=lost,
            )
        else:
            turn = self._select(registrar, available)
            self.round = OpenRound(turn, available.size, endings=lost, withdrawn=self._claim_cohort(turn))
        return self.round

    def _select(self, registrar: Registrar, available: Ids) -> Turn:
        """Begin a turn, and ask clients until its cohort is chosen."""
        began = time.perf_counter()
        turn = self.begin(registrar, available)
        self.selection_seconds += time.perf_counter() - began
        while turn.question is not None:
            question = self.policy.claim_question(turn.question)
            answers: Answers = {}
            if question is not None:
                answers = self.backend.ask(turn, question)
            began = time.perf_counter()
            turn.answer(answers)
            self.selection_seconds += time.perf_counter() - began
        return turn

    def _claim_cohort(self, turn: Turn) -> Ids:
        """Claim the cohort of a turn; return the members that may not be used any more."""
        return self.policy.claim(_chosen_by(turn).ids)

    def begin(self, registrar: Registrar, available: Ids) -> Turn:
        """Begin the registrar's turn; where no place is free, it is a skipped one."""
        places = self.pace.places
        excluded = self.policy.excluded
        at_work: Ids | None = None
        if self.pace.settings.overlaps:
            at_work = self.at_work()
            places = self.pace.free_places(at_work.size)
        if places < 1:
            available = available[:0]
            places = 1
            excluded = {}
        return registrar.begin(
            available,
            places,
            in_flight=at_work,
            clock=self.backend.elapsed(),
            deadline=self._deadline(),
            excluded=excluded,
        )

    def _deadline(self) -> float | None:
        """Seconds after which the clients of the next selection are no longer waited for; None for no such limit."""
        deadline = self.pace.deadline_after(self.durations)
        if math.isinf(deadline):
            return None
        return deadline

    def at_work(self) -> Ids:
        """Sorted ids of the clients that are at work: in flight, and not waiting for the step."""
        in_flight = self._registrar("at_work").in_flight
        if not self._overlapping.n_waiting():
            return in_flight
        return np.setdiff1d(in_flight, self._overlapping.waiting(), assume_unique=True)

    @property
    def _overlapping(self) -> OverlappingBackend:
        """The backend, where work outlives a step."""
        return cast(OverlappingBackend, self.backend)

    def _registrar(self, caller: str) -> Registrar:
        """Return the registrar; refuse a call before the first round is open."""
        if self.registrar is None:
            raise bad(caller, "called after open_round", "a call without")
        return self.registrar

    def update_registrar(self) -> Registrar:
        """Make the registrar, or tell it of new clients and of the lengths of the model's vectors; return it."""
        population = self.backend.population()
        if self.registrar is None:
            if population is None:
                raise bad("Backend.population()", "a Population when it is first called", None)
            self.registrar = self.selection.registrar(population, self.backend.model_size())
            self._started(self.registrar)
            return self.registrar
        if population is not None:
            self.registrar.join(population)
        self.registrar.resize(self.backend.model_size())
        return self.registrar

    def dispatch(self) -> None:
        """Send the cohort of the open round to work."""
        opened = self._opened("dispatch")
        if isinstance(opened.turn, PastTurn):  # its cohort is at work
            return
        if self.registrar is not None:
            self.registrar.dispatch(opened.turn)
            self._withdraw(opened, self.registrar, opened.withdrawn)
        self.backend.dispatch(opened.turn, opened.cohort)

    def _withdraw(self, opened: OpenRound, registrar: Registrar, clients: Ids) -> None:
        """End the work of members that may not be used; a round that does not overlap ends it when it closes."""
        if self.pace.settings.overlaps:
            self._end(opened, registrar, dict.fromkeys(clients.tolist(), Ending("given_up", USED_ELSEWHERE)))

    # -- the second half -----------------------------------------------------------------------------------------------

    def close_round(self) -> RoundRecord:
        """Take what came back, teach the method, make the next model, and keep the record."""
        opened = self._opened("close_round")
        if self.pace.settings.overlaps:
            return self._step(opened)
        cohort = opened.cohort
        turn = cast(Turn, opened.turn)  # only work that outlives a step can be of a server that restarted
        arrivals = self.backend.collect(turn, cohort)
        turn.blame(arrivals.faults)
        usable_ids = self.finish(turn, arrivals)
        weights, remarks = cohort.weights_of(usable_ids)
        notes = self._notes(opened, arrivals)
        notes |= remarks
        notes |= self.backend.step(cohort, usable_ids, weights)
        common_record = round_record(
            turn, available=opened.available, answered=arrivals.ids, notes=notes, withdrawn=opened.withdrawn
        )
        return self._keep_record(common_record, turn, arrivals)

    def _keep_record(self, common_record: RoundRecord, turn: AnyTurn, arrivals: Arrivals) -> RoundRecord:
        """Complete a record with costs and shadows, write it, and tell it to everybody who wants to know."""
        complete_record: dict[str, object] = {**common_record, **self.backend.costs(turn, arrivals)}
        if self.shadows is not None:
            complete_record["shadows"] = self.shadows.play()
        record = in_order(complete_record)
        self.round = None
        self.policy.round = record["round"] + 1
        self._keep(record)
        for sink in self.sinks:
            self._tell(sink, record)
        return record

    # -- where work outlives a step ------------------------------------------------------------------------------------

    def _step(self, opened: OpenRound) -> RoundRecord:
        """Wait until a step is due, and make it of all that has arrived."""
        registrar = self._registrar("close_round")
        self._await(opened, registrar)
        self._drop_stale(opened, registrar)
        arrivals = self._overlapping.collect(opened.turn, opened.cohort)
        settings = self.pace.settings
        staleness = registrar.flights.staleness(arrivals.ids, registrar.version)
        discounts = self._overlapping.discounts(settings.staleness_rule, arrivals.ids, staleness)
        step = registrar.receive(
            arrivals.ids,
            arrivals.reports,
            discounts=discounts,
            normalise=settings.normalise,
            durations=arrivals.durations,
            blamed=arrivals.faults,
        )
        notes = self._notes(opened, arrivals)
        if step.guarded:
            notes["guards"] = {**notes.get("guards", {}), **step.guarded}
        notes |= step.notes
        notes |= self.backend.step(step.cohort, step.ids, step.weights)
        record = step_record(
            turns=[opened.turn, *opened.later_turns],
            available=opened.available,
            step=step,
            fates=_by_fate(opened.endings),
            in_flight=registrar.in_flight.size,
            notes=notes,
        )
        return self._keep_record(record, opened.turn, arrivals)

    def await_step(self) -> None:
        """Wait until a step is due; :meth:`close_round` then makes it at once."""
        self._await(self._opened("await_step"), self._registrar("await_step"))

    def _await(self, opened: OpenRound, registrar: Registrar) -> None:
        """Take arrivals as they come, and fill places between them where the pace says so."""
        backend = self._overlapping
        while not backend.has_enough() and n_at_work(registrar, backend):
            endings = backend.advance()
            if endings:
                self._end(opened, registrar, endings)
            if self.pace.refills(n_at_work(registrar, backend)) and not backend.has_enough():
                self._select_more(opened, registrar)

    def _end(self, opened: OpenRound, registrar: Registrar, endings: Mapping[int, Ending]) -> None:
        """Give up the work of clients that will send no update, and note it for the record."""
        self._give_up(registrar, endings)
        opened.endings |= endings

    @staticmethod
    def _give_up(registrar: Registrar, endings: Mapping[int, Ending]) -> None:
        """End the work of these clients, those with one reason together."""
        for reason in dict.fromkeys(ending.reason for ending in endings.values()):
            clients = [client for client, ending in endings.items() if ending.reason == reason]
            registrar.give_up(sorted(clients), reason)

    def _drop_stale(self, opened: OpenRound, registrar: Registrar) -> None:
        """Drop the updates that wait for the step and are too old for it."""
        if self.pace.settings.max_staleness is None:
            return
        waiting = self._overlapping.waiting()
        too_old = waiting[self.pace.too_stale(registrar.staleness(waiting))]
        ending = Ending("too_stale", f"more than {self.pace.settings.max_staleness} versions old")
        self._end(opened, registrar, dict.fromkeys(too_old.tolist(), ending))
        self._overlapping.drop(too_old)

    def _select_more(self, opened: OpenRound, registrar: Registrar) -> None:
        """Fill the places that are free before the step."""
        available = self.backend.available()
        if not available.size:
            return
        self.update_registrar()
        turn = self._select(registrar, available)
        withdrawn = self._claim_cohort(turn)
        registrar.dispatch(turn)
        self._withdraw(opened, registrar, withdrawn)
        opened.later_turns.append(turn)
        self.backend.dispatch(turn, _without(_chosen_by(turn), withdrawn))

    def finish(self, turn: Turn, arrivals: Arrivals) -> Ids:
        """Close the registrar's turn; return whose updates may be aggregated: everybody's who answered, or nobody's."""
        registrar = self._registrar("close_round")
        return registrar.finish(turn, arrivals.ids, arrivals.reports, durations=arrivals.durations)

    @staticmethod
    def _notes(opened: OpenRound, arrivals: Arrivals) -> Notes:
        """Collect what a reader of the record may want to know: the method's notes, the guards', what went wrong."""
        notes = dict(opened.cohort.notes)
        if arrivals.faults:
            notes["unsound_updates"] = list(arrivals.faults)
        if opened.turn.guarded:
            notes["guards"] = opened.turn.guarded
        if opened.cohort.ids.size and not arrivals.ids.size:
            notes["nothing_came_back"] = True
        return notes

    def _tell(self, sink: Callable[[RoundRecord], object], record: RoundRecord) -> None:
        """Give a record to a sink; complain where it raises."""
        try:
            sink(record)
        except Exception as error:  # a user's function: it never ends a round, which is kept already
            name = getattr(sink, "__name__", type(sink).__name__)
            self._complain(f"{name} raised {type(error).__name__} in round {record['round']}: {error}")

    def _opened(self, caller: str) -> OpenRound:
        """Return the open round; refuse a call without one."""
        if self.round is None:
            raise bad(caller, "called after open_round", "a call without")
        return self.round


def n_at_work(registrar: Registrar, backend: OverlappingBackend) -> int:
    """Count the clients that are at work and have sent nothing yet."""
    return registrar.in_flight.size - backend.n_waiting()


def _chosen_by(turn: AnyTurn) -> Cohort:
    """Return the cohort of a turn; nobody where it has none."""
    return turn.cohort or Cohort.uniform([])


def _by_fate(endings: Mapping[int, Ending]) -> dict[str, dict[str, str]]:
    """Return the reasons of clients whose work ended without an update, by fate and client, as a record has them."""
    fates: dict[str, dict[str, str]] = {}
    for client, ending in endings.items():
        fates.setdefault(ending.fate, {})[str(client)] = ending.reason
    return fates


def _without(cohort: Cohort, withdrawn: Ids) -> Cohort:
    """Return the cohort without members that are not sent to work; the others share their weight."""
    if not withdrawn.size:
        return cohort
    at_work = np.isin(cohort.ids, withdrawn, invert=True)
    weights, _ = cohort.weights_of(cohort.ids[at_work])
    groups = cohort.groups
    if groups is not None:
        groups = groups[at_work]
    return replace(cohort, ids=cohort.ids[at_work], weights=weights, groups=groups)


# -- how a round becomes one record, the same for every backend --------------------------------------------------------


def round_record(
    turn: AnyTurn, *, available: int, answered: Ids, notes: Notes, withdrawn: Ids | None = None
) -> RoundRecord:
    """Write what every backend knows of a round; the costs and fates that a backend knows beside it come later."""
    cohort = turn.cohort or Cohort.uniform([])
    record: RoundRecord = {
        "round": turn.index,
        "available": available,
        "cohort": cohort.ids.tolist(),
        "weights": cohort.weights.tolist(),
        "answered": None,
        "skipped": turn.skipped,
        "full": cohort.full,
        "questions": [_question(question) for question in turn.metered_questions],
        "notes": dict(notes),
    }
    if answered.size != cohort.ids.size:
        record["answered"] = answered.tolist()
    if cohort.mass == "expected":
        record["mass"] = cohort.mass
    if cohort.expected_size is not None:
        record["expected_size"] = cohort.expected_size
    if turn.excluded:
        record["excluded"] = {rule: int(ids.size) for rule, ids in turn.excluded.items()}
    if withdrawn is not None and withdrawn.size:
        record["withdrawn"] = withdrawn.tolist()
    if turn.rejected:
        record["rejected"] = {str(client): reason for client, reason in turn.rejected.items()}
    return record


def step_record(
    *,
    turns: Sequence[AnyTurn],
    available: int,
    step: ServerStep,
    fates: Mapping[str, Mapping[str, str]],
    in_flight: int,
    notes: Notes,
) -> RoundRecord:
    """Write what every backend knows of a step where work outlives steps.

    A step of one selection that ends with it reads like a round.

    Args:
        turns: the selections since the last step.
        available: how many clients the first of them could choose.
        step: whose updates it used.
        fates: why work ended without an update, by fate and client.
        in_flight: how many clients are at work after it.
        notes: for a reader.
    """
    first = turns[0]
    record = round_record(first, available=available, answered=step.ids, notes=notes)
    record["round"] = step.version
    if len(turns) > 1:
        record["cohort"], record["weights"] = _members_and_weights(turns)
    has_selected = any(not turn.skipped for turn in turns)
    record["skipped"] = not has_selected and not step.arrived.size
    record["questions"] = [_question(question) for turn in turns for question in turn.metered_questions]
    is_one_selection = len(turns) == 1 and step.cohort is first.cohort
    record["answered"] = step.ids.tolist()
    if is_one_selection and np.array_equal(step.ids, step.cohort.ids):
        record["answered"] = None
    if step.ids.size and not is_one_selection:
        record["used"] = step.weights.tolist()
    if first.in_flight.size:
        record["busy"] = int(first.in_flight.size)
    return cast(RoundRecord, {**record, **_step_details(step, in_flight), **fates})


def _members_and_weights(turns: Sequence[AnyTurn]) -> tuple[list[int], list[float]]:
    """Return the members of all selections, and their weights when they were chosen."""
    members: list[int] = []
    weights: list[float] = []
    for turn in turns:
        if turn.cohort is not None:
            members += turn.cohort.ids.tolist()
            weights += turn.cohort.weights.tolist()
    return members, weights


def _step_details(step: ServerStep, in_flight: int) -> dict[str, object]:
    """Return what a step says beyond a round: who is in flight, staleness, and why numbers were withheld."""
    details: dict[str, object] = {}
    if in_flight:
        details["in_flight"] = in_flight
    if step.staleness.any():
        details["staleness"] = step.staleness.tolist()
    if step.rejected:
        details["rejected"] = {str(client): reason for client, reason in step.rejected.items()}
    return details


def _question(question: MeteredQuestion) -> QuestionRecord:
    return {
        "signal": question.signal,
        "of": question.depends_on,
        "asked": question.n_asked,
        "answered": question.n_answered,
        "floats": question.floats_up,
        "after": question.n_rehearsed,
    }


def in_order(record: Mapping[str, object]) -> RoundRecord:
    """Return the record as JSON knows it, its keys in the order of the schema."""
    ordered: RoundRecord = json_value({key: record[key] for key in RECORD_KEYS if key in record})
    return ordered

"""The one place that advances a selection: a turn asks, screens the answers, and ends in a cohort."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sortition.core.arrays import Array, Floats, Ids, as_ids, not_among
from sortition.core.errors import InputError, UndeclaredError, bad
from sortition.core.guards.exploration import explored
from sortition.core.guards.screening import Answers, in_order_asked
from sortition.core.guards.settings import Guards
from sortition.core.intake import Intake, UpdateVerdict
from sortition.core.one_thread import OneThread
from sortition.core.questions import Measure, Reading
from sortition.core.rounds import Cohort, Round, check_cohort
from sortition.core.selector import Asking, Needs, Selector
from sortition.core.state import State
from sortition.core.streams import stream

if TYPE_CHECKING:
    from sortition.core.observer import Observer


@dataclass(frozen=True, slots=True)
class Asked:
    """One question as the meter saw it: numbers per client, without the model itself."""

    signal: str
    of: str
    asked: int
    answered: int
    floats_down: int
    floats_up: int
    rehearsed: int  # members of the cohort of a rehearsal; 0 without one


@dataclass(frozen=True, slots=True, eq=False)
class TurnContext:
    """What a turn is given of its registrar.

    Attributes:
        selection: is the same for all turns of one registrar.
        selector: the method that chooses.
        guards: how far clients are trusted.
        seed: of the draws of this selection.
        index: the round, from 0.
        shapes: the shapes of vector signals' rows that are known.
        longest: the largest length that a vector may have where its shape is not known.
        available: all clients that were available, eligible or not.
        excluded: the available clients that a policy left out, by rule.
        kept_out: the available clients that the guards kept out, by guard.
        just_come: available clients that are new, or back after an absence, where the guards ask.
        scale: gives how long the rows of a signal usually are, where that is remembered.
        shortest: gives the length to which updates are shortened while there is no scale.
        capped: a mask (N,) of the clients whose facts are shown smaller than they were given.
        reweighted: gives a cohort the weights that the guards set.
        observer: sees questions and answers.
        version: of the model that the cohort trains.
        in_flight: sorted ids of the clients that are at work.
        clock: seconds since the start; None where there is no clock.
        late: is called for an answer that comes after the turn was closed.
        thread: refuses a second thread.
    """

    selection: object
    selector: Selector[Any]
    guards: Guards
    seed: int
    index: int
    shapes: Mapping[str, tuple[int, ...]]
    longest: int
    available: Ids
    excluded: Mapping[str, Ids]
    kept_out: Mapping[str, Ids]
    just_come: Ids
    scale: Callable[[str], float | None]
    shortest: Callable[[Floats], float]
    capped: Array | None
    reweighted: Callable[[Cohort], Cohort]
    observer: Observer | None
    version: int
    in_flight: Ids
    clock: float | None
    late: Callable[[], None]
    thread: OneThread

    @property
    def owner(self) -> str:
        """The method's name, as messages have it."""
        return type(self.selector).__name__


class Turn:
    """One round's selection in progress: answer ``question`` until it is None, then ``cohort`` is there.

    A turn that is abandoned has no question and an empty cohort, so that a loop over its questions ends.
    """

    def __init__(self, context: TurnContext, state: State, round: Round | None, guarded: Mapping[str, Any]) -> None:
        self.round = round
        self.state = state
        self.question: Measure | None = None
        self.cohort: Cohort | None = None
        self.asked: list[Asked] = []
        self.scales: Mapping[str, float] = {}  # remembered when the turn began, by signal
        self.durations: Floats | None = None  # seconds of those who completed, once the turn is finished
        self.usable: Ids | None = None  # whose updates may be aggregated, once the turn is finished
        self.intake = Intake(
            selector=context.selector,
            guards=context.guards,
            shapes=dict(context.shapes),
            scale=context.scale,
            shortest=context.shortest,
            longest=context.longest,
            just_come=context.just_come,
            guarded=dict(guarded),
        )
        self.shortfall = 0 if round is None else round.budget - round.places  # places that no client can fill
        self.open = True
        self._context = context
        self._asking: Asking | None = None
        if round is None:
            reason = "too few eligible" if guarded else "nobody available"
            if context.excluded:
                reason = "nobody eligible"
            self.cohort = self._noted(Cohort.uniform([], notes={"skipped": reason}))
            return
        choice = context.selector.select(state, round)
        if isinstance(choice, Generator):
            self._asking = choice
            self._advance(None)
        else:
            self.cohort = self._final(choice, round)

    @property
    def index(self) -> int:
        """The round, from 0."""
        return self._context.index

    @property
    def rejected(self) -> dict[int, str]:
        """Client → why something that it sent was withheld."""
        return self.intake.rejected

    @property
    def blamed(self) -> dict[int, str]:
        """Client → why its update is unsound."""
        return self.intake.blamed

    @property
    def excused(self) -> set[int]:
        """Clients whose refused update is no strike."""
        return self.intake.excused

    @property
    def guarded(self) -> dict[str, Any]:
        """What the guards did."""
        return self.intake.guarded

    @property
    def version(self) -> int:
        """Of the model that the cohort trains."""
        return self._context.version

    @property
    def in_flight(self) -> Ids:
        """Sorted ids of the clients that were at work when it began."""
        return self._context.in_flight

    @property
    def clock(self) -> float | None:
        """Seconds since the start when it began."""
        return self._context.clock

    @property
    def selection(self) -> object:
        """The same for all turns of one registrar."""
        return self._context.selection

    @property
    def needs(self) -> Needs:
        """What the method reads, asks and wants reported."""
        return self._context.selector.needs

    @property
    def available(self) -> Ids:
        """All clients that were available, eligible or not."""
        return self._context.available

    @property
    def excluded(self) -> Mapping[str, Ids]:
        """The available clients that a policy left out, by the key of its rule."""
        return self._context.excluded

    @property
    def kept_out(self) -> Mapping[str, Ids]:
        """The available clients that the guards kept out, by ``quarantined``, ``ceiling``, ``returning``, ``quota``."""
        return self._context.kept_out

    @property
    def skipped(self) -> bool:
        """Nobody was available, or too few were eligible; the turn can only be finished."""
        return self.round is None

    def close(self, *, abandoned: bool = False) -> None:
        """Take no more answers; an abandoned turn ends with nobody chosen."""
        self.open = False
        if abandoned:
            self.question, self._asking = None, None
            self.cohort = Cohort.uniform([], notes={"skipped": "abandoned"})

    # -- answers ---------------------------------------------------------------------------------------------------

    def answer(self, answers: Answers) -> None:
        """Answer the open question, with fewer rows than asked where clients are silent.

        Unsound rows are withheld from the selector and counted; an answer to a closed question is counted and ignored.
        """
        with self._context.thread.inside():
            if not self.open:
                self._context.late()
            elif self.question is None:
                self.intake.counters["late"] += 1
            else:
                self._answer(self.question, answers)

    def _answer(self, question: Measure, answers: Answers) -> None:
        answers = in_order_asked(question.signal, answers, question.ids)
        reading = self.intake.accept(question.signal, answers, question.ids)
        if self._context.observer is not None:
            self._context.observer.answered(self, question, answers)
        self.asked.append(_metered(question, reading))
        self._advance(reading)

    def blame(self, clients: Mapping[int, str]) -> None:
        """Note that members of the cohort sent an unsound update, and why: a strike each, as for an unsound report."""
        if not isinstance(clients, Mapping):
            raise bad("turn.blame", "given a mapping from client ids to reasons", clients)
        ids = as_ids("turn.blame(clients)", list(clients))
        members = np.empty(0, np.int64) if self.cohort is None else np.sort(self.cohort.ids)
        outside = not_among(ids, members)
        if outside.size:
            raise bad("turn.blame(clients)", "members of the cohort", f"client {int(outside[0])}")
        self.intake.blamed |= {client: clients[client] for client in ids.tolist()}

    def judge_updates(self, ids: Ids, norms: Floats) -> UpdateVerdict:
        """Judge the updates of members of the cohort by their lengths ‖Δ_k‖ (k,), in the order of ``ids``.

        Whoever aggregates leaves out those that are refused, blames their clients (:meth:`blame`), and shortens what
        is longer than ``longest``: each update, and the update that they make together.
        """
        return self.intake.judge_updates(ids, norms)

    # -- the choice ------------------------------------------------------------------------------------------------

    def _advance(self, reading: Reading | None) -> None:
        if self._asking is None or self.round is None:
            raise InputError("turn.answer must be called while a question is open.")
        self.question = None
        try:
            question = next(self._asking) if reading is None else self._asking.send(reading)
        except StopIteration as stop:
            self.cohort = self._final(stop.value, self.round)
            return
        self.question = check_question(question, self.round, self.needs, self._context.owner)

    def _final(self, choice: object, round: Round) -> Cohort:
        """The selector's cohort, checked, with explorers where an exploration floor is set."""
        context, guards = self._context, self._context.guards
        cohort = check_cohort(choice, round, context.owner)
        if guards.explore:
            rng = stream(context.seed, "exploration", self.index)
            cohort, drawn = explored(cohort, round, guards.explore, rng)
            if drawn.size:
                self.guarded["explored"] = drawn.tolist()
        cohort = context.reweighted(cohort)
        if 0 < cohort.ids.size < guards.minimum:
            self.guarded["too_few_chosen"] = int(cohort.ids.size)
            cohort = Cohort.uniform([], notes=cohort.notes)
        if context.capped is not None and (cut := int(context.capped[cohort.ids].sum())):
            self.guarded["capped"] = cut
        return self._noted(cohort)

    def _noted(self, cohort: Cohort) -> Cohort:
        """The cohort whose notes say what the guards did, and how many places stay empty."""
        notes: dict[str, Any] = {"guards": dict(self.guarded)} if self.guarded else {}
        if self.shortfall and not cohort.full:
            notes["shortfall"] = self.shortfall
        return replace(cohort, notes={**cohort.notes, **notes}) if notes else cohort


def check_question(question: object, round: Round, needs: Needs, owner: str) -> Measure:
    """The question, if the method declared it and the clients are available."""
    if not isinstance(question, Measure):
        raise bad(f"{owner}.select", "a generator that yields Measure", question)
    if question.signal not in needs.asks:
        raise UndeclaredError(f"{owner} asked for {question.signal.name!r}, which its needs.asks do not declare.")
    outside = not_among(question.ids, round.available)
    if outside.size:
        raise bad(f"{owner}'s question", "to available clients", f"client {int(outside[0])}")
    if question.after is not None:
        check_cohort(question.after, round, f"{owner}'s rehearsal")
    return question


def _metered(question: Measure, reading: Reading) -> Asked:
    signal, asked = question.signal, question.ids.size
    rehearsed = 0 if question.after is None else question.after.ids.size
    return Asked(
        signal.name, signal.of, asked, len(reading), signal.floats_down * asked, int(reading.values.size), rehearsed
    )

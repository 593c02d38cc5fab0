"""The one place that advances a selection: a turn asks, screens the answers, and ends in a cohort."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sortition.core.arrays import Array, Floats, Ids, as_ids, find_outside
from sortition.core.cohort import NOBODY, Cohort, Notes, Round, check_cohort
from sortition.core.errors import InputError, UndeclaredError, bad
from sortition.core.guards.answer_screening import Answers, RowShape, sort_as_asked
from sortition.core.guards.exploration import add_explorers
from sortition.core.guards.settings import Guards
from sortition.core.intake import Intake, UpdateVerdict
from sortition.core.one_thread import OneThread
from sortition.core.questions import Measure, Reading
from sortition.core.selector import AnySelector, Asking, Needs
from sortition.core.state import State
from sortition.core.streams import stream

if TYPE_CHECKING:
    from sortition.core.observer import Observer


@dataclass(frozen=True, slots=True)
class MeteredQuestion:
    """One question as the meter saw it.

    Attributes:
        signal: the name of what was asked.
        depends_on: what the signal depends on: "model", "training", "device" or "pairs".
        n_asked: clients that were asked.
        n_answered: clients of whom a sound row came.
        floats_down: numbers that were sent to all of them, without the model itself.
        floats_up: numbers that came back from all of them.
        n_rehearsed: members of the cohort of a rehearsal; 0 without one.
    """

    signal: str
    depends_on: str
    n_asked: int
    n_answered: int
    floats_down: int
    floats_up: int
    n_rehearsed: int


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """What is going on when a turn begins.

    Attributes:
        in_flight: sorted ids of the clients that are at work.
        clock: seconds since the start; None where there is no clock.
        deadline: seconds after which nobody waits for the chosen any longer; None where there is none, or nobody knows.
    """

    in_flight: Ids
    clock: float | None = None
    deadline: float | None = None

    def __post_init__(self) -> None:
        if self.deadline is not None and not self.deadline > 0:
            raise bad("deadline", "seconds > 0, or None", self.deadline)


@dataclass(frozen=True, slots=True, eq=False)
class TurnContext:
    """What a turn is given of its registrar.

    Attributes:
        registrar_token: an object that all turns of one registrar share.
        selector: the method that chooses.
        guards: how far clients are trusted.
        seed: of the draws of this selection.
        index: the round, from 0.
        row_shapes: the shape of one client's row, by vector signal, where it is known.
        largest_dimension: the largest dimension that a vector may have where its shape is not known.
        available: all clients that were available, eligible or not.
        excluded: the available clients that a policy left out, by rule.
        kept_out: the available clients that the guards kept out, by guard.
        just_come: available clients that are new, or back after an absence, where the guards ask.
        scale_of: returns the usual norm of a signal's rows, where that is remembered.
        limit_without_scale: returns the norm to which updates are shortened while there is no scale.
        capped: a mask (N,) of the clients whose facts are shown smaller than they were given.
        reweigh: returns a cohort with the weights that the guards set.
        observer: sees questions and answers.
        version: of the model that the cohort trains.
        moment: what was going on when the turn began.
        count_late_answer: is called for an answer that comes after the turn was closed.
        one_thread: refuses a second thread while one is inside.
    """

    registrar_token: object
    selector: AnySelector
    guards: Guards
    seed: int
    index: int
    row_shapes: Mapping[str, RowShape]
    largest_dimension: int
    available: Ids
    excluded: Mapping[str, Ids]
    kept_out: Mapping[str, Ids]
    just_come: Ids
    scale_of: Callable[[str], float | None]
    limit_without_scale: Callable[[Floats], float]
    capped: Array | None
    reweigh: Callable[[Cohort], Cohort]
    observer: Observer | None
    version: int
    moment: Moment
    count_late_answer: Callable[[], None]
    one_thread: OneThread

    @property
    def method_name(self) -> str:
        """The method's name, as messages have it."""
        return type(self.selector).__name__


class Turn:
    """One round's selection in progress: answer ``question`` until it is None, then ``cohort`` is there.

    A turn that is abandoned has no question and an empty cohort, so that a loop over its questions ends.

    Attributes:
        round: what the method chooses from; None where nobody can be chosen.
        state: what the method remembers, a copy that counts when the cohort is dispatched.
        question: the open question.
        cohort: who was chosen, once no question is open.
        metered_questions: the questions that were answered, as the meter saw them.
        scales: the usual norms of rows, by signal, as remembered when the turn began.
        durations: seconds of those who completed, once the turn is finished.
        usable: whose updates may be aggregated, once the turn is finished.
        intake: what clients sent.
        shortfall: places that no client can fill.
        is_open: whether answers are still taken.
    """

    def __init__(self, context: TurnContext, state: State, round: Round | None, guarded: Mapping[str, object]) -> None:
        self.round = round
        self.state = state
        self.question: Measure | None = None
        self.cohort: Cohort | None = None
        self.metered_questions: list[MeteredQuestion] = []
        self.scales: Mapping[str, float] = {}
        self.durations: Floats | None = None
        self.usable: Ids | None = None
        self.intake = Intake(
            selector=context.selector,
            guards=context.guards,
            row_shapes=dict(context.row_shapes),
            scale_of=context.scale_of,
            limit_without_scale=context.limit_without_scale,
            largest_dimension=context.largest_dimension,
            just_come=context.just_come,
            guarded=dict(guarded),
        )
        self.shortfall = 0
        self.is_open = True
        self._context = context
        self._asking: Asking | None = None
        if round is None:
            self.cohort = self._add_notes(Cohort.uniform([], notes={"skipped": self._why_skipped()}))
            return
        self.shortfall = round.budget - round.places
        choice = context.selector.select(state, round)
        if isinstance(choice, Generator):
            self._asking = choice
            self._advance(None)
        else:
            self.cohort = self._take_choice(choice, round)

    def _why_skipped(self) -> str:
        """Say why nobody can be chosen."""
        if self._context.excluded:
            return "nobody eligible"
        if self.guarded:
            return "too few eligible"
        return "nobody available"

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
    def guarded(self) -> Notes:
        """What the guards did."""
        return self.intake.guarded

    @property
    def version(self) -> int:
        """The version of the model that the cohort trains."""
        return self._context.version

    @property
    def in_flight(self) -> Ids:
        """Sorted ids of the clients that were at work when it began."""
        return self._context.moment.in_flight

    @property
    def clock(self) -> float | None:
        """Seconds since the start when it began."""
        return self._context.moment.clock

    @property
    def deadline(self) -> float | None:
        """Seconds after which nobody waits for the chosen any longer, where that was known."""
        return self._context.moment.deadline

    @property
    def registrar_token(self) -> object:
        """The same for all turns of one registrar."""
        return self._context.registrar_token

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
        """Whether nobody was available, or too few were eligible; such a turn can only be finished."""
        return self.round is None

    def close(self, *, abandoned: bool = False) -> None:
        """Take no more answers; an abandoned turn ends with nobody chosen."""
        self.is_open = False
        if abandoned:
            self.question = None
            self._asking = None
            self.cohort = Cohort.uniform([], notes={"skipped": "abandoned"})

    # -- answers ---------------------------------------------------------------------------------------------------

    def answer(self, answers: Answers) -> None:
        """Answer the open question, with fewer rows than asked where clients are silent.

        Unsound rows are withheld from the selector and counted; an answer to a closed question is counted and ignored.
        """
        with self._context.one_thread:
            if not self.is_open:
                self._context.count_late_answer()
            elif self.question is None:
                self.intake.counters["late"] += 1
            else:
                self._answer(self.question, answers)

    def _answer(self, question: Measure, answers: Answers) -> None:
        answers = sort_as_asked(question.signal, answers, question.ids)
        reading = self.intake.accept(question.signal, answers, question.ids)
        if self._context.observer is not None:
            self._context.observer.answered(self, question, answers)
        self.metered_questions.append(_meter(question, reading))
        self._advance(reading)

    def blame(self, clients: Mapping[int, str]) -> None:
        """Note that members of the cohort sent an unsound update, and why: a strike each, as for an unsound report."""
        if not isinstance(clients, Mapping):
            raise bad("turn.blame", "given a mapping from client ids to reasons", clients)
        with self._context.one_thread:
            ids = as_ids("turn.blame(clients)", list(clients))
            members = NOBODY
            if self.cohort is not None:
                members = np.sort(self.cohort.ids)
            outside = find_outside(ids, members)
            if outside.size:
                raise bad("turn.blame(clients)", "members of the cohort", f"client {int(outside[0])}")
            self.intake.blamed |= {client: clients[client] for client in ids.tolist()}

    def judge_updates(self, ids: Ids, norms: Floats) -> UpdateVerdict:
        """Judge the updates about to be aggregated by their norms ‖Δ_i‖, shape (k,), in the order of ``ids``.

        Whoever aggregates leaves out those that are refused, blames their clients (:meth:`blame`), and shortens what
        exceeds ``norm_limit``: each update, and the update that they make together. The norms are recorded for the
        scale that the guards remember; where a client's update is judged again, its last norm counts.
        """
        with self._context.one_thread:
            return self.intake.judge_updates(ids, norms)

    # -- the choice ------------------------------------------------------------------------------------------------

    def _advance(self, reading: Reading | None) -> None:
        """Hand the method an answer, none at first, and take its next question or its cohort."""
        if self._asking is None or self.round is None:
            raise InputError("turn.answer must be called while a question is open.")
        self.question = None
        try:
            if reading is None:
                question = next(self._asking)
            else:
                question = self._asking.send(reading)
        except StopIteration as stop:
            self.cohort = self._take_choice(stop.value, self.round)
            return
        self.question = check_question(question, self.round, self.needs, self._context.method_name)

    def _take_choice(self, choice: object, round: Round) -> Cohort:
        """Check the cohort that the method chose, let the guards change it, and return it with notes."""
        context = self._context
        guards = context.guards
        cohort = check_cohort(choice, round, context.method_name)
        if guards.explore:
            rng = stream(context.seed, "exploration", self.index)
            cohort, explorers = add_explorers(cohort, round, guards.explore, rng)
            if explorers.size:
                self.guarded["explored"] = explorers.tolist()
        cohort = context.reweigh(cohort)
        if 0 < cohort.ids.size < guards.minimum:
            self.guarded["too_few_chosen"] = int(cohort.ids.size)
            cohort = Cohort.uniform([], notes=cohort.notes)
        if context.capped is not None:
            n_capped = int(context.capped[cohort.ids].sum())
            if n_capped:
                self.guarded["capped"] = n_capped
        return self._add_notes(cohort)

    def _add_notes(self, cohort: Cohort) -> Cohort:
        """Return the cohort with notes that say what the guards did, and how many places stay empty."""
        notes: Notes = {}
        if self.guarded:
            notes["guards"] = dict(self.guarded)
        if self.shortfall and not cohort.full:
            notes["shortfall"] = self.shortfall
        if not notes:
            return cohort
        return replace(cohort, notes={**cohort.notes, **notes})


def check_question(question: object, round: Round, needs: Needs, method_name: str) -> Measure:
    """Return the question; refuse one that the method did not declare, and one to clients that are not available."""
    if not isinstance(question, Measure):
        raise bad(f"{method_name}.select", "a generator that yields Measure", question)
    if question.signal not in needs.questions:
        raise UndeclaredError(f"{method_name} asked for {question.signal.name!r}, which its needs.asks do not declare.")
    outside = find_outside(question.ids, round.available)
    if outside.size:
        raise bad(f"{method_name}'s question", "to available clients", f"client {int(outside[0])}")
    if question.after is not None:
        check_cohort(question.after, round, f"{method_name}'s rehearsal")
    return question


def _meter(question: Measure, reading: Reading) -> MeteredQuestion:
    n_rehearsed = 0
    if question.after is not None:
        n_rehearsed = question.after.ids.size
    return MeteredQuestion(
        signal=question.signal.name,
        depends_on=question.signal.of,
        n_asked=question.ids.size,
        n_answered=len(reading),
        floats_down=question.signal.floats_down * question.ids.size,
        floats_up=int(reading.values.size),
        n_rehearsed=n_rehearsed,
    )

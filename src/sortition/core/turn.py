"""The one place that advances a selection: a turn asks, is answered, and ends in a cohort."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sortition.core.errors import InputError
from sortition.core.guards.exploration import explored
from sortition.core.guards.screening import Answers
from sortition.core.questions import Measure, Reading
from sortition.core.rounds import Cohort, Round, check_cohort
from sortition.core.selector import Asking
from sortition.core.state import State
from sortition.core.streams import stream

if TYPE_CHECKING:
    from sortition.core.registrar import Registrar


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


class Turn:
    """One round's selection in progress: answer ``question`` until it is None, then ``cohort`` is there."""

    def __init__(
        self, registrar: Registrar, state: State, round: Round | None, index: int, guarded: Mapping[str, Any]
    ) -> None:
        self.index = index
        self.round = round
        self.state = state
        self.question: Measure | None = None
        self.cohort: Cohort | None = None
        self.asked: list[Asked] = []
        self.rejected: dict[int, str] = {}
        self.blamed: dict[int, str] = {}
        self.guarded = dict(guarded)
        self.shortfall = 0 if round is None else round.budget - round.places  # places that nobody is there to fill
        self.counters = {"late": 0, "rejected": 0}  # these and the shapes become the registrar's when the turn finishes
        self.shapes = dict(registrar.shapes)
        self.open = True
        self._registrar = registrar
        self._asking: Asking | None = None
        if round is None:
            reason = "too few eligible" if guarded else "nobody available"
            self.cohort = self._noted(Cohort.uniform([], notes={"skipped": reason}))
            return
        choice = registrar.selector.select(state, round)
        if isinstance(choice, Generator):
            self._asking = choice
            self._advance(None)
        else:
            self.cohort = self._leaving(choice, round)

    @property
    def skipped(self) -> bool:
        """Nobody was available, or too few eligible; there is nothing to do but to finish."""
        return self.round is None

    def answer(self, answers: Answers) -> None:
        """Answer the open question, with fewer rows than asked where clients are silent.

        Unsound rows are withheld from the selector and counted; an answer to a closed question is counted and ignored.
        """
        if self.question is None or not self.open:
            (self.counters if self.open else self._registrar.counters)["late"] += 1
            return
        question = self.question
        reading = self._registrar.let_in(self, question.signal, answers, question.ids)
        if self._registrar.observer is not None:
            self._registrar.observer.answered(self, question, answers)
        self.asked.append(
            Asked(
                question.signal.name,
                question.signal.of,
                question.ids.size,
                len(reading),
                question.signal.floats_down * question.ids.size,
                int(reading.values.size),
                0 if question.after is None else question.after.ids.size,
            )
        )
        self._advance(reading)

    def _advance(self, reading: Reading | None) -> None:
        if self._asking is None or self.round is None:
            raise InputError("turn.answer must be called while a question is open.")
        self.question = None
        try:
            question = next(self._asking) if reading is None else self._asking.send(reading)
        except StopIteration as stop:
            self.cohort = self._leaving(stop.value, self.round)
            return
        self.question = self._registrar.check_question(question, self.round)

    def _leaving(self, choice: object, round: Round) -> Cohort:
        """The selector's cohort, checked, with explorers where an exploration floor is set."""
        registrar = self._registrar
        cohort = check_cohort(choice, round, registrar.owner)
        guards, capped = registrar.guards, registrar.eligibility.capped
        if guards.explore:
            rng = stream(registrar.seed, "exploration", self.index)
            cohort, lot = explored(cohort, round, guards.explore, rng)
            self.guarded |= {"explored": lot.tolist()} if lot.size else {}
        if 0 < cohort.ids.size < guards.minimum:
            self.guarded["too_few_chosen"] = int(cohort.ids.size)
            cohort = Cohort.uniform([], notes=cohort.notes)
        if capped is not None and (cut := int(capped[cohort.ids].sum())):
            self.guarded["capped"] = cut
        return self._noted(cohort)

    def _noted(self, cohort: Cohort) -> Cohort:
        """What the guards did, and how many places stay empty, stands in the cohort's notes."""
        told: dict[str, Any] = {"guards": dict(self.guarded)} if self.guarded else {}
        if self.shortfall and not cohort.full:
            told["shortfall"] = self.shortfall
        return replace(cohort, notes={**cohort.notes, **told}) if told else cohort

    def blame(self, clients: Mapping[int, str]) -> None:
        """Members of the cohort sent an unsound update, for these reasons: a strike each, like an unsound report."""
        self.blamed |= clients

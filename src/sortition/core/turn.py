"""The one place that advances a selection: a turn asks, is answered, and ends in a cohort."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sortition.core.errors import InputError
from sortition.core.intake import Answers, sift
from sortition.core.questions import Measure, Reading
from sortition.core.rounds import Cohort, Round, check_cohort
from sortition.core.selector import Asking
from sortition.core.state import State

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

    def __init__(self, registrar: Registrar, state: State, round: Round | None, index: int) -> None:
        self.index = index
        self.round = round
        self.state = state
        self.question: Measure | None = None
        self.cohort: Cohort | None = None
        self.asked: list[Asked] = []
        self.rejected: dict[int, str] = {}
        self.open = True
        self._registrar = registrar
        self._asking: Asking | None = None
        if round is None:
            self.cohort = Cohort.uniform([], notes={"skipped": "nobody available"})
            return
        choice = registrar.selector.select(state, round)
        if isinstance(choice, Generator):
            self._asking = choice
            self._advance(None)
        else:
            self.cohort = check_cohort(choice, round, registrar.owner)

    @property
    def skipped(self) -> bool:
        """Nobody was available; there is nothing to do but to finish."""
        return self.round is None

    def answer(self, answers: Answers) -> None:
        """Answer the open question, with fewer rows than asked where clients are silent.

        Unsound rows are withheld from the selector and counted; an answer to a closed question is counted and ignored.
        """
        if self.question is None or not self.open:
            self._registrar.count("late")
            return
        question = self.question
        shape = self._registrar.shapes.get(question.signal.name)
        reading, rejected = sift(question.signal, answers, question.ids, shape)
        self._registrar.reject(self, question.signal, reading, rejected)
        if self._registrar.witness is not None:
            self._registrar.witness.answered(self, question, answers)
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
            self.cohort = check_cohort(stop.value, self.round, self._registrar.owner)
            return
        self.question = self._registrar.check_question(question, self.round)
